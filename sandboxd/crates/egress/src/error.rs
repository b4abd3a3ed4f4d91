//! Why a connection is not made.

use std::io;

use sandbox_api::network::DenialReason;

/// Why a connection is not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It may not be.
    #[error("it is refused: {reason:?}")]
    Denied {
        /// Why.
        reason: DenialReason,
    },
    /// There is no such name.
    #[error("the name was not found")]
    NotFound {
        /// What the resolver said, if it was asked.
        source: io::Error,
    },
    /// There is no way to any of its addresses.
    #[error("no address can be reached")]
    Unreachable {
        /// What the last one said.
        source: io::Error,
    },
    /// The host refused.
    #[error("the host refused the connection")]
    ByPeer {
        /// What the last address said.
        source: io::Error,
    },
    /// Finding the name or connecting took too long.
    #[error("it took too long")]
    Timeout,
    /// The operator's proxy does not connect.
    #[error("the upstream proxy answered {status}")]
    Upstream {
        /// Of its answer.
        status: u16,
    },
}

impl Error {
    pub(super) fn denied(reason: DenialReason) -> Self {
        Self::Denied { reason }
    }
}
