//! Statements on the table `snapshots`.

use std::sync::LazyLock;

use async_trait::async_trait;
use sandbox_api::{SandboxId, SnapshotId};
use sqlx::sqlite::SqliteRow;

use super::Database;
use super::error::bad_row;
use super::values;
use crate::Error;
use crate::backend::SnapshotTable;
use crate::rows::owner::{project_column, subject_column};
use crate::rows::snapshots::{RestoreRow, SnapshotRow};
use crate::rows::sql;
use sandboxd_model::value::KeptValue;
use sandboxd_model::{Owner, RestoreRecord, SnapshotCursor, SnapshotRecord, SnapshotState, limits};

static SELECT: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM snapshots", sql::list(SnapshotRow::COLUMNS)));
static ALL: LazyLock<String> = LazyLock::new(|| format!("{} ORDER BY created_at_ms DESC, id DESC", *SELECT));
static ONE: LazyLock<String> = LazyLock::new(|| format!("{} WHERE id = $1", *SELECT));
static OF_SANDBOX: LazyLock<String> = LazyLock::new(|| {
    format!("{} WHERE sandbox_id = $1 ORDER BY created_at_ms DESC, id DESC LIMIT 1", *SELECT)
});
/// Selects what an owner covers ([`Owner::covers`]) before a position.
const OF_OWNER: &str = "project = $1 AND ($2 = '' OR subject = $2) AND (created_at_ms, id) < ($3, $4)";
static SEEN: LazyLock<String> =
    LazyLock::new(|| format!("{} WHERE {OF_OWNER} ORDER BY created_at_ms DESC, id DESC LIMIT $5", *SELECT));
static SEEN_OF_SANDBOX: LazyLock<String> = LazyLock::new(|| {
    format!("{} WHERE sandbox_id = $6 AND {OF_OWNER} ORDER BY created_at_ms DESC, id DESC LIMIT $5", *SELECT)
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
const DELETE_RESTORE: &str = "DELETE FROM restores WHERE sandbox_id = $1";

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

    async fn latest_snapshot_of(&self, sandbox: &SandboxId) -> Result<Option<SnapshotRecord>, Error> {
        let select = sqlx::query(OF_SANDBOX.as_str()).bind(sandbox.to_string());
        let row = self.read(|conn| Box::pin(select.fetch_optional(conn))).await?;
        row.as_ref().map(read).transpose()
    }

    async fn snapshots_seen_by(
        &self,
        owner: &Owner,
        sandbox: Option<&SandboxId>,
        before: Option<&SnapshotCursor>,
        limit: u32,
    ) -> Result<Vec<SnapshotRecord>, Error> {
        let statement = if sandbox.is_some() { &SEEN_OF_SANDBOX } else { &SEEN };
        let (created_at_ms, id) = position(before);
        let select = sqlx::query(statement.as_str()).bind(project_column(owner)).bind(subject_column(owner));
        let select = select.bind(created_at_ms).bind(id).bind(limit);
        let select = match sandbox {
            Some(sandbox) => select.bind(sandbox.to_string()),
            None => select,
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
            Box::pin(sqlx::query(DELETE_RESTORE).bind(sandbox.as_str()).execute(conn))
        });
        delete.await.map(drop)
    }

    async fn delete_restore_with(&self, sandbox: &SandboxId, values: &[KeptValue]) -> Result<(), Error> {
        let input = (sandbox, values);
        let delete = self.write_within(limits::REPLACE_VALUES, &input, |conn, (sandbox, values)| {
            Box::pin(async move {
                values::replace(conn, sandbox, values).await?;
                sqlx::query(DELETE_RESTORE).bind(sandbox.as_str()).execute(conn).await
            })
        });
        delete.await.map(drop)
    }
}

/// The columns of a position. Without one, it follows every snapshot.
fn position(before: Option<&SnapshotCursor>) -> (i64, String) {
    before.map_or((i64::MAX, char::MAX.to_string()), |before| (before.created_at_ms, before.id.to_string()))
}

fn read_restore(row: &SqliteRow) -> Result<RestoreRecord, Error> {
    let record = RestoreRow::read(row).and_then(RestoreRow::record);
    record.map_err(bad_row("restores", "sandbox_id", row))
}

fn read(row: &SqliteRow) -> Result<SnapshotRecord, Error> {
    let record = SnapshotRow::read(row).and_then(SnapshotRow::record);
    record.map_err(bad_row("snapshots", "id", row))
}
