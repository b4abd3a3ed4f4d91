//! Statements on the table `history`: a copy of each command when its end becomes known, and what ended in contexts.

use std::sync::LazyLock;

use sandbox_api::{CommandId, SandboxId};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use super::Database;
use super::error::bad_row;
use crate::rows::commands::{EndRow, StartRow, record};
use crate::rows::context_entries::ContextRow;
use crate::rows::{number, saturated, sql, value};
use crate::{EndedCommand, Error};
use sandboxd_model::CommandRecord;
use sandboxd_model::context::ContextEntry;

/// The columns that both tables have.
static COLUMNS: LazyLock<String> =
    LazyLock::new(|| sql::list(&[StartRow::COLUMNS, EndRow::COLUMNS].concat()));

static COPY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT INTO history (number, {0}) SELECT \
         (SELECT coalesce(max(number), 0) + 1 FROM history WHERE sandbox = $1), {0} \
         FROM commands WHERE sandbox = $1 AND id = $2",
        *COLUMNS
    )
});

static NEWEST: LazyLock<String> = LazyLock::new(|| {
    format!(
        "SELECT number, {}, {} FROM history WHERE sandbox = $1 AND number < $2 ORDER BY number DESC LIMIT $3",
        *COLUMNS,
        sql::list(ContextRow::COLUMNS),
    )
});

/// Writes nothing for a sandbox that does not exist.
static INSERT: LazyLock<String> = LazyLock::new(|| {
    let columns = [StartRow::COLUMNS, EndRow::COLUMNS, ContextRow::COLUMNS].concat();
    format!(
        "INSERT INTO history (number, {}) SELECT \
         (SELECT coalesce(max(number), 0) + 1 FROM history WHERE sandbox = $1), {} \
         WHERE EXISTS (SELECT 1 FROM sandboxes WHERE id = $1)",
        sql::list(&columns),
        sql::placeholders(&columns),
    )
});

/// First finds the sandboxes with too many, which reads only the index. Their numbers have no gap.
const DELETE_SURPLUS: &str = "DELETE FROM history WHERE rowid IN (SELECT history.rowid FROM \
     (SELECT sandbox, max(number) AS newest FROM history GROUP BY sandbox HAVING max(number) - min(number) >= $1) \
     AS crowded JOIN history ON history.sandbox = crowded.sandbox AND history.number <= crowded.newest - $1)";

/// Copies a command whose end was just written.
pub(super) async fn copy(
    sandbox: &SandboxId,
    id: &CommandId,
    conn: &mut SqliteConnection,
) -> Result<(), sqlx::Error> {
    sqlx::query(COPY.as_str()).bind(sandbox.as_str()).bind(id.as_str()).execute(conn).await.map(drop)
}

/// Writes a run or a call of a tool.
pub(super) async fn insert(
    record: &CommandRecord,
    entry: &ContextEntry,
    age_ms: u64,
    conn: &mut SqliteConnection,
) -> Result<(), sqlx::Error> {
    // Only what has ended is recorded.
    let Some(ended) = &record.ended else { return Ok(()) };
    let insert = StartRow::from(record).bind(sqlx::query(INSERT.as_str()));
    let insert = EndRow::new(ended, age_ms).bind(insert);
    ContextRow::from(entry).bind(insert).execute(conn).await.map(drop)
}

/// Up to `limit` commands before `before`, the last one that ended first.
pub(super) async fn newest(
    database: &Database,
    sandbox: &SandboxId,
    before: Option<u64>,
    limit: u32,
) -> Result<Vec<EndedCommand>, Error> {
    let before = before.map_or(i64::MAX, saturated);
    let select = sqlx::query(NEWEST.as_str()).bind(sandbox.to_string()).bind(before).bind(limit);
    let rows = database.read(|conn| Box::pin(select.fetch_all(conn))).await?;
    rows.iter().map(read).collect()
}

/// Deletes all but the newest `kept` of each sandbox.
pub(super) async fn trim(database: &Database, kept: usize) -> Result<u64, Error> {
    let kept: i64 = saturated(kept);
    let trim = database.write(&kept, |conn, kept| {
        Box::pin(async move { sqlx::query(DELETE_SURPLUS).bind(*kept).execute(conn).await })
    });
    Ok(trim.await?.rows_affected())
}

fn read(row: &SqliteRow) -> Result<EndedCommand, Error> {
    let ended = || {
        let number = number("number", value(row, "number")?)?;
        Ok(EndedCommand { number, command: record(row)?, in_context: ContextRow::read(row)?.entry()? })
    };
    ended().map_err(bad_row("history", "id", row))
}
