//! Runs of code and calls of tools in the history. They are recorded when they have ended, by the daemon that streams them.

use std::time::Duration;

use sandbox_api::command::EndReason;
use sandbox_api::context::{Language, RunStatus};
use sandbox_api::tool::ToolCallStatus;
use sandbox_api::{CommandId, ContextId};

use super::{History, Ledger, cut_argv};
use crate::model::context::{ContextEntry, RunEnded, RunSpec};
use crate::model::{CommandRecord, Ended, limits};

/// SIGINT and SIGKILL of signal(7).
const INT: i32 = 2;
/// See [`INT`].
const KILL: i32 = 9;

/// A call of a tool that is over.
#[derive(Debug)]
pub(in crate::service) struct EndedCall<'a> {
    pub(in crate::service) context: &'a ContextId,
    /// Number of the call in its context.
    pub(in crate::service) number: u64,
    /// Id of its run.
    pub(in crate::service) run: &'a CommandId,
    /// Name of the tool.
    pub(in crate::service) name: &'a str,
    /// JSON.
    pub(in crate::service) arguments: &'a str,
    pub(in crate::service) timeout: Duration,
    /// Milliseconds since the Unix epoch.
    pub(in crate::service) started_at_ms: i64,
    pub(in crate::service) duration: Duration,
}

impl History {
    /// Records a run that has ended.
    pub(in crate::service) fn note_run(
        &self,
        ledger: &Ledger,
        spec: &RunSpec,
        language: Option<Language>,
        started_at_ms: i64,
        ended: &RunEnded,
    ) {
        let argv = cut_argv([name_of(language), &spec.code].into_iter());
        let end = Ended {
            duration: ended.duration,
            dropped_bytes: ended.dropped_bytes,
            ..end_of_run(ended.status, ended.exit_code)
        };
        let record = CommandRecord {
            sandbox: ledger.sandbox.clone(),
            id: spec.id.clone(),
            argv,
            cwd: String::new(),
            detached: false,
            passive: false,
            timeout_ms: spec.timeout.as_millis() as u64,
            started_at_ms,
            digest: None,
            ended: Some(end),
        };
        let entry = ContextEntry::Run { context: spec.context.clone(), status: ended.status };
        self.store.history().in_context(record, entry);
    }

    /// Records a call of a tool that is over.
    pub(in crate::service) fn note_call(
        &self,
        ledger: &Ledger,
        call: &EndedCall<'_>,
        status: ToolCallStatus,
    ) {
        let entry = ContextEntry::ToolCall { context: call.context.clone(), call: call.number, status };
        let record = CommandRecord {
            sandbox: ledger.sandbox.clone(),
            id: call.run.clone(),
            argv: cut_argv([call.name, call.arguments].into_iter()),
            cwd: String::new(),
            detached: false,
            passive: false,
            timeout_ms: call.timeout.as_millis() as u64,
            started_at_ms: call.started_at_ms,
            digest: None,
            ended: Some(Ended { duration: call.duration, ..end_of_call(status) }),
        };
        self.store.history().in_context(record, entry);
    }
}

/// An agent of an earlier version does not report the language.
fn name_of(language: Option<Language>) -> &'static str {
    match language {
        Some(Language::Python) => "python",
        Some(Language::Javascript) => "javascript",
        Some(Language::Typescript) => "typescript",
        Some(Language::Bash) => "bash",
        None => "code",
    }
}

/// The end of a run as that of a command, with the exit code that a shell would report.
fn end_of_run(status: RunStatus, exit_code: Option<i32>) -> Ended {
    let end = |reason, exit_code, signal| Ended { reason, exit_code, signal, ..Ended::LOST };
    match status {
        RunStatus::Ok => end(EndReason::Exited, exit_code.unwrap_or(0), None),
        RunStatus::Error | RunStatus::Died => end(EndReason::Exited, exit_code.unwrap_or(1), None),
        RunStatus::Timeout => end(EndReason::Timeout, limits::TIMEOUT_EXIT_CODE, None),
        RunStatus::Interrupted => end(EndReason::Killed, 128 + INT, Some(INT)),
        RunStatus::OutOfMemory => end(EndReason::Oom, 128 + KILL, Some(KILL)),
        RunStatus::Lost => Ended::LOST,
    }
}

fn end_of_call(status: ToolCallStatus) -> Ended {
    let end = |reason, exit_code| Ended { reason, exit_code, ..Ended::LOST };
    match status {
        ToolCallStatus::Ok => end(EndReason::Exited, 0),
        ToolCallStatus::Timeout => end(EndReason::Timeout, limits::TIMEOUT_EXIT_CODE),
        ToolCallStatus::PermissionError | ToolCallStatus::ValidationError | ToolCallStatus::InternalError => {
            end(EndReason::Exited, 1)
        }
        ToolCallStatus::RunOver => Ended::LOST,
    }
}
