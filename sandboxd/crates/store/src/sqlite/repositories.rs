//! Statements on the table `repositories`.

use std::sync::LazyLock;

use async_trait::async_trait;
use sqlx::sqlite::SqliteRow;

use super::Database;
use super::error::bad_row;
use crate::Error;
use crate::backend::RepositoryTable;
use crate::rows::repositories::RepositoryRow;
use crate::rows::sql;
use sandboxd_model::repository::{RepositoryKey, RepositoryRecord};

static SELECT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM repositories", sql::list(RepositoryRow::COLUMNS)));
static INSERT: LazyLock<String> = LazyLock::new(|| sql::insert("repositories", RepositoryRow::COLUMNS));

const DELETE: &str = "DELETE FROM repositories WHERE url = $1 AND commit_hash = $2 AND with_token = $3";

#[async_trait]
impl RepositoryTable for Database {
    async fn repositories(&self) -> Result<Vec<RepositoryRecord>, Error> {
        let select = sqlx::query(SELECT.as_str());
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read).collect()
    }

    async fn put_repository(&self, repository: &RepositoryRecord) -> Result<(), Error> {
        let put = self.write(repository, |conn, repository| {
            Box::pin(async move {
                delete(&repository.key).execute(&mut *conn).await?;
                RepositoryRow::from(repository).bind(sqlx::query(INSERT.as_str())).execute(conn).await
            })
        });
        put.await.map(drop)
    }

    async fn delete_repository(&self, key: &RepositoryKey) -> Result<(), Error> {
        let deleted = self.write_from_reserve(key, |conn, key| {
            Box::pin(async move { delete(key).execute(conn).await.map(drop) })
        });
        deleted.await
    }
}

fn delete(key: &RepositoryKey) -> sqlx::query::Query<'_, sqlx::Sqlite, sqlx::sqlite::SqliteArguments> {
    let delete = sqlx::query(DELETE).bind(key.origin.to_string()).bind(key.commit.as_str());
    delete.bind(i64::from(key.with_token))
}

fn read(row: &SqliteRow) -> Result<RepositoryRecord, Error> {
    let record = RepositoryRow::read(row).and_then(RepositoryRow::record);
    record.map_err(bad_row("repositories", "url", row))
}
