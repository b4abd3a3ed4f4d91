//! Why a git server, a registry or a directory gave no result.

use std::io;
use std::time::Duration;

use thiserror::Error;

/// Why a git server, a registry or a directory gave no result.
#[derive(Debug, Error)]
pub enum Error {
    /// The server has no such repository, package or version, or it is not for us.
    #[error("the server responded with {status}")]
    NotFound {
        /// Status of the response.
        status: u16,
    },
    /// The server permits no more requests for now.
    #[error("the server permits no more requests for now")]
    RateLimited {
        /// Time after which it permits more, if it says so.
        retry_after: Option<Duration>,
    },
    /// The server responded with another error.
    #[error("the server responded with {status}")]
    Status {
        /// Status of the response.
        status: u16,
    },
    /// The server must not be reached, or its name was not found.
    #[error("the server cannot be connected to")]
    Gate {
        /// Why.
        source: sandboxd_egress::Error,
    },
    /// The connection failed.
    #[error("the connection failed")]
    Connection {
        /// Why.
        source: reqwest::Error,
    },
    /// The server sent nothing for too long.
    #[error("the server does not respond")]
    Silent,
    /// A redirect leads to an address that is not followed.
    #[error("a redirect leads to an address that is not followed")]
    Redirect,
    /// The response has more bytes than are read.
    #[error("the response has more than {max} bytes")]
    TooLarge {
        /// Maximum in bytes.
        max: u64,
    },
    /// A directory of the operator cannot be read.
    #[error("the directory cannot be read")]
    Directory {
        /// Why.
        source: io::Error,
    },
    /// A directory changed while it was read, or has other files than before.
    #[error("the directory changed while it was read")]
    Changed,
    /// A directory has more entries than are read.
    #[error("the directory has more than {max} entries")]
    TooManyFiles {
        /// Maximum number.
        max: usize,
    },
    /// A directory is something that is not read. The text is a part of a sentence.
    #[error("the directory is not supported: {0}")]
    Unsupported(&'static str),
    /// A directory was not read in time.
    #[error("the directory was not read in time")]
    TooSlow,
    /// The response is not what the protocol requires.
    #[error("the response is not valid: {0}")]
    Malformed(&'static str),
}

impl Error {
    pub(crate) fn from_reqwest(source: reqwest::Error) -> Self {
        if source.is_timeout() { Self::Silent } else { Self::Connection { source } }
    }
}
