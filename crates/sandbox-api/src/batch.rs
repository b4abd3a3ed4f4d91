//! Batches: commands that run one after another, answered together.

use serde::{Deserialize, Serialize};

use crate::command::{EndReason, StartCommand};
use crate::error::ErrorCode;
use crate::{CommandId, object};

/// `POST …/commands:batch`: runs them in order, and stops after the first that fails.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunBatch {
    /// 1 to 50. None of them keeps its standard input open, because nobody could write to it.
    #[serde(deserialize_with = "object::each")]
    pub commands: Vec<StartCommand>,
    /// Also run what follows a command that failed: one with another exit code than 0, or that could not be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continue_on_error: Option<bool>,
}

/// What became of those that were begun, in order; fewer than were asked for where one failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BatchRan {
    /// One for each.
    pub results: Vec<BatchResult>,
}

/// What became of one command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BatchResult {
    /// Its id, also of one that could not be started.
    pub command_id: CommandId,
    /// How it ended, or why it did not begin.
    #[serde(flatten)]
    pub outcome: BatchOutcome,
}

/// How a command ended, or why it did not begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum BatchOutcome {
    /// It ran.
    Ended(BatchEnded),
    /// It did not.
    NotStarted(BatchFault),
}

/// The end of a command and the end of what it wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BatchEnded {
    /// The last of its standard output, up to 256 KiB; where the bytes are no UTF-8, with U+FFFD in their place.
    pub stdout: String,
    /// The bytes, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_base64: Option<String>,
    /// The last of its standard error, likewise.
    pub stderr: String,
    /// The bytes, where they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_base64: Option<String>,
    /// As a shell would report it.
    pub exit_code: i32,
    /// Why it ended.
    pub reason: EndReason,
    /// The signal that ended it, such as `SIGKILL`.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub signal: Option<String>,
    /// From start to end.
    pub duration_ms: u64,
    /// Written in all.
    pub stdout_bytes: u64,
    /// Written in all.
    pub stderr_bytes: u64,
    /// Of standard output, what came before `stdout` and was left out.
    pub stdout_truncated_bytes: u64,
    /// Of standard error, what came before `stderr` and was left out.
    pub stderr_truncated_bytes: u64,
    /// Of both, what was no longer kept when it was to be read.
    pub dropped_bytes: u64,
}

/// Why a command did not begin: an error's body without the request's id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BatchFault {
    /// A sentence for people.
    pub error: String,
    /// The kind, for programs.
    pub code: ErrorCode,
    /// Facts, by name.
    #[serde(default)]
    pub details: serde_json::Map<String, serde_json::Value>,
}

impl BatchOutcome {
    /// Whether it ran and ended with exit code 0.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Ended(ended) if ended.exit_code == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_reads_back_as_what_it_was() {
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
