//! A terminal as the daemon sees it: what is asked for, what is heard of it.

use std::collections::HashMap;

use bytes::Bytes;
use sandbox_api::TerminalId;
use sandbox_api::command::EndReason;

use super::sandbox::checked;
use super::{FieldError, limits};

/// What to run on a terminal and how.
#[derive(Debug, Clone)]
pub struct TerminalSpec {
    /// Made here.
    pub id: TerminalId,
    /// The program and its arguments; `None` is a login shell.
    pub argv: Option<(String, Vec<String>)>,
    /// Relative to the workspace; empty is the workspace.
    pub cwd: String,
    /// On top of the sandbox's environment.
    pub env: HashMap<String, String>,
    /// How large it is.
    pub size: TerminalSize,
}

/// In characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// In a row.
    pub cols: u32,
    /// Rows.
    pub rows: u32,
}

impl TerminalSize {
    /// A size that a terminal may have.
    pub fn new(cols: u32, rows: u32) -> Result<Self, FieldError> {
        checked("cols", cols.into(), 1..=limits::MAX_TERMINAL_COLS.into())?;
        checked("rows", rows.into(), 1..=limits::MAX_TERMINAL_ROWS.into())?;
        Ok(Self { cols, rows })
    }
}

/// What is known of a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalStatus {
    /// Its id.
    pub id: TerminalId,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Where it was started.
    pub cwd: String,
    /// It was opened without a program of its own.
    pub is_shell: bool,
    /// How large it is.
    pub size: TerminalSize,
    /// Milliseconds since the Unix epoch.
    pub started_at_ms: i64,
    /// How it ended, once it has.
    pub ended: Option<TerminalEnded>,
    /// Who looks at it.
    pub viewers: u32,
    /// Written since its start.
    pub bytes: u64,
    /// What it shows, where that was asked for.
    pub screen: Option<TerminalScreen>,
}

/// What a terminal shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalScreen {
    /// Its rows.
    pub text: String,
    /// Counted from 0.
    pub cursor_row: u32,
    /// Counted from 0.
    pub cursor_col: u32,
}

/// How a terminal ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalEnded {
    /// Why.
    pub reason: EndReason,
    /// As a shell would report it.
    pub exit_code: i32,
    /// Number of the signal that ended it.
    pub signal: Option<i32>,
    /// Milliseconds since the Unix epoch.
    pub at_ms: i64,
}

impl TerminalEnded {
    /// The end of a terminal whose sandbox went away. Nobody is told when.
    pub const LOST: Self = Self { reason: EndReason::Lost, exit_code: 137, signal: None, at_ms: 0 };
}

/// Where a viewer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewFrom {
    /// With all that is kept.
    Scrollback,
    /// With the screen as it is.
    Screen,
    /// Behind so many bytes.
    After(u64),
}

/// What a viewer of a terminal hears.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalEvent {
    /// First, and whenever it changed.
    Size(TerminalSize),
    /// What it wrote, or what brings another terminal to show the same.
    Output {
        /// The bytes.
        data: Bytes,
        /// Where to go on behind them; `None` in the middle of what only makes sense as a whole.
        after: Option<u64>,
    },
    /// Last.
    Ended(TerminalEnded),
}
