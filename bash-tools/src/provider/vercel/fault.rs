//! Errors of Vercel's API, before they are converted for the caller.

use std::time::Duration;

use reqwest::StatusCode;

use crate::provider::Error;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// Vercel rejected the call.
    #[error("status {status}, {code}: {message}")]
    Refused { status: StatusCode, code: String, message: String, retry_after: Option<Duration> },
    /// The connection failed or broke.
    #[error("vercel does not respond")]
    Broken(#[source] reqwest::Error),
    /// No response arrived in time. The call may still have had an effect.
    #[error("vercel does not respond within {after:?}")]
    Deadline { after: Duration },
    /// A response is longer than any of the API.
    #[error("the response is longer than {limit} bytes")]
    TooLong { limit: usize },
    /// A response does not match the API.
    #[error("the response does not match the API")]
    BadAnswer(#[source] serde_json::Error),
    /// The response to the start of a command names no command.
    #[error("the response does not name the started command")]
    NoCommand,
    /// The stream of a command broke off repeatedly.
    #[error("the stream of a command's output broke {tries} times without progress")]
    Cut { tries: u32 },
    /// Another sandbox has the name now.
    #[error("the sandbox was deleted, and its name now belongs to another")]
    Replaced,
    /// The content to send could not be read.
    #[error("the data to send could not be read")]
    Unreadable(#[source] std::io::Error),
    /// The credentials have expired.
    #[error("the credentials expired {ago:?} ago")]
    Expired { ago: Duration },
    /// The request is invalid and was not sent.
    #[error("{message}")]
    Unsendable { message: String },
}

impl Fault {
    pub(super) fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    pub(super) fn is_not_found(&self) -> bool {
        self.status() == Some(StatusCode::NOT_FOUND)
    }

    /// Whether the session has stopped or is about to. Nothing was done then, and the request can be repeated.
    pub(super) fn is_of_stopped_session(&self) -> bool {
        self.status() == Some(StatusCode::GONE) || self.is_of_stopping_session()
    }

    pub(super) fn is_of_stopping_session(&self) -> bool {
        let Self::Refused { status, code, .. } = self else { return false };
        *status == StatusCode::UNPROCESSABLE_ENTITY
            && matches!(code.as_str(), "sandbox_stopping" | "sandbox_snapshotting" | "sandbox_stopped")
    }

    /// Whether the files of a stopped sandbox are lost.
    pub(super) fn is_of_lost_snapshot(&self) -> bool {
        matches!(self, Self::Refused { status, code, .. }
            if *status == StatusCode::GONE && code == "snapshot_not_found")
    }

    /// Whether the outcome is unknown.
    pub(super) fn is_uncertain(&self) -> bool {
        match self {
            Self::Refused { status, .. } => status.is_server_error(),
            Self::Broken(_)
            | Self::Deadline { .. }
            | Self::TooLong { .. }
            | Self::BadAnswer(_)
            | Self::NoCommand
            | Self::Cut { .. }
            | Self::Unreadable(_) => true,
            Self::Replaced | Self::Expired { .. } | Self::Unsendable { .. } => false,
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused { status, ref message, retry_after, .. } => {
                let message = message.clone();
                match status.as_u16() {
                    401 | 403 => Self::Unauthenticated,
                    404 => Self::Gone,
                    429 => Self::Full { message, retry_after },
                    408 | 410 | 500..=599 => Self::Unavailable { message },
                    422 if fault.is_of_stopping_session() => Self::Unavailable { message },
                    400..=499 => Self::Refused { message },
                    _ => Self::Broken(fault.into()),
                }
            }
            Fault::Replaced => Self::Gone,
            Fault::Unsendable { message } => Self::Refused { message },
            Fault::Unreadable(error) => Self::Unreadable(error.into()),
            Fault::Expired { ago } => Self::Expired { ago },
            Fault::Broken(_)
            | Fault::Deadline { .. }
            | Fault::TooLong { .. }
            | Fault::BadAnswer(_)
            | Fault::NoCommand
            | Fault::Cut { .. } => Self::Broken(fault.into()),
        }
    }
}
