//! Which instance and engine the rows belong to, and what of the engine belongs to no row.

use sqlx::{Row, SqliteConnection};

use super::row::saturated;
use super::{Error, Store};
use sandboxd_model::{Orphan, OrphanKind};

/// What the last start wrote down. Everything is `None` in a database of an older version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The id of the instance whose key the state dir had.
    pub instance: Option<String>,
    /// The engine's own id.
    pub engine: Option<String>,
    /// The random word of the engine's marker.
    pub marker: Option<String>,
    /// The random words of the last start, and of the one that was about to follow it.
    pub epoch: Option<String>,
    /// The number of the last start.
    pub epoch_number: u64,
}

impl Store {
    /// What the last start wrote down.
    pub async fn identity(&self) -> Result<Identity, Error> {
        let select = sqlx::query("SELECT instance, engine, marker, epoch, epoch_number FROM daemon");
        let read = self.db.read(|conn| {
            Box::pin(async move {
                let row = select.fetch_one(conn).await?;
                let number: i64 = row.try_get("epoch_number")?;
                Ok(Identity {
                    instance: row.try_get("instance")?,
                    engine: row.try_get("engine")?,
                    marker: row.try_get("marker")?,
                    epoch: row.try_get("epoch")?,
                    epoch_number: number.try_into().unwrap_or_default(),
                })
            })
        });
        read.await
    }

    /// Writes whose engine this is.
    pub async fn set_identity(&self, identity: &Identity) -> Result<(), Error> {
        let update = self.db.write_at_last(identity, |conn, identity| {
            let update = sqlx::query(
                "UPDATE daemon SET instance = ?, engine = ?, marker = ?, epoch = ?, epoch_number = ?",
            );
            let Identity { instance, engine, marker, epoch, epoch_number } = identity;
            Box::pin(
                update
                    .bind(instance)
                    .bind(engine)
                    .bind(marker)
                    .bind(epoch)
                    .bind(saturated(*epoch_number))
                    .execute(conn),
            )
        });
        update.await.map(drop)
    }

    /// What was seen on the engine without a sandbox.
    pub async fn orphans(&self) -> Result<Vec<Orphan>, Error> {
        let select = sqlx::query("SELECT * FROM orphans ORDER BY kind, name");
        let read = self.db.read(|conn| {
            Box::pin(async move {
                let rows = select.fetch_all(conn).await?;
                rows.iter().map(read).collect()
            })
        });
        read.await
    }

    /// Replaces what was seen on the engine without a sandbox.
    pub async fn set_orphans(&self, orphans: &[Orphan]) -> Result<(), Error> {
        self.db.write(orphans, |conn, orphans| Box::pin(replace(conn, orphans))).await
    }
}

async fn replace(conn: &mut SqliteConnection, orphans: &[Orphan]) -> Result<(), sqlx::Error> {
    sqlx::query("DELETE FROM orphans").execute(&mut *conn).await?;
    for orphan in orphans {
        let insert =
            sqlx::query("INSERT INTO orphans (kind, name, seen_at_age_ms, seen_at_ms) VALUES (?, ?, ?, ?)");
        let insert = insert.bind(orphan.kind.as_str()).bind(&orphan.name);
        insert.bind(saturated(orphan.seen_at_age_ms)).bind(orphan.seen_at_ms).execute(&mut *conn).await?;
    }
    Ok(())
}

fn read(row: &sqlx::sqlite::SqliteRow) -> Result<Orphan, sqlx::Error> {
    let kind: String = row.try_get("kind")?;
    let age: i64 = row.try_get("seen_at_age_ms")?;
    Ok(Orphan {
        kind: OrphanKind::parse(&kind).ok_or_else(|| sqlx::Error::ColumnNotFound("kind".into()))?,
        name: row.try_get("name")?,
        seen_at_age_ms: age.try_into().unwrap_or_default(),
        seen_at_ms: row.try_get("seen_at_ms")?,
    })
}
