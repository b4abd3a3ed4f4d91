//! The history of a sandbox: commands, runs of code and calls of tools that have ended.

use serde::{Deserialize, Serialize};

use crate::ContextId;
use crate::command::Command;
use crate::context::RunStatus;
use crate::tool::ToolCallStatus;

/// A command that has ended, a run of code in a context, or a call of a tool by a run. For a run, `commandId` is its
/// `runId`, `cmd` the language and `args` the code. For a call, `commandId` is that of its run, `cmd` the name of the tool and
/// `args` the arguments as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// Number in the order of the ends, from 1 for each sandbox.
    pub seq: u64,
    /// The command.
    #[serde(flatten)]
    pub command: Command,
    /// Set if this is a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<HistoryRun>,
    /// Set if this is a call of a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<HistoryToolCall>,
}

/// A run in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HistoryRun {
    /// Its context.
    pub context_id: ContextId,
    /// How it ended.
    pub status: RunStatus,
}

/// A call of a tool in the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HistoryToolCall {
    /// Its context.
    pub context_id: ContextId,
    /// Number of the call in its context, from 1.
    pub call: u64,
    /// How it ended.
    pub status: ToolCallStatus,
}

/// Response of `GET …/history`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HistoryList {
    /// Commands, runs and calls of tools that have ended, the last one first.
    pub commands: Vec<HistoryEntry>,
    /// Cursor of the next page. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}
