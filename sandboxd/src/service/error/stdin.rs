//! Why standard input was not written to its end.

use sandbox_api::ErrorCode;
use serde_json::json;
use thiserror::Error;

use super::causes;
use crate::agent;
use crate::model::{PublicError, limits};

/// Why standard input was not written to its end.
#[derive(Debug, Error)]
#[error("{}", self.to_public().message)]
pub enum StdinError {
    /// The client stopped sending standard input.
    Late {
        /// Bytes of this request that the command had taken.
        written_bytes: u64,
    },
    /// The body with standard input broke off.
    Cut {
        /// Bytes of this request that the command had taken.
        written_bytes: u64,
        /// The error of the body.
        source: std::io::Error,
    },
    /// The agent disconnected or failed while standard input was written.
    Broken {
        /// Bytes of this request that the command is known to have taken.
        written_bytes: u64,
        /// The agent's error.
        source: agent::Error,
    },
}

impl StdinError {
    /// The part of the error that clients see.
    pub(super) fn to_public(&self) -> PublicError {
        match self {
            Self::Late { written_bytes } => PublicError::new(
                ErrorCode::DeadlineExceeded,
                format!(
                    "nothing was sent for {:?}; {written_bytes} bytes were written",
                    limits::STDIN_SILENCE
                ),
                json!({ "field": "body", "writtenBytes": written_bytes }),
            ),
            Self::Cut { written_bytes, .. } => PublicError::new(
                ErrorCode::InvalidRequest,
                format!("the body could not be read to its end; {written_bytes} bytes were written"),
                json!({ "field": "body", "writtenBytes": written_bytes }),
            ),
            Self::Broken { written_bytes, source } => PublicError::new(
                causes::agent_code(source),
                format!("the sandbox did not answer; at least {written_bytes} bytes were written"),
                json!({ "writtenBytes": written_bytes }),
            ),
        }
    }

    /// Whether the connection to the sandbox ended meanwhile.
    pub(super) fn is_interrupted(&self) -> bool {
        matches!(self, Self::Broken { source, .. } if source.is_broken())
    }
}
