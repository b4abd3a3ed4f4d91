//! What can go wrong between a client and the daemon.

use std::time::Duration;

use sandbox_api::error::{ErrorBody, ErrorCode};
use thiserror::Error;

/// A call failed.
#[derive(Debug, Error)]
pub enum Error {
    /// The client could not be made.
    #[error("the HTTP client cannot be set up")]
    Setup(#[source] reqwest::Error),
    /// The connection failed or broke.
    #[error("sandboxd does not answer")]
    Broken(#[source] reqwest::Error),
    /// The connection stands, and the whole answer did not come in time.
    #[error("sandboxd does not answer within {after:?}")]
    Deadline {
        /// What the call had.
        after: Duration,
        /// What was waited for.
        source: reqwest::Error,
    },
    /// The daemon refused.
    #[error("{}", body.error)]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The daemon's words.
        body: Box<ErrorBody>,
    },
    /// Something that is not sandboxd answered.
    #[error("the answer, status {status}, is not sandboxd's")]
    Foreign {
        /// The HTTP status.
        status: u16,
    },
    /// A line of a stream is longer than any sandboxd sends.
    #[error("a line of the stream is longer than {limit} bytes")]
    LineTooLong {
        /// Most that is read.
        limit: usize,
    },
    /// A line of a stream is not a record.
    #[error("a line of the stream is not a record")]
    BadLine(#[source] serde_json::Error),
    /// A stream ended before the command did.
    #[error("the stream ended before the command did")]
    Cut,
    /// A file is longer than the caller takes.
    #[error("the file is longer than {limit} bytes")]
    TooLong {
        /// What the caller takes.
        limit: usize,
    },
    /// A stream's other end did not move, not even to say that it is there.
    #[error("sandboxd has been silent for {after:?}")]
    Silent {
        /// How long it may be.
        after: Duration,
    },
    /// The connection to a terminal failed or broke. The terminal goes on.
    #[error("the connection to the terminal broke")]
    SocketBroken(#[source] Box<tokio_tungstenite::tungstenite::Error>),
    /// The connection to a terminal took longer than it may.
    #[error("sandboxd does not answer within {after:?}")]
    SocketDeadline {
        /// What it had.
        after: Duration,
    },
    /// The daemon ended the connection to a terminal that goes on.
    #[error("sandboxd hung up before the terminal ended")]
    HungUp {
        /// Why, as RFC 6455 section 7.4.1 numbers it; 1001 where it stops.
        code: Option<u16>,
    },
    /// A message of a terminal is none that is known.
    #[error("a message of the terminal is not one that is known")]
    BadMessage(#[source] serde_json::Error),
    /// A file's content is not base64.
    #[error("the file's content is not base64")]
    BadContent(#[source] base64::DecodeError),
}

impl Error {
    pub(crate) fn of(source: reqwest::Error, limit: Option<Duration>) -> Self {
        match limit {
            // To connect has a deadline of its own.
            Some(after) if source.is_timeout() && !source.is_connect() => Self::Deadline { after, source },
            _ => Self::Broken(source),
        }
    }

    /// Whether the same look may work a while later: the connection or the daemon is away, or the daemon says so.
    /// Says nothing about whether what was asked for has happened, so it is for what is safe to repeat.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Broken(_) | Self::Deadline { .. } | Self::Cut | Self::Silent { .. } => true,
            Self::SocketBroken(_) | Self::SocketDeadline { .. } | Self::HungUp { .. } => true,
            Self::Refused { body, .. } => body.code.is_retryable(),
            // A proxy in between, whose other side is away.
            Self::Foreign { status } => matches!(status, 502..=504),
            Self::Setup(_)
            | Self::LineTooLong { .. }
            | Self::BadLine(_)
            | Self::TooLong { .. }
            | Self::BadMessage(_)
            | Self::BadContent(_) => false,
        }
    }

    /// The daemon's code, where it refused.
    pub fn code(&self) -> Option<ErrorCode> {
        self.body().map(|body| body.code)
    }

    /// The daemon's words, where it refused.
    pub fn body(&self) -> Option<&ErrorBody> {
        match self {
            Self::Refused { body, .. } => Some(body),
            _ => None,
        }
    }
}
