//! Batches: commands that share one request and one response.

use serde::{Deserialize, Serialize};

use crate::command::{EndReason, LimitExceeded, ReadOnlyViolation, StartCommand};
use crate::error::ErrorCode;
use crate::{CommandId, object};

/// Request body of `POST …/commands:batch`. Commands start in order, and none starts after a failure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunBatch {
    /// Commands to run, 1 to 50. `openStdin` is not allowed, because nothing could write to the command.
    #[serde(deserialize_with = "object::each")]
    pub commands: Vec<StartCommand>,
    /// Maximum number of commands that run at the same time, 1 to 16. Default 1. More than 1 requires `readOnly` of every
    /// command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<u64>,
    /// Continues after a command that failed: one with a nonzero exit code, or one that could not be started. Otherwise
    /// no command starts after a failure, and those that run at that time run to their end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continue_on_error: Option<bool>,
}

/// Response of `POST …/commands:batch`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchRan {
    /// Results in the order of the request, one for each command that was attempted. If a failure stops the batch, later
    /// commands have none.
    pub results: Vec<BatchResult>,
}

/// Result of one command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BatchResult {
    /// Id of the command, even if it could not be started.
    pub command_id: CommandId,
    /// How the command ended, or why it did not start.
    #[serde(flatten)]
    pub outcome: BatchOutcome,
}

/// How a command ended, or why it did not start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum BatchOutcome {
    /// The command ran.
    Ended(BatchEnded),
    /// The command did not start.
    NotStarted(BatchFault),
}

/// How a command ended, with the end of its output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BatchEnded {
    /// Last part of standard output, at most 256 KiB. Bytes that are not valid UTF-8 are replaced with U+FFFD.
    pub stdout: String,
    /// The same part in base64, if it is not valid UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<String>,
    /// Last part of standard error, at most 256 KiB, in the same form.
    pub stderr: String,
    /// The same part in base64, if it is not valid UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<String>,
    /// Last part of the commands that bash ran, at most 256 KiB, if the request had `debug`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Exit code, as a shell would report it.
    pub exit_code: i32,
    /// Why the command ended.
    pub reason: EndReason,
    /// Signal that ended the command, such as `SIGKILL`.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub signal: Option<String>,
    /// Time from start to end in milliseconds.
    pub duration_ms: u64,
    /// Bytes written to standard output in total.
    pub stdout_bytes: u64,
    /// Bytes written to standard error in total.
    pub stderr_bytes: u64,
    /// Bytes of standard output before `stdout` that are omitted.
    pub stdout_truncated_bytes: u64,
    /// Bytes of standard error before `stderr` that are omitted.
    pub stderr_truncated_bytes: u64,
    /// Bytes of both outputs that were discarded before the daemon read them.
    pub dropped_bytes: u64,
    /// The limit of `limits` that the command has exceeded. `reason` is `killed` then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_exceeded: Option<LimitExceeded>,
    /// The first write to the workspace that was refused because the command is `readOnly`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_violation: Option<ReadOnlyViolation>,
}

/// Why a command did not start: an error body without the request id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BatchFault {
    /// Human-readable message.
    pub error: String,
    /// Error code, for programs.
    pub code: ErrorCode,
    /// Additional facts by name.
    #[serde(default)]
    pub details: serde_json::Map<String, serde_json::Value>,
}

impl BatchOutcome {
    /// Whether the command ran and ended with exit code 0.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Ended(ended) if ended.exit_code == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_survives_serialization() {
        let ended = r#"{"commandId":"cmd_0123456789abcdef","stdout":"a","stderr":"","exitCode":1,"reason":"exited","signal":null,
            "durationMs":3,"stdoutBytes":9,"stderrBytes":0,"stdoutTruncatedBytes":8,"stderrTruncatedBytes":0,"droppedBytes":0}"#;
        let fault = r#"{"commandId":"cmd_0123456789abcdef","error":"no","code":"refused","details":{"step":"exec","errno":2}}"#;
        for text in [ended, fault] {
            let result: BatchResult = serde_json::from_str(text).unwrap();
            let wanted: serde_json::Value = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_value(&result).unwrap(), wanted);
            assert_eq!(matches!(result.outcome, BatchOutcome::Ended(_)), text == ended);
            assert!(!result.outcome.is_success());
        }
    }
}
