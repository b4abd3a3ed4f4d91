//! Statements on the table `sandboxes`.

use std::sync::LazyLock;

use async_trait::async_trait;
use sandbox_api::SandboxId;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use super::Database;
use super::error::bad_row;
use crate::Error;
use crate::backend::SandboxTable;
use crate::rows::sandboxes::SandboxRow;
use crate::rows::sql;
use sandboxd_model::{SandboxRecord, Stage};

static SELECT: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT {} FROM sandboxes ORDER BY created_at_ms, id", sql::list(SandboxRow::COLUMNS))
});

static INSERT: LazyLock<String> = LazyLock::new(|| sql::insert("sandboxes", SandboxRow::COLUMNS));

/// Like [`INSERT`], but updates the row that has the same id, except what only [`CONFIRM`] changes. (`INSERT OR REPLACE`
/// would delete that row, and its history with it.)
static PUT: LazyLock<String> = LazyLock::new(|| {
    let columns: Vec<&str> =
        SandboxRow::COLUMNS.iter().copied().filter(|column| *column != "is_tentative").collect();
    format!("{} ON CONFLICT (id) DO UPDATE SET {}", *INSERT, sql::replacements(&columns))
});

const CONFIRM: &str = "UPDATE sandboxes SET is_tentative = 0 WHERE id = $1";

#[async_trait]
impl SandboxTable for Database {
    async fn sandboxes(&self) -> Result<Vec<SandboxRecord>, Error> {
        let select = sqlx::query(SELECT.as_str());
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read).collect()
    }

    async fn insert_sandbox(&self, record: &SandboxRecord) -> Result<(), Error> {
        self.write(record, |conn, record| Box::pin(write(&INSERT, record, conn))).await
    }

    async fn put_sandbox(&self, record: &SandboxRecord) -> Result<(), Error> {
        self.write_from_reserve(record, |conn, record| Box::pin(write(&PUT, record, conn))).await
    }

    async fn set_stage(&self, id: &SandboxId, stage: Stage) -> Result<bool, Error> {
        let input = (id, stage);
        let update = self.write_from_reserve(&input, |conn, (id, stage)| {
            let update = sqlx::query("UPDATE sandboxes SET stage = $1 WHERE id = $2");
            Box::pin(update.bind(stage.as_str()).bind(id.as_str()).execute(conn))
        });
        Ok(update.await?.rows_affected() > 0)
    }

    async fn set_stage_unless(&self, id: &SandboxId, stage: Stage, unless: Stage) -> Result<bool, Error> {
        let input = (id, stage, unless);
        let update = self.write_from_reserve(&input, |conn, (id, stage, unless)| {
            let update = sqlx::query("UPDATE sandboxes SET stage = $1 WHERE id = $2 AND stage <> $3");
            Box::pin(update.bind(stage.as_str()).bind(id.as_str()).bind(unless.as_str()).execute(conn))
        });
        Ok(update.await?.rows_affected() > 0)
    }

    async fn confirm_sandboxes(&self, ids: &[SandboxId]) -> Result<(), Error> {
        let confirm = self.write_from_reserve(ids, |conn, ids| {
            Box::pin(async move {
                for id in ids {
                    sqlx::query(CONFIRM).bind(id.as_str()).execute(&mut *conn).await?;
                }
                Ok(())
            })
        });
        confirm.await
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), Error> {
        let delete = self.write_from_reserve(id, |conn, id| {
            Box::pin(sqlx::query("DELETE FROM sandboxes WHERE id = $1").bind(id.as_str()).execute(conn))
        });
        delete.await.map(drop)
    }

    async fn load_sandboxes(&self, records: &[SandboxRecord]) -> Result<(), Error> {
        let load = self.write(records, |conn, records| {
            Box::pin(async move {
                for record in records {
                    write(&PUT, record, conn).await?;
                }
                sqlx::query("UPDATE daemon SET is_loaded = 1").execute(conn).await
            })
        });
        load.await.map(drop)
    }

    async fn touch_sandboxes(&self, seen: &[(SandboxId, i64)]) -> Result<(), Error> {
        let touch = self.write(seen, |conn, seen| {
            Box::pin(async move {
                for (id, at_ms) in seen {
                    let update = sqlx::query("UPDATE sandboxes SET last_active_ms = $1 WHERE id = $2");
                    update.bind(at_ms).bind(id.as_str()).execute(&mut *conn).await?;
                }
                Ok(())
            })
        });
        touch.await
    }
}

async fn write(
    statement: &'static str,
    record: &SandboxRecord,
    conn: &mut SqliteConnection,
) -> Result<(), sqlx::Error> {
    SandboxRow::from(record).bind(sqlx::query(statement)).execute(conn).await.map(drop)
}

fn read(row: &SqliteRow) -> Result<SandboxRecord, Error> {
    let record = SandboxRow::read(row).and_then(SandboxRow::record);
    record.map_err(bad_row("sandboxes", "id", row))
}
