//! Why a connection is aborted.

use std::io;

use super::inspect::Mismatch;

/// Why a connection was aborted. Without this error, both ends have closed the connection.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The client sent data for another host than the requested one.
    #[error("the client sent data for another host")]
    Mismatch,
    /// No bytes moved for too long.
    #[error("the connection was idle for too long")]
    Silent,
    /// The sandbox has exceeded its maximum traffic.
    #[error("the sandbox has reached its traffic limit")]
    Spent,
    /// One end was reset, or sent invalid HTTP.
    #[error("the connection was reset")]
    Reset {
        /// The error of the system.
        source: io::Error,
    },
}

impl From<io::Error> for Broken {
    fn from(source: io::Error) -> Self {
        Self::Reset { source }
    }
}

impl From<Mismatch> for Broken {
    fn from(_: Mismatch) -> Self {
        Self::Mismatch
    }
}
