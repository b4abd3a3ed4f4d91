//! Request and response bodies for terminals, and the messages of their WebSocket.

use serde::{Deserialize, Serialize};

use crate::TerminalId;
use crate::command::EndReason;
use crate::string_map::StringMap;

/// Request body of `POST …/terminals`: a program on a terminal, or a login shell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OpenTerminal {
    /// Program to run. Default: an interactive `bash -l`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cmd: Option<String>,
    /// Arguments of the program. Requires `cmd`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Working directory, relative to the workspace. Default: the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Environment variables in addition to the sandbox's own: at most 64 entries and 32 KiB. `TERM` defaults to
    /// `xterm-256color`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<std::collections::BTreeMap<String, String>>))]
    pub env: Option<StringMap>,
    /// Number of columns, 1 to 500, default 120.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cols: Option<u32>,
    /// Number of rows, 1 to 200, default 32.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u32>,
}

/// Response of `POST …/terminals`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TerminalOpened {
    /// Id of the terminal.
    pub terminal_id: TerminalId,
}

/// Request body of `POST …/terminals/{id}:resize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResizeTerminal {
    /// Number of columns, 1 to 500.
    pub cols: u32,
    /// Number of rows, 1 to 200.
    pub rows: u32,
}

/// State of a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Terminal {
    /// Id of the terminal.
    pub terminal_id: TerminalId,
    /// `running` or `ended`.
    pub state: TerminalState,
    /// Program.
    pub cmd: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Working directory at the start.
    pub cwd: String,
    /// Whether the terminal was opened without `cmd`.
    pub is_shell: bool,
    /// Number of columns.
    pub cols: u32,
    /// Number of rows.
    pub rows: u32,
    /// Time of the start (RFC 3339, UTC).
    pub started_at: String,
    /// Time of the end (RFC 3339, UTC). Null while the program runs.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub ended_at: Option<String>,
    /// Exit code, as a shell would report it. Null while the program runs.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub exit_code: Option<i32>,
    /// Signal that ended the program, such as `SIGHUP`. Null otherwise.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub signal: Option<String>,
    /// Why the program ended. Null while it runs.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub reason: Option<EndReason>,
    /// Number of connected viewers.
    pub viewers: u32,
    /// Bytes written since the start.
    pub bytes: u64,
    /// Visible rows, separated by newlines. Absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// Position of the cursor. Absent in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

/// A position on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Cursor {
    /// Row, counted from 0 at the top.
    pub row: u32,
    /// Column, counted from 0 at the left.
    pub col: u32,
}

/// Whether a terminal has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TerminalState {
    /// The program runs.
    Running,
    /// The program has ended.
    Ended,
}

/// Response of `GET …/terminals`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TerminalList {
    /// All running terminals and the most recently ended ones, newest first.
    pub terminals: Vec<Terminal>,
}

/// A text message from a viewer. Binary messages are input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ToTerminal {
    /// The size of the viewer's window changed.
    Resize {
        /// Number of columns, 1 to 500.
        cols: u32,
        /// Number of rows, 1 to 200.
        rows: u32,
    },
}

/// A text message to a viewer. Binary messages are output of the terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum FromTerminal {
    /// Size of the terminal. Sent first, and after every change.
    Size {
        /// Number of columns.
        cols: u32,
        /// Number of rows.
        rows: u32,
    },
    /// A message from the viewer was rejected. The connection stays open.
    Error {
        /// Human-readable message.
        error: String,
    },
    /// Last message: how the program ended.
    Exit {
        /// Exit code, as a shell would report it.
        exit_code: i32,
        /// Signal that ended the program, such as `SIGHUP`.
        signal: Option<String>,
        /// Why the program ended. `lost` if its sandbox stopped.
        reason: EndReason,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_documented_shape() {
        let resize = serde_json::to_string(&ToTerminal::Resize { cols: 80, rows: 24 }).unwrap();
        assert_eq!(resize, r#"{"type":"resize","cols":80,"rows":24}"#);
        let exit =
            FromTerminal::Exit { exit_code: 129, signal: Some("SIGHUP".into()), reason: EndReason::Killed };
        let exit = serde_json::to_string(&exit).unwrap();
        assert_eq!(exit, r#"{"type":"exit","exitCode":129,"signal":"SIGHUP","reason":"killed"}"#);
    }
}
