//! Terminals: the request to open one, and the events that report on it.

use std::collections::HashMap;

use bytes::Bytes;
use sandbox_api::TerminalId;
use sandbox_api::command::EndReason;

use super::field::checked;
use super::secret::Secret;
use super::{FieldError, limits};

/// A program to run on a terminal, and the options of the run.
#[derive(Debug, Clone)]
pub struct TerminalSpec {
    /// Random.
    pub id: TerminalId,
    /// The program and its arguments. `None` means a login shell.
    pub argv: Option<(String, Vec<String>)>,
    /// Working directory, relative to the workspace. Empty means the workspace.
    pub cwd: String,
    /// Variables in addition to the sandbox's environment. They take precedence.
    pub env: HashMap<String, String>,
    /// Values that must not be shown in the output.
    pub secrets: Vec<Secret>,
    /// Size of the terminal.
    pub size: TerminalSize,
}

/// Size in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Number of columns.
    pub cols: u32,
    /// Number of rows.
    pub rows: u32,
}

impl TerminalSize {
    /// Checks a size.
    pub fn new(cols: u32, rows: u32) -> Result<Self, FieldError> {
        checked("cols", cols.into(), 1..=limits::MAX_TERMINAL_COLS.into())?;
        checked("rows", rows.into(), 1..=limits::MAX_TERMINAL_ROWS.into())?;
        Ok(Self { cols, rows })
    }
}

/// State of a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalStatus {
    /// Id of the terminal.
    pub id: TerminalId,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Working directory.
    pub cwd: String,
    /// Whether it was opened without a program.
    pub is_shell: bool,
    /// Size of the terminal.
    pub size: TerminalSize,
    /// Milliseconds since the Unix epoch.
    pub started_at_ms: i64,
    /// How the program ended, if it has.
    pub ended: Option<TerminalEnded>,
    /// Number of viewers.
    pub viewers: u32,
    /// Bytes written since the start.
    pub bytes: u64,
    /// Contents of the screen, if they were requested.
    pub screen: Option<TerminalScreen>,
}

/// Contents of a screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalScreen {
    /// The rows.
    pub text: String,
    /// Row of the cursor, counted from 0.
    pub cursor_row: u32,
    /// Column of the cursor, counted from 0.
    pub cursor_col: u32,
}

/// How a terminal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalEnded {
    /// Reason of the end.
    pub reason: EndReason,
    /// As a shell would report it.
    pub exit_code: i32,
    /// Number of the signal that ended the program.
    pub signal: Option<i32>,
    /// Milliseconds since the Unix epoch.
    pub at_ms: i64,
}

impl TerminalEnded {
    /// The end of a terminal whose sandbox stopped. Its time is not known.
    pub const LOST: Self = Self { reason: EndReason::Lost, exit_code: 137, signal: None, at_ms: 0 };
}

/// Where a viewer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewFrom {
    /// With all output that is kept.
    Scrollback,
    /// With the current screen.
    Screen,
    /// After this many bytes.
    After(u64),
}

/// An event of a terminal, for its viewers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalEvent {
    /// First event, and after every change.
    Size(TerminalSize),
    /// Output, or a sequence that makes another terminal show the same screen.
    Output {
        /// The bytes.
        data: Bytes,
        /// Position after these bytes, for continuing. `None` in the middle of a sequence that only makes sense as
        /// a whole.
        after: Option<u64>,
    },
    /// Last event.
    Ended(TerminalEnded),
}
