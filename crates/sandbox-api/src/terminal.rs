//! Terminals: opening one, and what goes over its WebSocket.

use serde::{Deserialize, Serialize};

use crate::TerminalId;
use crate::command::EndReason;
use crate::sandbox::StringMap;

/// `POST …/terminals`: a program on a terminal, or a login shell.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct OpenTerminal {
    /// The program; without it an interactive `bash -l`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cmd: Option<String>,
    /// Its arguments; only together with `cmd`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Working directory, relative to the workspace; default the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// On top of the sandbox's environment: up to 64 entries, 32 KiB. `TERM` is `xterm-256color` unless set here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<std::collections::BTreeMap<String, String>>))]
    pub env: Option<StringMap>,
    /// Characters in a row: 1 to 500, default 120.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cols: Option<u32>,
    /// Rows: 1 to 200, default 32.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u32>,
}

/// A terminal that was opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TerminalOpened {
    /// Its id.
    pub terminal_id: TerminalId,
}

/// `POST …/terminals/{id}:resize`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResizeTerminal {
    /// Characters in a row: 1 to 500.
    pub cols: u32,
    /// Rows: 1 to 200.
    pub rows: u32,
}

/// `GET …/terminals/{id}`: what is known of a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Terminal {
    /// Its id.
    pub terminal_id: TerminalId,
    /// `running` or `ended`.
    pub state: TerminalState,
    /// The program.
    pub cmd: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Where it was started.
    pub cwd: String,
    /// It was opened without a program of its own.
    pub is_shell: bool,
    /// Characters in a row.
    pub cols: u32,
    /// Rows.
    pub rows: u32,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub ended_at: Option<String>,
    /// Where it has ended, as a shell would report it.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub exit_code: Option<i32>,
    /// Where a signal ended it, such as `SIGHUP`.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub signal: Option<String>,
    /// Where it has ended.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub reason: Option<EndReason>,
    /// Who looks at it now.
    pub viewers: u32,
    /// Written since its start.
    pub bytes: u64,
    /// What it shows, rows ended by newlines; not in a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screen: Option<String>,
    /// Where the cursor is; not in a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

/// A place on a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Cursor {
    /// Counted from 0, from the top.
    pub row: u32,
    /// Counted from 0, from the left.
    pub col: u32,
}

/// Whether a terminal has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TerminalState {
    /// Its program lives.
    Running,
    /// Its end is known.
    Ended,
}

/// `GET …/terminals`: the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TerminalList {
    /// All that run, and the newest of those that have ended.
    pub terminals: Vec<Terminal>,
}

/// A text message from a viewer. Binary ones are what is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ToTerminal {
    /// The viewer's window has another size.
    Resize {
        /// Characters in a row: 1 to 500.
        cols: u32,
        /// Rows: 1 to 200.
        rows: u32,
    },
}

/// A text message to a viewer. Binary ones are what the terminal writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum FromTerminal {
    /// Its size: first, and whenever it changed.
    Size {
        /// Characters in a row.
        cols: u32,
        /// Rows.
        rows: u32,
    },
    /// Something the viewer sent was not done. The connection goes on.
    Error {
        /// A sentence for people.
        error: String,
    },
    /// Last: how it ended.
    Exit {
        /// As a shell would report it.
        exit_code: i32,
        /// The signal that ended it, such as `SIGHUP`.
        signal: Option<String>,
        /// Why it ended; `lost` where its sandbox went away.
        reason: EndReason,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_shape_of_the_contract() {
        let resize = serde_json::to_string(&ToTerminal::Resize { cols: 80, rows: 24 }).unwrap();
        assert_eq!(resize, r#"{"type":"resize","cols":80,"rows":24}"#);
        let exit =
            FromTerminal::Exit { exit_code: 129, signal: Some("SIGHUP".into()), reason: EndReason::Killed };
        let exit = serde_json::to_string(&exit).unwrap();
        assert_eq!(exit, r#"{"type":"exit","exitCode":129,"signal":"SIGHUP","reason":"killed"}"#);
    }
}
