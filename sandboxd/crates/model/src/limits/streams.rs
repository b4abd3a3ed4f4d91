//! Limits of streams of events and their readers.

use std::time::Duration;

/// Maximum number of streams and waiting requests of one sandbox. Further ones are rejected.
pub const MAX_READERS: usize = 256;

/// Time for which only the caller that started a command waits for its end. Then a watcher waits for it too.
pub const HAND_OVER: Duration = Duration::from_secs(5);

/// Target size of a piece of output in a stream, in bytes.
pub const PIECE_BYTES: usize = 64 * 1024;

/// Memory that a record needs in addition to its data, in bytes.
pub const RECORD_OVERHEAD_BYTES: usize = 64;

/// Bytes of unread events that all streams together may hold. Further events are read from the agents' logs when a
/// client asks for them. Each stream counts as [`UNREAD_STREAM_BYTES`].
pub const MAX_UNREAD_BYTES: usize = 48 * 1024 * 1024;

/// Maximum bytes of unread events that one stream can hold: a window of the agent's connection and one message.
pub const UNREAD_STREAM_BYTES: usize = 768 * 1024;

/// Time that a stream holds events that its client does not read.
pub const UNREAD_EVENTS: Duration = Duration::from_secs(1);

/// Interval between checks for unread events.
pub const FEED_SWEEP: Duration = Duration::from_millis(250);

/// Interval at which the daemon reports to an agent that a slow reader will return. The agent keeps the reader's
/// position three times as long.
pub const SLOW_READER: Duration = Duration::from_secs(10);

/// Silence in a record stream before a heartbeat.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

/// Time that a client may leave a response unread. Until then the stream occupies a reader's slot, keeps its
/// sandbox in use and may delay a command. Five minutes cover a user who has paused a terminal.
pub const STALLED_READER: Duration = Duration::from_secs(5 * 60);
