//! Statements on the table `links`.

use std::sync::LazyLock;

use async_trait::async_trait;
use sandbox_api::LinkId;
use sqlx::sqlite::SqliteRow;

use super::Database;
use super::error::bad_row;
use crate::Error;
use crate::backend::LinkTable;
use crate::rows::links::LinkRow;
use crate::rows::sql;
use sandboxd_model::preview::{LinkEnd, LinkRecord};

static SELECT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM links ORDER BY created_at_ms, id", sql::list(LinkRow::COLUMNS)));
static INSERT: LazyLock<String> = LazyLock::new(|| sql::insert("links", LinkRow::COLUMNS));

#[async_trait]
impl LinkTable for Database {
    async fn links(&self) -> Result<Vec<LinkRecord>, Error> {
        let select = sqlx::query(SELECT.as_str());
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read).collect()
    }

    async fn insert_link(&self, link: &LinkRecord) -> Result<(), Error> {
        let insert = self.write(link, |conn, link| {
            Box::pin(LinkRow::from(link).bind(sqlx::query(INSERT.as_str())).execute(conn))
        });
        insert.await.map(drop)
    }

    async fn end_links(&self, links: &[LinkId], end: LinkEnd, at_ms: i64) -> Result<(), Error> {
        let update = self.write_from_reserve(links, |conn, links| {
            Box::pin(async move {
                for link in links {
                    let update =
                        "UPDATE links SET ended = $1, ended_at_ms = $2 WHERE id = $3 AND ended IS NULL";
                    let update = sqlx::query(update).bind(end.as_str()).bind(at_ms).bind(link.as_str());
                    update.execute(&mut *conn).await?;
                }
                Ok(())
            })
        });
        update.await
    }

    async fn delete_links(&self, links: &[LinkId]) -> Result<(), Error> {
        let delete = self.write(links, |conn, links| {
            Box::pin(async move {
                for link in links {
                    let delete = sqlx::query("DELETE FROM links WHERE id = $1").bind(link.as_str());
                    delete.execute(&mut *conn).await?;
                }
                Ok(())
            })
        });
        delete.await
    }
}

fn read(row: &SqliteRow) -> Result<LinkRecord, Error> {
    let record = LinkRow::read(row).and_then(LinkRow::record);
    record.map_err(bad_row("links", "id", row))
}
