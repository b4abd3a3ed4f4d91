//! Every bound of the agent, by name.

use std::time::Duration;

/// Commands that may run at once. More are refused: the sandbox's process limit is near.
pub(crate) const MAX_RUNNING_COMMANDS: usize = 128;

/// Ended commands whose log and end are kept, the newest ones.
pub(crate) const MAX_ENDED_COMMANDS: usize = 256;

/// What one command's log keeps, in bytes. Twice a connection's window and more, so that a reader whose
/// connection broke finds what was on its way.
pub(crate) const LOG_BYTES: usize = 8 * 1024 * 1024;

/// What all logs together keep before each is cut to [`SMALL_LOG_BYTES`].
pub(crate) const ALL_LOGS_BYTES: usize = 32 * 1024 * 1024;

/// What a log keeps while memory for logs is short and there is no ended command left to forget.
pub(crate) const SMALL_LOG_BYTES: usize = 256 * 1024;

/// The same for a log whose own reader streams it: half of it must hold what a connection can have swallowed,
/// a stream's window with the buffers on both sides of it.
pub(crate) const REPEATED_LOG_BYTES: usize = 4 * 1024 * 1024;

/// Arguments of a command that its status tells, and of each so many bytes.
pub(crate) const STATUS_ARGS: usize = 64;
/// See [`STATUS_ARGS`].
pub(crate) const STATUS_ARG_BYTES: usize = 4 * 1024;

/// Data in one message to a reader.
pub(crate) const MESSAGE_BYTES: usize = 256 * 1024;

/// How long a command waits for its own reader after that reader's connection broke, so that a restart of
/// sandboxd loses nothing.
pub(crate) const READER_HOLD: Duration = Duration::from_secs(30);

/// Standard input passed with the start of a command, in bytes.
pub(crate) const MAX_STDIN_BYTES: usize = 8 * 1024 * 1024;

/// A script, in bytes.
pub(crate) const MAX_SCRIPT_BYTES: usize = 8 * 1024 * 1024;

/// Longest command id.
pub(crate) const MAX_ID_BYTES: usize = 80;

/// Files in one write.
pub(crate) const MAX_FILES_PER_WRITE: usize = 10_000;

/// Path of a file in bytes, PATH_MAX of limits.h without its NUL.
pub(crate) const MAX_PATH_BYTES: usize = 4095;

/// Terminals that may run at once.
pub(crate) const MAX_TERMINALS: usize = 64;

/// Ended terminals that are kept with their last screen, the newest ones.
pub(crate) const MAX_ENDED_TERMINALS: usize = 32;

/// Viewers of one terminal at once.
pub(crate) const MAX_VIEWERS: usize = 16;

/// Columns and rows of a terminal. A character of a screen takes 32 bytes here, twice while a program uses the
/// alternate screen.
pub(crate) const MAX_COLS: u16 = 500;
/// See [`MAX_COLS`].
pub(crate) const MAX_ROWS: u16 = 200;

/// What a terminal keeps of what was written to it, in bytes: the scrollback of those who attach.
pub(crate) const SCROLLBACK_BYTES: usize = 256 * 1024;

/// Rows above the screen that are kept rendered. None: [`SCROLLBACK_BYTES`] has them as they were written, at a
/// twentieth of the price.
pub(crate) const SCREEN_SCROLLBACK_ROWS: usize = 0;

/// Program and arguments of a terminal that are told, in bytes: a list tells those of all.
pub(crate) const TERMINAL_ARGV_BYTES: usize = 2048;

/// Text of one screen that is told, in bytes.
pub(crate) const SCREEN_TEXT_BYTES: usize = 512 * 1024;

/// What brings a viewer's terminal to the last screen of one that has ended, in bytes. Longer ones are told as
/// text alone.
pub(crate) const STILL_BYTES: usize = 256 * 1024;

/// Data in one message to a viewer. Small, because a viewer that is behind gets what is newest only after it.
pub(crate) const VIEW_BYTES: usize = 64 * 1024;

/// What is typed in one request, and what waits for a terminal's program to read it, in bytes.
pub(crate) const MAX_INPUT_BYTES: usize = 64 * 1024;
/// See [`MAX_INPUT_BYTES`].
pub(crate) const MAX_WAITING_INPUT_BYTES: usize = 256 * 1024;

/// How long what is typed waits for the program to read it, behind the kernel's own 4 KiB.
pub(crate) const INPUT_WAIT: Duration = Duration::from_secs(5);
