//! Limits of terminals.

use std::time::Duration;

/// Like [`KILL`](super::KILL), for a terminal: first its program is ended, and then what had left the terminal.
pub const CLOSE_TERMINAL: Duration = Duration::from_secs(8);

/// Maximum number of columns.
pub const MAX_TERMINAL_COLS: u32 = 500;

/// Maximum number of rows.
pub const MAX_TERMINAL_ROWS: u32 = 200;

/// Number of columns if the caller sets none.
pub const DEFAULT_TERMINAL_COLS: u32 = 120;

/// Number of rows if the caller sets none.
pub const DEFAULT_TERMINAL_ROWS: u32 = 32;

/// Maximum size of the input in one request or message, in bytes.
pub const MAX_TERMINAL_INPUT_BYTES: usize = 64 * 1024;

/// Interval between pings of a viewer.
pub const TERMINAL_PING: Duration = Duration::from_secs(20);

/// Time without any message, pongs included, after which a viewer is disconnected.
pub const SILENT_VIEWER: Duration = Duration::from_secs(60);

/// Time that the end of a viewer's connection waits for the viewer's close frame.
pub const VIEWER_CLOSE: Duration = Duration::from_secs(2);

/// Responses to one viewer's messages that may wait to be sent.
pub const MAX_VIEWER_ANSWERS: usize = 8;

/// Pings of one viewer that may wait to be answered. The next one is not read before.
pub const MAX_VIEWER_PINGS: usize = 256;

/// Time after which a viewer that leaves the pongs unread is disconnected.
pub const UNREAD_PONGS: Duration = Duration::from_secs(10);

/// Maximum size of what waits to be sent to one viewer, in bytes: one message and the responses to its pings.
pub const MAX_VIEWER_UNSENT_BYTES: usize = 256 * 1024;
