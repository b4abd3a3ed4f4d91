//! Statements on the table `snapshots`.

use std::sync::LazyLock;

use async_trait::async_trait;
use sandbox_api::{SandboxId, SnapshotId};
use sqlx::sqlite::SqliteRow;

use super::Database;
use super::error::bad_row;
use crate::Error;
use crate::backend::SnapshotTable;
use crate::rows::snapshots::{RestoreRow, SnapshotRow};
use crate::rows::sql;
use sandboxd_model::{RestoreRecord, SnapshotCursor, SnapshotRecord, SnapshotState};

static SELECT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM snapshots", sql::list(SnapshotRow::COLUMNS)));
static ALL: LazyLock<String> = LazyLock::new(|| format!("{} ORDER BY created_at_ms DESC, id DESC", *SELECT));
static ONE: LazyLock<String> = LazyLock::new(|| format!("{} WHERE id = $1", *SELECT));
static OF_SANDBOX: LazyLock<String> = LazyLock::new(|| {
    format!("{} WHERE sandbox_id = $1 ORDER BY created_at_ms DESC, id DESC LIMIT $2", *SELECT)
});
static OF_SANDBOX_BEFORE: LazyLock<String> = LazyLock::new(|| {
    let before = "(created_at_ms, id) < ($3, $4)";
    format!("{} WHERE sandbox_id = $1 AND {before} ORDER BY created_at_ms DESC, id DESC LIMIT $2", *SELECT)
});
static NEWEST: LazyLock<String> = LazyLock::new(|| format!("{} LIMIT $1", *ALL));
static NEWEST_BEFORE: LazyLock<String> = LazyLock::new(|| {
    let before = "(created_at_ms, id) < ($2, $3)";
    format!("{} WHERE {before} ORDER BY created_at_ms DESC, id DESC LIMIT $1", *SELECT)
});
static EXPIRED: LazyLock<String> =
    LazyLock::new(|| format!("{} WHERE expires_at_ms <= $1 ORDER BY expires_at_ms, id LIMIT $2", *SELECT));
static SURPLUS: LazyLock<String> = LazyLock::new(|| {
    let automatic = "sandbox_id = $1 AND automatic = 1";
    format!("{} WHERE {automatic} ORDER BY created_at_ms DESC, id DESC LIMIT $2 OFFSET $3", *SELECT)
});
static INSERT: LazyLock<String> = LazyLock::new(|| sql::insert("snapshots", SnapshotRow::COLUMNS));

static ALL_RESTORES: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM restores ORDER BY sandbox_id", sql::list(RestoreRow::COLUMNS)));
static PUT_RESTORE: LazyLock<String> =
    LazyLock::new(|| sql::insert("restores", RestoreRow::COLUMNS).replacen("INSERT", "INSERT OR REPLACE", 1));

#[async_trait]
impl SnapshotTable for Database {
    async fn snapshots(&self) -> Result<Vec<SnapshotRecord>, Error> {
        let select = sqlx::query(ALL.as_str());
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read).collect()
    }

    async fn snapshot(&self, id: &SnapshotId) -> Result<Option<SnapshotRecord>, Error> {
        let select = sqlx::query(ONE.as_str()).bind(id.to_string());
        let row = self.read(|conn| Box::pin(select.fetch_optional(conn))).await?;
        row.as_ref().map(read).transpose()
    }

    async fn snapshots_of(
        &self,
        sandbox: &SandboxId,
        before: Option<&SnapshotCursor>,
        limit: u32,
    ) -> Result<Vec<SnapshotRecord>, Error> {
        let select = match before {
            None => sqlx::query(OF_SANDBOX.as_str()).bind(sandbox.to_string()).bind(limit),
            Some(before) => {
                let select = sqlx::query(OF_SANDBOX_BEFORE.as_str()).bind(sandbox.to_string()).bind(limit);
                select.bind(before.created_at_ms).bind(before.id.to_string())
            }
        };
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read).collect()
    }

    async fn newest_snapshots(
        &self,
        before: Option<&SnapshotCursor>,
        limit: u32,
    ) -> Result<Vec<SnapshotRecord>, Error> {
        let select = match before {
            None => sqlx::query(NEWEST.as_str()).bind(limit),
            Some(before) => {
                let select = sqlx::query(NEWEST_BEFORE.as_str()).bind(limit);
                select.bind(before.created_at_ms).bind(before.id.to_string())
            }
        };
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read).collect()
    }

    async fn expired_snapshots(&self, now_ms: i64, limit: u32) -> Result<Vec<SnapshotRecord>, Error> {
        let select = sqlx::query(EXPIRED.as_str()).bind(now_ms).bind(limit);
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read).collect()
    }

    async fn surplus_checkpoints(
        &self,
        sandbox: &SandboxId,
        keep: u32,
        limit: u32,
    ) -> Result<Vec<SnapshotRecord>, Error> {
        let select = sqlx::query(SURPLUS.as_str()).bind(sandbox.to_string()).bind(limit).bind(keep);
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read).collect()
    }

    async fn insert_snapshot(&self, record: &SnapshotRecord) -> Result<(), Error> {
        let insert = self.write(record, |conn, record| {
            Box::pin(SnapshotRow::from(record).bind(sqlx::query(INSERT.as_str())).execute(conn))
        });
        insert.await.map(drop)
    }

    async fn set_snapshot_state(&self, id: &SnapshotId, state: SnapshotState) -> Result<bool, Error> {
        let input = (id, state);
        let update = self.write(&input, |conn, (id, state)| {
            let update = sqlx::query("UPDATE snapshots SET state = $1 WHERE id = $2");
            Box::pin(update.bind(state.as_str()).bind(id.as_str()).execute(conn))
        });
        Ok(update.await?.rows_affected() > 0)
    }

    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<(), Error> {
        let delete = self.write_from_reserve(id, |conn, id| {
            Box::pin(sqlx::query("DELETE FROM snapshots WHERE id = $1").bind(id.as_str()).execute(conn))
        });
        delete.await.map(drop)
    }

    async fn restores(&self) -> Result<Vec<RestoreRecord>, Error> {
        let select = sqlx::query(ALL_RESTORES.as_str());
        let rows = self.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read_restore).collect()
    }

    async fn put_restore(&self, record: &RestoreRecord) -> Result<(), Error> {
        let put = self.write(record, |conn, record| {
            Box::pin(RestoreRow::from(record).bind(sqlx::query(PUT_RESTORE.as_str())).execute(conn))
        });
        put.await.map(drop)
    }

    async fn delete_restore(&self, sandbox: &SandboxId) -> Result<(), Error> {
        let delete = self.write_from_reserve(sandbox, |conn, sandbox| {
            let delete = sqlx::query("DELETE FROM restores WHERE sandbox_id = $1");
            Box::pin(delete.bind(sandbox.as_str()).execute(conn))
        });
        delete.await.map(drop)
    }
}

fn read_restore(row: &SqliteRow) -> Result<RestoreRecord, Error> {
    let record = RestoreRow::read(row).and_then(RestoreRow::record);
    record.map_err(bad_row("restores", "sandbox_id", row))
}

fn read(row: &SqliteRow) -> Result<SnapshotRecord, Error> {
    let record = SnapshotRow::read(row).and_then(SnapshotRow::record);
    record.map_err(bad_row("snapshots", "id", row))
}
