//! How a server and its requests end.

use serde_json::Value;
use tokio::time::Instant;

/// How a server has ended.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    pub(super) at: Instant,
    pub(super) how: How,
    /// The end of its standard error.
    pub(super) stderr: String,
}

/// Why a server has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum How {
    /// It was not used for a while, or is no longer needed.
    Stopped,
    /// Its sandbox was parked or deleted.
    Parked,
    /// The connection to the daemon broke.
    Disconnected,
    /// The time limit of the command has passed.
    TimeLimit,
    /// It ended by itself, or had to be ended, for this reason.
    Failed(String),
}

/// Why a request has no result.
#[derive(Debug)]
pub(super) enum LinkError {
    /// The server had already ended, and did not receive the request.
    NotSent,
    /// The server ended before it answered.
    Ended(Ended),
    /// Too many requests wait for their answer.
    Busy,
    /// The server's error, as JSON-RPC defines it.
    Refused(Value),
}
