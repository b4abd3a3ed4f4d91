//! Why a request about a command is refused.

use std::time::Duration;

use sandbox_api::ErrorCode;
use serde_json::json;
use thiserror::Error;

use super::system::system_message;
use crate::command::StdinState;
use crate::echo::Echo;
use crate::public_error::PublicError;

/// Why a request about a command is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", self.to_public().message)]
pub enum CommandRefusal {
    /// The id belongs to a command that another request started.
    Differs,
    /// The command could not be started.
    StartFailed {
        /// `cwd`, `pipe`, `script`, `exec` or `fork`.
        step: String,
        /// The directory or program that the step is about.
        subject: String,
        /// The system's error number.
        errno: i32,
    },
    /// The sandbox's kernel cannot prevent a command from writing to the workspace.
    ReadOnlyUnavailable {
        /// The system's error number.
        errno: i32,
    },
    /// The command's standard input cannot be written to.
    StdinNotOpen {
        /// Why it is not open.
        state: StdinState,
        /// Bytes of this request that the command had taken.
        written_bytes: u64,
    },
    /// The command did not read its standard input, or another writer did not finish.
    StdinStalled {
        /// How long the agent waited.
        waited: Duration,
        /// Bytes of this request that the command had taken.
        written_bytes: u64,
    },
}

impl CommandRefusal {
    /// The part of the refusal that clients see.
    pub(super) fn to_public(&self) -> PublicError {
        match self {
            Self::Differs => PublicError::new(
                ErrorCode::AlreadyExists,
                "`commandId` belongs to another command: repeat the same request, or choose another id",
                json!({ "field": "commandId" }),
            ),
            Self::StartFailed { step, subject, errno } => PublicError::new(
                ErrorCode::Refused,
                format!(
                    "the command could not be started: {step} {}: {}",
                    Echo(subject),
                    system_message(*errno)
                ),
                json!({ "step": step, "errno": errno }),
            ),
            Self::ReadOnlyUnavailable { errno } => PublicError::new(
                ErrorCode::Refused,
                format!(
                    "`readOnly` is not supported here: the sandbox's kernel has no Landlock (error {errno}); nothing was run"
                ),
                json!({ "field": "readOnly", "errno": errno }),
            ),
            Self::StdinNotOpen { state, written_bytes } => PublicError::new(
                ErrorCode::WrongState,
                format!("the command's standard input is not open: {}", stdin_message(*state)),
                json!({ "state": state.as_str(), "writtenBytes": written_bytes }),
            ),
            Self::StdinStalled { waited, written_bytes } => PublicError::new(
                ErrorCode::DeadlineExceeded,
                format!(
                    "the command did not read for {waited:?}, or another writer did not finish; {written_bytes} bytes were written"
                ),
                json!({ "writtenBytes": written_bytes }),
            ),
        }
    }
}

fn stdin_message(state: StdinState) -> &'static str {
    match state {
        StdinState::NeverOpened => "it was started without `openStdin`",
        StdinState::Closed => "it was closed, by a writer or by the command itself",
        StdinState::Ended => "the command has ended",
    }
}
