//! Contexts: the request to open one, a run of code, and the events that report on it.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use sandbox_api::context::{Language, RunStatus};
use sandbox_api::tool::ToolCallStatus;
use sandbox_api::{CommandId, ContextId};

use super::command::Stream;
use super::secret::Secret;
use super::tool::{Tool, ToolCall};

/// An interpreter to start, and its options.
#[derive(Debug, Clone)]
pub struct ContextSpec {
    /// Random.
    pub id: ContextId,
    /// Language of its code.
    pub language: Language,
    /// Working directory, relative to the workspace. Empty means the workspace.
    pub cwd: String,
    /// Variables in addition to the sandbox's environment. They take precedence.
    pub env: HashMap<String, String>,
    /// Values that must not be shown in what the runs report.
    pub secrets: Vec<Secret>,
    /// Tools of the client that the code can call.
    pub tools: Vec<Tool>,
}

/// State of a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextStatus {
    /// Id of the context.
    pub id: ContextId,
    /// Language of its code.
    pub language: Language,
    /// Working directory.
    pub cwd: String,
    /// Milliseconds since the Unix epoch.
    pub started_at_ms: i64,
    /// Whether code runs in it.
    pub is_running: bool,
    /// Number of runs so far.
    pub runs: u64,
    /// Names of its tools.
    pub tools: Vec<String>,
    /// Number of calls of its tools so far.
    pub tool_calls: u64,
}

/// What an entry of the history is, if it is not a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContextEntry {
    /// A run of code.
    Run {
        /// Its context.
        context: ContextId,
        /// How it ended.
        status: RunStatus,
    },
    /// A call of a tool by a run.
    ToolCall {
        /// Its context.
        context: ContextId,
        /// Number of the call in its context.
        call: u64,
        /// How it ended.
        status: ToolCallStatus,
    },
}

/// Code to run in a context.
#[derive(Debug, Clone)]
pub struct RunSpec {
    /// Random. Names the run in the audit record.
    pub id: CommandId,
    /// The context.
    pub context: ContextId,
    /// The code.
    pub code: String,
    /// Time limit.
    pub timeout: Duration,
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunEvent {
    /// First event.
    Started {
        /// Milliseconds since the Unix epoch, by the sandbox's clock.
        at_ms: i64,
        /// Number of the run in its context.
        run: u64,
        /// Language of the code. `None` from an older agent.
        language: Option<Language>,
    },
    /// Output.
    Output {
        /// Its stream.
        stream: Stream,
        /// The bytes.
        data: Bytes,
    },
    /// A result, a display or an error.
    Record {
        /// What it is.
        kind: RecordKind,
        /// Formats of the value, or parts of the error, by name.
        values: HashMap<String, Bytes>,
    },
    /// The code calls a tool of the client.
    ToolCall(ToolCall),
    /// Nothing happened for a while.
    Heartbeat,
    /// Last event.
    Ended(RunEnded),
}

/// What a record of a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// The value of the last expression.
    Result,
    /// Something that the code displayed.
    Display,
    /// The error that ended the code.
    Error,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunEnded {
    /// How.
    pub status: RunStatus,
    /// Time from start to end.
    pub duration: Duration,
    /// Exit code of the last command. Only for bash.
    pub exit_code: Option<i32>,
    /// Bytes beyond the limits of a run.
    pub dropped_bytes: u64,
    /// Whether the interpreter was a new one, because the one before had ended.
    pub restarted: bool,
    /// Whether the interpreter has ended.
    pub state_lost: bool,
}

impl RunEnded {
    /// The end of a run whose outcome is unknown.
    pub fn lost(duration: Duration) -> Self {
        Self {
            status: RunStatus::Lost,
            duration,
            exit_code: None,
            dropped_bytes: 0,
            restarted: false,
            state_lost: true,
        }
    }
}
