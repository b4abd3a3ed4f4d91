//! Errors of calls to an agent.

use std::time::Duration;

use agent_protocol::fault::{Kind, from_status};
use agent_protocol::v1;
use thiserror::Error;
use tonic::{Code, Status};

use sandboxd_model::command::StdinState;
use sandboxd_model::echo::Echo;
use sandboxd_model::{CommandRefusal, FieldError, FileRefusal, Refusal, Resource};

/// A call to an agent failed.
#[derive(Debug, Error)]
pub enum Error {
    /// The agent is not connected.
    #[error("the agent was not connected within {waited:?}")]
    NotConnected {
        /// Time of the wait.
        waited: Duration,
    },
    /// The connection ended during the call.
    #[error("the connection ended during the call to the agent")]
    Broken {
        /// The error of the connection.
        source: Box<Status>,
    },
    /// The agent returned an unknown error.
    #[error("the agent failed")]
    Failed {
        /// The error.
        source: Box<Status>,
    },
    /// The call took too long.
    #[error("the agent did not answer within {after:?}")]
    Deadline {
        /// The deadline.
        after: Duration,
    },
    /// The agent's response is invalid.
    #[error("the agent's response has no valid `{missing}`")]
    Malformed {
        /// The missing or invalid field.
        missing: &'static str,
    },
    /// The agent is of an earlier version, which does not support the call. The sandbox gets a new agent when it is next
    /// woken.
    #[error("the agent is of an earlier version")]
    Outdated,
    /// The agent refused the request.
    #[error("the agent refused the request")]
    Refused(#[source] Refusal),
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        match from_status(&status) {
            Some(kind) => Self::Refused(refusal(kind)),
            // Only an error that the connection itself reported has a source.
            None if std::error::Error::source(&status).is_some() => Self::Broken { source: Box::new(status) },
            None => match status.code() {
                Code::Unimplemented => Self::Outdated,
                Code::Unavailable | Code::Cancelled => Self::Broken { source: Box::new(status) },
                _ => Self::Failed { source: Box::new(status) },
            },
        }
    }
}

impl Error {
    /// Whether the connection is at fault, so that the same call may succeed on the next one.
    pub fn is_broken(&self) -> bool {
        matches!(self, Self::NotConnected { .. } | Self::Broken { .. })
    }
}

fn refusal(kind: Kind) -> Refusal {
    match kind {
        Kind::CommandUnknown(_) => Refusal::NotFound(Resource::Command),
        Kind::CommandDiffers(_) => CommandRefusal::Differs.into(),
        Kind::StartFailed(fault) => {
            CommandRefusal::StartFailed { step: fault.step, errno: fault.errno, subject: fault.subject }
                .into()
        }
        Kind::LimitReached(fault) => Refusal::LimitReached { limit: fault.limit, value: fault.value },
        Kind::OutsideWorkspace(fault) => FileRefusal::OutsideWorkspace { path: fault.path }.into(),
        Kind::FileUnknown(_) => Refusal::NotFound(Resource::File),
        Kind::NotAFile(fault) => FileRefusal::NotAFile { path: fault.path }.into(),
        Kind::TooLarge(fault) => {
            Refusal::TooLarge { what: format!("the file {}", Echo(&fault.path)), limit: fault.max_bytes }
        }
        Kind::TooMany(fault) => Refusal::TooMany { what: fault.what, limit: fault.limit },
        Kind::NoSpace(fault) => FileRefusal::NoSpace { path: fault.path }.into(),
        Kind::FileFailed(fault) => FileRefusal::Failed { path: fault.path, errno: fault.errno }.into(),
        Kind::NotADirectory(fault) => FileRefusal::NotADirectory { path: fault.path }.into(),
        Kind::ConditionFailed(fault) => FileRefusal::ConditionFailed { path: fault.path }.into(),
        Kind::AlreadyThere(fault) => FileRefusal::AlreadyThere { path: fault.path }.into(),
        Kind::NotEmpty(fault) => FileRefusal::NotEmpty { path: fault.path }.into(),
        Kind::TextCount(fault) => {
            FileRefusal::TextCount { edit: fault.edit, occurrences: fault.occurrences }.into()
        }
        Kind::ArchiveBad(fault) => FileRefusal::ArchiveBad {
            member: String::from_utf8_lossy(&fault.member).into_owned(),
            problem: fault.problem,
        }
        .into(),
        Kind::RangeEmpty(fault) => FileRefusal::RangeEmpty { size_bytes: fault.size_bytes }.into(),
        Kind::StdinNotOpen(fault) => CommandRefusal::StdinNotOpen {
            state: stdin_state(fault.state()),
            written_bytes: fault.written_bytes,
        }
        .into(),
        Kind::StdinStalled(fault) => CommandRefusal::StdinStalled {
            waited: Duration::from_millis(fault.waited_ms),
            written_bytes: fault.written_bytes,
        }
        .into(),
        Kind::ReadOnlyUnavailable(fault) => CommandRefusal::ReadOnlyUnavailable { errno: fault.errno }.into(),
        Kind::TerminalUnknown(_) => Refusal::NotFound(Resource::Terminal),
        Kind::TerminalEnded(_) => Refusal::TerminalEnded,
        Kind::InputNotTaken(fault) => Refusal::InputNotTaken { taken_bytes: fault.taken_bytes },
        Kind::ContextUnknown(_) => Refusal::NotFound(Resource::Context),
        Kind::ContextBusy(_) => Refusal::ContextBusy,
        Kind::ToolCallOver(_) => Refusal::ToolCallOver,
        Kind::PortClosed(fault) => Refusal::PortClosed { port: fault.port },
        Kind::ConnectionUnknown(_) => Refusal::NotFound(Resource::Connection),
        Kind::NotPutBack(fault) => {
            FileRefusal::NotPutBack { path: fault.path, files: fault.files, kept_in: fault.kept_in }.into()
        }
        Kind::TreeRejected(fault) => FileRefusal::TreeRejected {
            path: String::from_utf8_lossy(&fault.path).into_owned(),
            problem: fault.problem,
        }
        .into(),
        Kind::FieldInvalid(fault) => FieldError::new(fault.field, fault.problem).into(),
    }
}

fn stdin_state(state: v1::StdinState) -> StdinState {
    match state {
        v1::StdinState::NeverOpened => StdinState::NeverOpened,
        v1::StdinState::Ended => StdinState::Ended,
        v1::StdinState::Closed | v1::StdinState::Unspecified => StdinState::Closed,
    }
}
