//! Why a connection is broken off.

use std::io;

use super::inspect::Mismatch;

/// Why a connection was broken off. Otherwise it ended in order at both ends.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// What was sent is for another host than the one that was asked for.
    #[error("what was sent is for another host")]
    Mismatch,
    /// Nothing moved for too long.
    #[error("nothing moved for too long")]
    Silent,
    /// The sandbox has moved more than it may.
    #[error("the sandbox has moved as much as it may")]
    Spent,
    /// One end was reset, or what was said on it was no HTTP.
    #[error("an end was reset")]
    Reset {
        /// How.
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
