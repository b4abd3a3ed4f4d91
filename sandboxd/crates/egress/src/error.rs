//! Why a connection is not made.

use std::io;

use sandbox_api::network::DenialReason;

/// Why a connection is not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection is not permitted.
    #[error("the connection is denied: {reason:?}")]
    Denied {
        /// The reason.
        reason: DenialReason,
    },
    /// The name does not exist.
    #[error("the name was not found")]
    NotFound {
        /// Error of the resolver, if it was asked.
        source: io::Error,
    },
    /// No address can be reached.
    #[error("no address can be reached")]
    Unreachable {
        /// Error of the last address.
        source: io::Error,
    },
    /// The host refused the connection.
    #[error("the host refused the connection")]
    ByPeer {
        /// Error of the last address.
        source: io::Error,
    },
    /// The look-up or the connection took too long.
    #[error("the connection timed out")]
    Timeout,
    /// The operator's proxy refused the connection.
    #[error("the upstream proxy answered {status}")]
    Upstream {
        /// Status of the proxy's response.
        status: u16,
    },
}

impl Error {
    pub(super) fn denied(reason: DenialReason) -> Self {
        Self::Denied { reason }
    }
}
