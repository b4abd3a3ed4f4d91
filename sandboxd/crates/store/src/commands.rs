//! The rows of the commands' history.

use std::collections::HashMap;
use std::time::Duration;

use sandbox_api::command::EndReason;
use sandbox_api::{CommandId, SandboxId};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use super::row::{BadColumn, Columns, saturated};
use super::{Error, Store};
use sandboxd_model::command::KilledBy;
use sandboxd_model::{CommandRecord, Ended, RequestDigest, limits};

/// How much of a command is written down.
#[derive(Debug, Clone, Copy)]
pub struct Written {
    /// Milliseconds since the Unix epoch.
    pub started_at_ms: i64,
    /// Whether its end is written down too.
    pub has_ended: bool,
}

impl Store {
    /// Up to `limit` commands of a sandbox, newest first.
    pub async fn commands(&self, sandbox: &SandboxId, limit: u32) -> Result<Vec<CommandRecord>, Error> {
        self.history.flush().await;
        let select = sqlx::query("SELECT * FROM commands WHERE sandbox = ? ORDER BY seq DESC LIMIT ?");
        let select = select.bind(sandbox.to_string()).bind(limit);
        let rows = self.db.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read).collect()
    }

    /// One command of a sandbox.
    pub async fn command(&self, sandbox: &SandboxId, id: &CommandId) -> Result<Option<CommandRecord>, Error> {
        self.history.flush().await;
        self.written_command(sandbox, id).await
    }

    /// The same, but for what was noted a moment ago and is not written yet.
    pub async fn written_command(
        &self,
        sandbox: &SandboxId,
        id: &CommandId,
    ) -> Result<Option<CommandRecord>, Error> {
        let select = sqlx::query("SELECT * FROM commands WHERE sandbox = ? AND id = ?");
        let select = select.bind(sandbox.to_string()).bind(id.to_string());
        let row = self.db.read(|conn| Box::pin(select.fetch_optional(conn))).await?;
        row.as_ref().map(read).transpose()
    }

    /// Of these commands of a sandbox, those that are written down. What was noted a moment ago may be missing.
    pub async fn written(
        &self,
        sandbox: &SandboxId,
        ids: &[CommandId],
    ) -> Result<HashMap<CommandId, Written>, Error> {
        let ids: Vec<&str> = ids.iter().map(CommandId::as_str).collect();
        let ids = serde_json::Value::from(ids).to_string();
        let select = "SELECT id, started_at_ms, reason IS NOT NULL AS has_ended FROM commands \
             WHERE sandbox = ? AND id IN (SELECT value FROM json_each(?))";
        let select = sqlx::query(select).bind(sandbox.to_string()).bind(ids);
        let rows = self.db.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        let read = |row| {
            let columns = Columns(row);
            let entry = || {
                let id = columns.with("id", |text| text.parse().ok())?;
                let started_at_ms = columns.get("started_at_ms")?;
                Ok((id, Written { started_at_ms, has_ended: columns.get("has_ended")? }))
            };
            entry().map_err(|bad| columns.name_it("commands", bad))
        };
        rows.iter().map(read).collect()
    }

    /// The commands of a sandbox whose end is not known, oldest first.
    pub async fn unended(&self, sandbox: &SandboxId) -> Result<Vec<CommandRecord>, Error> {
        self.history.flush().await;
        let select = "SELECT * FROM commands WHERE sandbox = ? AND reason IS NULL ORDER BY seq";
        let select = sqlx::query(select).bind(sandbox.to_string());
        let rows = self.db.read(|conn| Box::pin(select.fetch_all(conn))).await?;
        rows.iter().map(read).collect()
    }

    /// Forgets the commands that ended longer than [`limits::RECORDED_COMMAND_AGE`] ago, by the daemon's age,
    /// and all but the newest [`limits::MAX_RECORDED_COMMANDS`] of each sandbox; returns how many. Those whose
    /// end is not known are kept up to twice that number.
    pub async fn trim(&self) -> Result<u64, Error> {
        self.history.flush().await;
        let before = self.db.age_ms().saturating_sub(limits::RECORDED_COMMAND_AGE.as_millis() as u64);
        self.db.write(&before, |conn, before| Box::pin(trim(conn, *before))).await
    }
}

async fn trim(conn: &mut SqliteConnection, before_age_ms: u64) -> Result<u64, sqlx::Error> {
    let old = sqlx::query("DELETE FROM commands WHERE ended_at_age_ms < ?").bind(saturated(before_age_ms));
    let old = old.execute(&mut *conn).await?.rows_affected();
    let kept = limits::MAX_RECORDED_COMMANDS as i64;
    let many = sqlx::query(BEYOND).bind(kept).bind(2 * kept);
    Ok(old + many.execute(conn).await?.rows_affected())
}

/// The sandboxes with too many are found first, from the index alone.
const BEYOND: &str = "DELETE FROM commands WHERE seq IN (SELECT seq FROM (\
     SELECT seq, reason, row_number() OVER (PARTITION BY sandbox ORDER BY seq DESC) AS place FROM commands \
     WHERE sandbox IN (SELECT sandbox FROM commands GROUP BY sandbox HAVING count(*) > ?1)) \
     WHERE place > ?2 OR (place > ?1 AND reason IS NOT NULL))";

/// Nothing is written for a sandbox that is not there any more. A command whose id is there is left as it is,
/// unless it began at another time: then a caller used the id again.
const STARTED: &str = "INSERT INTO commands (sandbox, id, argv, cwd, detached, timeout_ms, started_at_ms, \
     request_digest) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE EXISTS (SELECT 1 FROM sandboxes WHERE id = ?1) \
     ON CONFLICT (sandbox, id) DO UPDATE SET seq = (SELECT max(seq) + 1 FROM commands), argv = excluded.argv, \
     cwd = excluded.cwd, detached = excluded.detached, timeout_ms = excluded.timeout_ms, \
     started_at_ms = excluded.started_at_ms, request_digest = excluded.request_digest, reason = NULL, exit_code = NULL, signal = NULL, \
     duration_ms = NULL, stdout_bytes = NULL, stderr_bytes = NULL, dropped_bytes = NULL, swept = NULL, \
     ended_at_age_ms = NULL WHERE started_at_ms <> excluded.started_at_ms";

const ENDED: &str = "UPDATE commands SET reason = ?, exit_code = ?, signal = ?, duration_ms = ?, \
     stdout_bytes = ?, stderr_bytes = ?, dropped_bytes = ?, swept = ?, ended_at_age_ms = ? \
     WHERE sandbox = ? AND id = ?";

/// As [`STARTED`] and [`ENDED`] together, for a new command that has ended already.
const WHOLE: &str = "INSERT INTO commands (sandbox, id, argv, cwd, detached, timeout_ms, started_at_ms, \
     request_digest, reason, exit_code, signal, duration_ms, stdout_bytes, stderr_bytes, dropped_bytes, swept, \
     ended_at_age_ms) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, \
     ?17 WHERE EXISTS (SELECT 1 FROM sandboxes WHERE id = ?1) ON CONFLICT (sandbox, id) DO NOTHING";

/// Writes that a command has started, and how it ended where that is known.
pub(super) async fn write_started(
    record: &CommandRecord,
    age_ms: u64,
    conn: &mut SqliteConnection,
) -> Result<(), sqlx::Error> {
    let argv = serde_json::to_string(&record.argv).map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
    let insert = sqlx::query(if record.ended.is_some() { WHOLE } else { STARTED })
        .bind(record.sandbox.as_str())
        .bind(record.id.as_str())
        .bind(&argv)
        .bind(&record.cwd)
        .bind(record.detached)
        .bind(saturated(record.timeout_ms))
        .bind(record.started_at_ms)
        .bind(record.digest.as_ref().map(RequestDigest::as_bytes));
    let Some(ended) = &record.ended else {
        return insert.execute(conn).await.map(drop);
    };
    let insert = bind_ended(insert, ended, age_ms);
    if insert.execute(&mut *conn).await?.rows_affected() > 0 {
        return Ok(());
    }
    // Rare: the id is there already, or the sandbox is not there any more.
    let started = CommandRecord { ended: None, ..record.clone() };
    Box::pin(write_started(&started, age_ms, conn)).await?;
    write_ended(&record.sandbox, &record.id, ended, age_ms, conn).await
}

/// Writes how a command ended; nothing happens where the store does not have it.
pub(super) async fn write_ended(
    sandbox: &SandboxId,
    id: &CommandId,
    ended: &Ended,
    age_ms: u64,
    conn: &mut SqliteConnection,
) -> Result<(), sqlx::Error> {
    let update = bind_ended(sqlx::query(ENDED), ended, age_ms);
    update.bind(sandbox.as_str()).bind(id.as_str()).execute(conn).await.map(drop)
}

type Query<'q> = sqlx::query::Query<'q, sqlx::Sqlite, sqlx::sqlite::SqliteArguments>;

fn bind_ended<'q>(query: Query<'q>, ended: &Ended, age_ms: u64) -> Query<'q> {
    query
        .bind(reason_name(ended.reason))
        .bind(ended.exit_code)
        .bind(ended.signal)
        .bind(saturated(ended.duration.as_millis()))
        .bind(saturated(ended.stdout_bytes))
        .bind(saturated(ended.stderr_bytes))
        .bind(saturated(ended.dropped_bytes))
        .bind(killed_by_number(ended.killed_by))
        .bind(saturated(age_ms))
}

fn read(row: &SqliteRow) -> Result<CommandRecord, Error> {
    let columns = Columns(row);
    record(&columns).map_err(|bad| columns.name_it("commands", bad))
}

fn record(columns: &Columns<'_>) -> Result<CommandRecord, BadColumn> {
    let has_ended = columns.get::<Option<String>>("reason")?.is_some();
    Ok(CommandRecord {
        sandbox: columns.with("sandbox", |text| text.parse().ok())?,
        id: columns.with("id", |text| text.parse().ok())?,
        argv: columns.json("argv")?,
        cwd: columns.get("cwd")?,
        detached: columns.get("detached")?,
        timeout_ms: columns.count("timeout_ms")?,
        started_at_ms: columns.get("started_at_ms")?,
        digest: digest(columns)?,
        ended: has_ended.then(|| ended(columns)).transpose()?,
    })
}

fn digest(columns: &Columns<'_>) -> Result<Option<RequestDigest>, BadColumn> {
    let column = "request_digest";
    let bytes: Option<Vec<u8>> = columns.get(column)?;
    bytes.map(|bytes| RequestDigest::from_bytes(&bytes).ok_or(BadColumn(column))).transpose()
}

fn ended(columns: &Columns<'_>) -> Result<Ended, BadColumn> {
    Ok(Ended {
        reason: columns.with("reason", reason_by_name)?,
        exit_code: columns.get("exit_code")?,
        signal: columns.get("signal")?,
        duration: Duration::from_millis(columns.count("duration_ms")?),
        stdout_bytes: columns.count("stdout_bytes")?,
        stderr_bytes: columns.count("stderr_bytes")?,
        dropped_bytes: columns.count("dropped_bytes")?,
        killed_by: killed_by_of(columns.get("swept")?),
    })
}

/// What the column `swept` holds. It was a truth value before there was a second case.
fn killed_by_number(killed_by: Option<KilledBy>) -> i64 {
    match killed_by {
        None => 0,
        Some(KilledBy::Sweep) => 1,
        Some(KilledBy::Restart) => 2,
    }
}

fn killed_by_of(number: i64) -> Option<KilledBy> {
    [KilledBy::Sweep, KilledBy::Restart].into_iter().find(|by| killed_by_number(Some(*by)) == number)
}

fn reason_name(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Exited => "exited",
        EndReason::Timeout => "timeout",
        EndReason::Killed => "killed",
        EndReason::Oom => "oom",
        EndReason::Lost => "lost",
    }
}

fn reason_by_name(name: &str) -> Option<EndReason> {
    [EndReason::Exited, EndReason::Timeout, EndReason::Killed, EndReason::Oom, EndReason::Lost]
        .into_iter()
        .find(|reason| reason_name(*reason) == name)
}
