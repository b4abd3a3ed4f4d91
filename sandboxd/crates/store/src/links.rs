//! The rows of the links to previews.

use sandbox_api::LinkId;
use sqlx::sqlite::SqliteRow;

use super::row::{BadColumn, Columns};
use super::{Error, Store};
use sandboxd_model::preview::{self, LinkEnd, LinkRecord};

const PUT: &str = "INSERT INTO links (id, sandbox, port, style, door, created_at_ms, expires_at_ms) \
     VALUES (?, ?, ?, ?, ?, ?, ?)";

impl Store {
    /// All links that are kept, the oldest first.
    pub async fn links(&self) -> Result<Vec<LinkRecord>, Error> {
        let select = sqlx::query("SELECT * FROM links ORDER BY created_at_ms, id");
        let rows = self.db.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read).collect()
    }

    /// Writes a new link.
    pub async fn add_link(&self, link: &LinkRecord) -> Result<(), Error> {
        let insert = self.db.write(link, |conn, link| {
            let insert = sqlx::query(PUT)
                .bind(link.id.as_str())
                .bind(link.sandbox.as_str())
                .bind(link.port)
                .bind(preview::style_name(link.style))
                .bind(link.door)
                .bind(link.created_at_ms)
                .bind(link.expires_at_ms);
            Box::pin(insert.execute(conn))
        });
        insert.await.map(drop)
    }

    /// Writes that links lead nowhere any more, and since when in milliseconds since the Unix epoch.
    pub async fn end_links(&self, links: &[LinkId], end: LinkEnd, at_ms: i64) -> Result<(), Error> {
        let update = self.db.write_at_last(links, |conn, links| {
            Box::pin(async move {
                for link in links {
                    let update = "UPDATE links SET ended = ?, ended_at_ms = ? WHERE id = ? AND ended IS NULL";
                    let update = sqlx::query(update).bind(end.as_str()).bind(at_ms).bind(link.as_str());
                    update.execute(&mut *conn).await?;
                }
                Ok(())
            })
        });
        update.await
    }

    /// Forgets links.
    pub async fn forget_links(&self, links: &[LinkId]) -> Result<(), Error> {
        let delete = self.db.write(links, |conn, links| {
            Box::pin(async move {
                for link in links {
                    let delete = sqlx::query("DELETE FROM links WHERE id = ?").bind(link.as_str());
                    delete.execute(&mut *conn).await?;
                }
                Ok(())
            })
        });
        delete.await
    }
}

fn read(row: &SqliteRow) -> Result<LinkRecord, Error> {
    let columns = Columns(row);
    record(&columns).map_err(|bad| columns.name_it("links", bad))
}

fn record(columns: &Columns<'_>) -> Result<LinkRecord, BadColumn> {
    let ended: Option<String> = columns.get("ended")?;
    let ended = match ended {
        None => None,
        Some(text) => {
            let end = LinkEnd::parse(&text).ok_or(BadColumn("ended"))?;
            Some((end, columns.get("ended_at_ms")?))
        }
    };
    Ok(LinkRecord {
        id: columns.with("id", |text| text.parse().ok())?,
        sandbox: columns.with("sandbox", |text| text.parse().ok())?,
        port: columns.get("port")?,
        style: columns.with("style", preview::style)?,
        door: columns.get("door")?,
        created_at_ms: columns.get("created_at_ms")?,
        expires_at_ms: columns.get("expires_at_ms")?,
        ended,
    })
}
