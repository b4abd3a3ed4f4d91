//! Rows of the table `commands`. A row is written in two steps: the start of a command, then its end.

use std::time::Duration;

use sandbox_api::CommandId;
use sandbox_api::command::EndReason;
use sandboxd_model::command::KilledBy;
use sandboxd_model::read_only::{ReadOnlyViolation, WriteOperation};
use sandboxd_model::resource_limits::{Exceeded, ResourceLimit};
use sandboxd_model::{CommandRecord, Ended, RequestDigest};
use sqlx::{ColumnIndex, Decode, Row, Type};

use super::{BadColumn, from_json, number, row, saturated, to_json, value};
use crate::Written;

row! {
    /// The columns that are known when a command starts.
    StartRow {
        sandbox: String,
        id: String,
        argv: String,
        cwd: String,
        detached: bool,
        passive: bool,
        timeout_ms: i64,
        started_at_ms: i64,
        request_digest: Option<Vec<u8>>,
    }
}

row! {
    /// The columns that are null until a command's end is known.
    EndRow {
        reason: String,
        exit_code: i32,
        signal: Option<i32>,
        duration_ms: i64,
        stdout_bytes: i64,
        stderr_bytes: i64,
        dropped_bytes: i64,
        swept: i64,
        exceeded_limit: Option<String>,
        exceeded_value: Option<i64>,
        refused_write: Option<String>,
        refused_path: Option<String>,
        ended_at_age_ms: i64,
    }
}

/// An entry of the look-up that says which commands are stored.
pub(crate) fn written<'r, R>(row: &'r R) -> Result<(CommandId, Written), BadColumn>
where
    R: Row,
    &'static str: ColumnIndex<R>,
    String: Decode<'r, R::Database> + Type<R::Database>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
    bool: Decode<'r, R::Database> + Type<R::Database>,
{
    let id: String = value(row, "id")?;
    let id = id.parse().map_err(|_| BadColumn("id"))?;
    Ok((id, Written { started_at_ms: value(row, "started_at_ms")?, has_ended: value(row, "has_ended")? }))
}

impl From<&CommandRecord> for StartRow {
    fn from(record: &CommandRecord) -> Self {
        Self {
            sandbox: record.sandbox.to_string(),
            id: record.id.to_string(),
            argv: to_json(&record.argv),
            cwd: record.cwd.clone(),
            detached: record.detached,
            passive: record.passive,
            timeout_ms: saturated(record.timeout_ms),
            started_at_ms: record.started_at_ms,
            request_digest: record.digest.as_ref().map(|digest| digest.as_bytes().to_vec()),
        }
    }
}

impl EndRow {
    /// The end of a command, written at this age of the daemon.
    pub(crate) fn new(ended: &Ended, age_ms: u64) -> Self {
        let refused = ended.read_only_violation.as_ref();
        Self {
            reason: reason_name(ended.reason).to_owned(),
            exit_code: ended.exit_code,
            signal: ended.signal,
            duration_ms: saturated(ended.duration.as_millis()),
            stdout_bytes: saturated(ended.stdout_bytes),
            stderr_bytes: saturated(ended.stderr_bytes),
            dropped_bytes: saturated(ended.dropped_bytes),
            swept: killed_by_number(ended.killed_by),
            exceeded_limit: ended.exceeded.map(|exceeded| exceeded.limit.as_str().to_owned()),
            exceeded_value: ended.exceeded.map(|exceeded| saturated(exceeded.value)),
            refused_write: refused.map(|refused| refused.operation.as_str().to_owned()),
            refused_path: refused.map(|refused| refused.path.clone()),
            ended_at_age_ms: saturated(age_ms),
        }
    }

    fn ended(&self) -> Result<Ended, BadColumn> {
        Ok(Ended {
            reason: reason_by_name(&self.reason).ok_or(BadColumn("reason"))?,
            exit_code: self.exit_code,
            signal: self.signal,
            duration: Duration::from_millis(number("duration_ms", self.duration_ms)?),
            stdout_bytes: number("stdout_bytes", self.stdout_bytes)?,
            stderr_bytes: number("stderr_bytes", self.stderr_bytes)?,
            dropped_bytes: number("dropped_bytes", self.dropped_bytes)?,
            killed_by: killed_by_of(self.swept),
            output_file: None,
            exceeded: self.exceeded()?,
            read_only_violation: self.read_only_violation()?,
            denials: None,
        })
    }

    fn exceeded(&self) -> Result<Option<Exceeded>, BadColumn> {
        let Some(name) = &self.exceeded_limit else { return Ok(None) };
        let limit = ResourceLimit::ALL.into_iter().find(|limit| limit.as_str() == name);
        Ok(Some(Exceeded {
            limit: limit.ok_or(BadColumn("exceeded_limit"))?,
            value: number("exceeded_value", self.exceeded_value.ok_or(BadColumn("exceeded_value"))?)?,
        }))
    }

    fn read_only_violation(&self) -> Result<Option<ReadOnlyViolation>, BadColumn> {
        let Some(name) = &self.refused_write else { return Ok(None) };
        let operation = WriteOperation::ALL.into_iter().find(|operation| operation.as_str() == name);
        Ok(Some(ReadOnlyViolation {
            operation: operation.ok_or(BadColumn("refused_write"))?,
            path: self.refused_path.clone().ok_or(BadColumn("refused_path"))?,
        }))
    }
}

/// A command: its start, and its end where that is stored.
pub(crate) fn record<'r, R>(row: &'r R) -> Result<CommandRecord, BadColumn>
where
    R: Row,
    &'static str: ColumnIndex<R>,
    String: Decode<'r, R::Database> + Type<R::Database>,
    Option<String>: Decode<'r, R::Database> + Type<R::Database>,
    Option<Vec<u8>>: Decode<'r, R::Database> + Type<R::Database>,
    i32: Decode<'r, R::Database> + Type<R::Database>,
    Option<i32>: Decode<'r, R::Database> + Type<R::Database>,
    i64: Decode<'r, R::Database> + Type<R::Database>,
    Option<i64>: Decode<'r, R::Database> + Type<R::Database>,
    bool: Decode<'r, R::Database> + Type<R::Database>,
{
    let start = StartRow::read(row)?;
    let has_ended = value::<_, Option<String>>(row, "reason")?.is_some();
    let digest = |bytes: Vec<u8>| RequestDigest::from_bytes(&bytes).ok_or(BadColumn("request_digest"));
    Ok(CommandRecord {
        sandbox: start.sandbox.parse().map_err(|_| BadColumn("sandbox"))?,
        id: start.id.parse().map_err(|_| BadColumn("id"))?,
        argv: from_json("argv", &start.argv)?,
        cwd: start.cwd,
        detached: start.detached,
        passive: start.passive,
        timeout_ms: number("timeout_ms", start.timeout_ms)?,
        started_at_ms: start.started_at_ms,
        digest: start.request_digest.map(digest).transpose()?,
        ended: if has_ended { Some(EndRow::read(row)?.ended()?) } else { None },
    })
}

/// The value of the column `swept`. It was a truth value before there was a second case.
fn killed_by_number(killed_by: Option<KilledBy>) -> i64 {
    match killed_by {
        None => 0,
        Some(KilledBy::Sweep) => 1,
        Some(KilledBy::Restart) => 2,
    }
}

fn killed_by_of(number: i64) -> Option<KilledBy> {
    KILLERS.into_iter().find(|by| killed_by_number(Some(*by)) == number)
}

const KILLERS: [KilledBy; 2] = [KilledBy::Sweep, KilledBy::Restart];

const REASONS: [EndReason; 5] =
    [EndReason::Exited, EndReason::Timeout, EndReason::Killed, EndReason::Oom, EndReason::Lost];

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
    REASONS.into_iter().find(|reason| reason_name(*reason) == name)
}

/// The names that the columns of commands hold, for the list of published names.
#[cfg(test)]
pub(super) fn names() -> Vec<String> {
    let reasons = REASONS.map(|reason| format!("commands.reason {}", reason_name(reason)));
    let killers = KILLERS.map(|by| format!("commands.swept {} {by:?}", killed_by_number(Some(by))));
    let limits = ResourceLimit::ALL.map(|limit| format!("commands.exceeded_limit {}", limit.as_str()));
    let writes = WriteOperation::ALL.map(|write| format!("commands.refused_write {}", write.as_str()));
    reasons.into_iter().chain(killers).chain(limits).chain(writes).collect()
}
