//! Errors of the client.

use std::time::Duration;

use sandbox_api::error::{ErrorBody, ErrorCode};
use thiserror::Error;

use crate::body::BoxError;
use crate::transport::TransportError;

/// Why a call failed.
#[derive(Debug, Error)]
pub enum Error {
    /// The HTTP client could not be created.
    #[error("the HTTP client cannot be set up")]
    Setup(#[source] BoxError),
    /// The connection failed or broke.
    #[error("sandboxd does not respond")]
    Broken(#[source] TransportError),
    /// The connection is open, but the response did not arrive in time.
    #[error("sandboxd does not respond within {after:?}")]
    Deadline {
        /// Deadline of the call.
        after: Duration,
    },
    /// The request cannot be sent, for example because the token is not a valid header.
    #[error("the request is invalid")]
    Invalid(#[source] BoxError),
    /// The daemon rejected the request.
    #[error("{}", body.error)]
    Refused {
        /// HTTP status.
        status: u16,
        /// Error body of the daemon.
        body: Box<ErrorBody>,
        /// When a retry may succeed, if the daemon says so.
        retry_after: Option<Duration>,
    },
    /// The response is not from sandboxd.
    #[error("the response with status {status} is not from sandboxd")]
    Foreign {
        /// HTTP status.
        status: u16,
    },
    /// A line of a stream is longer than any that sandboxd sends.
    #[error("a line of the stream is longer than {limit} bytes")]
    LineTooLong {
        /// Maximum length of a line.
        limit: usize,
    },
    /// A line of a stream is not a record.
    #[error("a line of the stream is not a record")]
    BadLine(#[source] serde_json::Error),
    /// The stream ended before the command.
    #[error("the stream ended before the command did")]
    Cut,
    /// The file is longer than the caller allows.
    #[error("the file is longer than {limit} bytes")]
    TooLong {
        /// Maximum length that the caller allows.
        limit: usize,
    },
    /// A stream was silent for too long: not even a heartbeat arrived.
    #[error("sandboxd has been silent for {after:?}")]
    Silent {
        /// Maximum silence.
        after: Duration,
    },
    /// The connection to a terminal failed or broke. The terminal keeps running.
    #[error("the connection to the terminal broke")]
    SocketBroken(#[source] Box<tokio_tungstenite::tungstenite::Error>),
    /// Connecting to a terminal took too long.
    #[error("sandboxd does not respond within {after:?}")]
    SocketDeadline {
        /// Deadline of the connection.
        after: Duration,
    },
    /// The daemon closed the connection to a terminal that keeps running.
    #[error("sandboxd closed the connection before the terminal ended")]
    SocketClosed {
        /// Close code of RFC 6455 section 7.4.1. 1001 means that the daemon shuts down.
        code: Option<u16>,
    },
    /// A message of a terminal is of an unknown type.
    #[error("a message of the terminal is of an unknown type")]
    BadMessage(#[source] serde_json::Error),
    /// The content of a file is not base64.
    #[error("the file's content is not base64")]
    BadContent(#[source] base64::DecodeError),
}

impl Error {
    /// Whether the same call may succeed later: the connection or the daemon is unavailable, or the daemon reports a
    /// temporary error. The first attempt may have had an effect, so retry only calls that are safe to repeat.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Broken(_) | Self::Deadline { .. } | Self::Cut | Self::Silent { .. } => true,
            Self::SocketBroken(_) | Self::SocketDeadline { .. } | Self::SocketClosed { .. } => true,
            Self::Refused { body, .. } => body.code.is_retryable(),
            // A proxy that cannot reach the daemon.
            Self::Foreign { status } => matches!(status, 502..=504),
            Self::Setup(_)
            | Self::Invalid(_)
            | Self::LineTooLong { .. }
            | Self::BadLine(_)
            | Self::TooLong { .. }
            | Self::BadMessage(_)
            | Self::BadContent(_) => false,
        }
    }

    /// Error code of the daemon, if it rejected the request.
    pub fn code(&self) -> Option<ErrorCode> {
        self.body().map(|body| body.code)
    }

    /// Error body of the daemon, if it rejected the request.
    pub fn body(&self) -> Option<&ErrorBody> {
        match self {
            Self::Refused { body, .. } => Some(body),
            _ => None,
        }
    }

    /// Returns how long to wait before a retry, if the daemon says so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
