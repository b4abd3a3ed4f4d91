//! The columns of the table `history` that only entries of contexts have.

use sandbox_api::context::RunStatus;
use sandbox_api::tool::ToolCallStatus;
use sandboxd_model::context::ContextEntry;

use super::{BadColumn, number, row, saturated};

row! {
    /// Null for a command.
    ContextRow {
        context: Option<String>,
        tool_call: Option<i64>,
        status: Option<String>,
    }
}

impl From<&ContextEntry> for ContextRow {
    fn from(entry: &ContextEntry) -> Self {
        match entry {
            ContextEntry::Run { context, status } => Self {
                context: Some(context.to_string()),
                tool_call: None,
                status: Some(run_status_name(*status).to_owned()),
            },
            ContextEntry::ToolCall { context, call, status } => Self {
                context: Some(context.to_string()),
                tool_call: Some(saturated(*call)),
                status: Some(call_status_name(*status).to_owned()),
            },
        }
    }
}

impl ContextRow {
    /// The entry, or `None` for a command.
    pub(crate) fn entry(self) -> Result<Option<ContextEntry>, BadColumn> {
        let Some(context) = self.context else { return Ok(None) };
        let context = context.parse().map_err(|_| BadColumn("context"))?;
        let status = self.status.ok_or(BadColumn("status"))?;
        let bad = BadColumn("status");
        Ok(Some(match self.tool_call {
            None => {
                let status = RUN_STATUSES.into_iter().find(|known| run_status_name(*known) == status);
                ContextEntry::Run { context, status: status.ok_or(bad)? }
            }
            Some(call) => {
                let status = CALL_STATUSES.into_iter().find(|known| call_status_name(*known) == status);
                ContextEntry::ToolCall {
                    context,
                    call: number("tool_call", call)?,
                    status: status.ok_or(bad)?,
                }
            }
        }))
    }
}

const RUN_STATUSES: [RunStatus; 7] = [
    RunStatus::Ok,
    RunStatus::Error,
    RunStatus::Timeout,
    RunStatus::Interrupted,
    RunStatus::Died,
    RunStatus::OutOfMemory,
    RunStatus::Lost,
];

fn run_status_name(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Ok => "ok",
        RunStatus::Error => "error",
        RunStatus::Timeout => "timeout",
        RunStatus::Interrupted => "interrupted",
        RunStatus::Died => "died",
        RunStatus::OutOfMemory => "out_of_memory",
        RunStatus::Lost => "lost",
    }
}

const CALL_STATUSES: [ToolCallStatus; 6] = [
    ToolCallStatus::Ok,
    ToolCallStatus::PermissionError,
    ToolCallStatus::Timeout,
    ToolCallStatus::ValidationError,
    ToolCallStatus::InternalError,
    ToolCallStatus::RunOver,
];

fn call_status_name(status: ToolCallStatus) -> &'static str {
    match status {
        ToolCallStatus::Ok => "ok",
        ToolCallStatus::PermissionError => "permission_error",
        ToolCallStatus::Timeout => "timeout",
        ToolCallStatus::ValidationError => "validation_error",
        ToolCallStatus::InternalError => "internal_error",
        ToolCallStatus::RunOver => "run_over",
    }
}

/// The names that the column `status` holds, for the list of published names.
#[cfg(test)]
pub(super) fn names() -> Vec<String> {
    let runs = RUN_STATUSES.map(|status| format!("history.status {}", run_status_name(status)));
    let calls = CALL_STATUSES.map(|status| format!("history.status {}", call_status_name(status)));
    runs.into_iter().chain(calls).collect()
}
