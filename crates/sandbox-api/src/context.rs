//! Request and response bodies for contexts, and the lines of a run's stream.
//!
//! A context is an interpreter that keeps its state between runs of code.

use serde::{Deserialize, Serialize};

use crate::command::Output;
use crate::string_map::StringMap;
use crate::tool::{Tool, ToolCall};
use crate::{CommandId, ContextId};

/// Language of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Python 3.
    Python,
    /// JavaScript on Node.
    Javascript,
    /// TypeScript on Node, whose types are removed and not checked.
    Typescript,
    /// Bash.
    Bash,
}

/// Request body of `POST …/contexts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OpenContext {
    /// `python`, `javascript`, `typescript` or `bash`.
    pub language: Language,
    /// Working directory, relative to the workspace. Default: the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Environment variables in addition to the sandbox's own: at most 64 entries and 32 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<std::collections::BTreeMap<String, String>>))]
    pub env: Option<StringMap>,
    /// Tools of the client that the code can call: at most 128, with up to 256 KiB. Not for `bash`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Tool>,
    /// Python packages that only this context sees, as of a new sandbox. Only for `python`. Default: those of the sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packages: Option<Vec<String>>,
}

impl OpenContext {
    /// A context in the workspace.
    pub fn new(language: Language) -> Self {
        Self { language, cwd: None, env: None, tools: Vec::new(), packages: None }
    }
}

/// Response of `POST …/contexts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContextOpened {
    /// Id of the context.
    pub context_id: ContextId,
}

/// State of a context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Context {
    /// Id of the context.
    pub context_id: ContextId,
    /// Language of its code.
    pub language: Language,
    /// Working directory at the start.
    pub cwd: String,
    /// Time at which it was opened (RFC 3339, UTC).
    pub started_at: String,
    /// Whether code runs in it.
    pub running: bool,
    /// Number of runs so far.
    pub runs: u64,
    /// Names of its tools.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Number of calls of its tools so far.
    #[serde(default)]
    pub tool_calls: u64,
}

/// Response of `GET …/contexts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContextList {
    /// All contexts of the sandbox, oldest first.
    pub contexts: Vec<Context>,
}

/// Request body of `POST …/contexts/{id}:run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunCode {
    /// The code, up to 1 MiB.
    pub code: String,
    /// Time limit in milliseconds, default 30 seconds. Clamped to the limits of commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

impl RunCode {
    /// Code with the default time limit.
    pub fn new(code: impl Into<String>) -> Self {
        Self { code: code.into(), timeout_ms: None }
    }
}

/// Response of `POST …/contexts/{id}:interrupt`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ContextInterrupted {
    /// Always true.
    pub ok: bool,
    /// Whether code was running.
    pub interrupted: bool,
}

/// One line of a run's stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "stream", rename_all = "lowercase")]
pub enum RunRecord {
    /// First record.
    #[serde(rename_all = "camelCase")]
    Start {
        /// Id of the run, as in the audit record.
        run_id: CommandId,
        /// Number of the run in its context, from 1.
        run: u64,
        /// Time of the start (RFC 3339, UTC).
        started_at: String,
        /// Effective time limit in milliseconds.
        timeout_ms: u64,
    },
    /// Bytes written to standard output.
    Stdout(Output),
    /// Bytes written to standard error.
    Stderr(Output),
    /// Value of the last expression.
    Result(Display),
    /// Something that the code displayed, such as a figure.
    Display(Display),
    /// The error that ended the code.
    Error(RunError),
    /// The code calls a tool of the client, and waits for `POST …/contexts/{contextId}/toolCalls/{call}`.
    #[serde(rename = "toolCall")]
    ToolCall(ToolCall),
    /// Sent after every 15 seconds without output.
    Heartbeat,
    /// Last record: how the run ended.
    #[serde(rename_all = "camelCase")]
    End {
        /// How the run ended.
        status: RunStatus,
        /// Time from start to end in milliseconds.
        duration_ms: u64,
        /// Exit code of the last command. Only for bash.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Bytes beyond the limits of a run: 16 MiB of output, and 16 MiB of results and displays.
        dropped_bytes: u64,
        /// Whether the run began without the state of earlier runs, because the interpreter had ended.
        restarted: bool,
        /// Whether the interpreter ended. The next run begins without the state of this one.
        state_lost: bool,
    },
}

/// A value in the formats that it supports.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Display {
    /// Plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// HTML. It comes from the sandbox, so it must not be shown without isolation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    /// Markdown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub markdown: Option<String>,
    /// JSON, up to 256 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<serde_json::Value>,
    /// An SVG image. It may contain scripts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub svg: Option<String>,
    /// A PNG image in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub png: Option<String>,
}

/// An error of code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunError {
    /// Name of its type, such as `ZeroDivisionError`.
    pub name: String,
    /// Message.
    pub value: String,
    /// Where it happened, as the interpreter prints it.
    pub traceback: String,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum RunStatus {
    /// The code ran to its end.
    Ok,
    /// An error ended the code.
    Error,
    /// The time limit expired.
    Timeout,
    /// The run was interrupted.
    Interrupted,
    /// The interpreter ended.
    Died,
    /// The interpreter was killed because memory was short.
    OutOfMemory,
    /// The sandbox stopped, or the connection to it broke, so the outcome is unknown.
    Lost,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_documented_shape() {
        let lines = [
            r#"{"stream":"start","runId":"cmd_0123456789abcdef","run":1,"startedAt":"2026-01-01T00:00:00Z","timeoutMs":30000}"#,
            r#"{"stream":"stdout","seq":1,"data":"hi\n"}"#,
            r#"{"stream":"result","text":"2"}"#,
            r#"{"stream":"display","text":"<Figure>","json":{"a":[1]},"png":"iVBORw0="}"#,
            r#"{"stream":"error","name":"E","value":"v","traceback":"t"}"#,
            r#"{"stream":"toolCall","call":1,"name":"add","arguments":{"a":1},"timeoutMs":30000}"#,
            r#"{"stream":"heartbeat"}"#,
            r#"{"stream":"end","status":"outOfMemory","durationMs":12,"exitCode":1,"droppedBytes":0,"restarted":false,"stateLost":true}"#,
        ];
        for line in lines {
            let record: RunRecord = serde_json::from_str(line).unwrap();
            let back: serde_json::Value = serde_json::to_value(&record).unwrap();
            assert_eq!(back, serde_json::from_str::<serde_json::Value>(line).unwrap());
        }
    }
}
