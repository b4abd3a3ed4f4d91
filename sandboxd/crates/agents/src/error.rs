//! What can go wrong between us and an agent.

use std::time::Duration;

use agent_protocol::fault::{Kind, from_status};
use agent_protocol::v1;
use thiserror::Error;
use tonic::{Code, Status};

use sandboxd_model::command::StdinState;

/// A call to an agent failed.
#[derive(Debug, Error)]
pub enum Error {
    /// It is not connected.
    #[error("the agent was not connected within {waited:?}")]
    Away {
        /// How long was waited.
        waited: Duration,
    },
    /// The connection ended in the middle of the call.
    #[error("the call to the agent broke off")]
    Broken {
        /// What the connection said.
        source: Box<Status>,
    },
    /// It answered with an error that is not one of ours.
    #[error("the agent failed")]
    Failed {
        /// What it said.
        source: Box<Status>,
    },
    /// It took longer than it may.
    #[error("the agent did not answer within {after:?}")]
    Deadline {
        /// The deadline.
        after: Duration,
    },
    /// It said something that makes no sense.
    #[error("the agent's answer lacks `{missing}`")]
    Nonsense {
        /// What should have been there.
        missing: &'static str,
    },
    /// It is of an earlier version, which has no such call. Its sandbox gets a new one when it is next woken.
    #[error("the agent is of an earlier version")]
    Outdated,
    /// It refused, with its reason.
    #[error("the agent refused")]
    Refused(Refusal),
}

/// Why an agent refused. Its words are those of a sandbox: facts for the caller, nothing to act on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No such command, or not any more.
    CommandUnknown,
    /// The command with this id was started by another request.
    CommandDiffers,
    /// The command could not be started.
    StartFailed {
        /// `cwd`, `pipe`, `script`, `exec` or `fork`.
        step: String,
        /// The system's error number.
        errno: i32,
        /// What it was about: a directory, a program.
        subject: String,
    },
    /// A limit of the agent is reached.
    LimitReached {
        /// Of what.
        limit: String,
        /// How many.
        value: u64,
    },
    /// The path leads out of the workspace.
    OutsideWorkspace {
        /// As the caller gave it.
        path: String,
    },
    /// There is no such file.
    FileUnknown {
        /// As the caller gave it.
        path: String,
    },
    /// It is no regular file.
    NotAFile {
        /// As the caller gave it.
        path: String,
    },
    /// It is no directory.
    NotADirectory {
        /// As the caller gave it.
        path: String,
    },
    /// It is larger than may be read.
    TooLarge {
        /// As the caller gave it.
        path: String,
        /// Its size.
        bytes: u64,
        /// What may be read.
        max_bytes: u64,
    },
    /// There is more of something than one call may have.
    TooMany {
        /// Of what, in the plural.
        what: String,
        /// How many there may be.
        limit: u64,
    },
    /// The workspace is full.
    NoSpace {
        /// As the caller gave it.
        path: String,
    },
    /// Another error of the file system.
    FileFailed {
        /// As the caller gave it.
        path: String,
        /// The system's error number.
        errno: i32,
    },
    /// A file is not as the caller thought: it has other content, or is not there.
    ConditionFailed {
        /// As the caller gave it.
        path: String,
    },
    /// There is something that is not to be replaced.
    AlreadyThere {
        /// As the caller gave it.
        path: String,
    },
    /// A directory that is to go has something in it.
    NotEmpty {
        /// As the caller gave it.
        path: String,
    },
    /// A text that must occur once in a file does not.
    TextCount {
        /// Which edit, counted from 0.
        edit: u32,
        /// How often it occurs.
        occurrences: u64,
    },
    /// An archive cannot be unpacked as it is.
    ArchiveBad {
        /// The member it is about; empty where it is about the whole.
        member: String,
        /// Why.
        problem: String,
    },
    /// A file has no byte of the range that was asked for.
    RangeEmpty {
        /// The file's size.
        size_bytes: u64,
    },
    /// No such terminal, or not any more.
    TerminalUnknown,
    /// The terminal has ended.
    TerminalEnded,
    /// The program on the terminal does not read what is typed.
    InputNotTaken {
        /// How much of it was taken.
        taken_bytes: u64,
    },
    /// The command's standard input cannot be written to.
    StdinNotOpen {
        /// Why not.
        state: StdinState,
        /// What it took of this call before.
        written_bytes: u64,
    },
    /// The command did not read its standard input, or another writer did not finish.
    StdinStalled {
        /// How long was waited.
        waited: Duration,
        /// What it took of this call before.
        written_bytes: u64,
    },
    /// The sandbox's kernel cannot keep a command from writing.
    ReadOnlyUnavailable {
        /// The system's error number.
        errno: i32,
    },
    /// Nothing listens on the port of the sandbox's loopback, or it does not answer.
    PortClosed {
        /// Which.
        port: u32,
    },
    /// Nobody in the sandbox waits for the connection any more.
    ConnectionUnknown,
    /// A change failed, and not everything that it had replaced could be put back.
    NotPutBack {
        /// The first file without its place.
        path: String,
        /// How many there are.
        files: u64,
        /// Directory of the workspace that has them now.
        kept_in: String,
    },
    /// A field of the request is not what it must be.
    FieldInvalid {
        /// Which.
        field: String,
        /// Why.
        problem: String,
    },
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        match from_status(&status) {
            Some(kind) => Self::Refused(refusal(kind)),
            // Only what the connection itself reported has a cause below it.
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
    /// Whether the connection is at fault, so that the same call may work on the next one.
    pub fn is_broken(&self) -> bool {
        matches!(self, Self::Away { .. } | Self::Broken { .. })
    }
}

fn refusal(kind: Kind) -> Refusal {
    match kind {
        Kind::CommandUnknown(_) => Refusal::CommandUnknown,
        Kind::CommandDiffers(_) => Refusal::CommandDiffers,
        Kind::StartFailed(fault) => {
            Refusal::StartFailed { step: fault.step, errno: fault.errno, subject: fault.subject }
        }
        Kind::LimitReached(fault) => Refusal::LimitReached { limit: fault.limit, value: fault.value },
        Kind::OutsideWorkspace(fault) => Refusal::OutsideWorkspace { path: fault.path },
        Kind::FileUnknown(fault) => Refusal::FileUnknown { path: fault.path },
        Kind::NotAFile(fault) => Refusal::NotAFile { path: fault.path },
        Kind::TooLarge(fault) => {
            Refusal::TooLarge { path: fault.path, bytes: fault.bytes, max_bytes: fault.max_bytes }
        }
        Kind::TooMany(fault) => Refusal::TooMany { what: fault.what, limit: fault.limit },
        Kind::NoSpace(fault) => Refusal::NoSpace { path: fault.path },
        Kind::FileFailed(fault) => Refusal::FileFailed { path: fault.path, errno: fault.errno },
        Kind::NotADirectory(fault) => Refusal::NotADirectory { path: fault.path },
        Kind::ConditionFailed(fault) => Refusal::ConditionFailed { path: fault.path },
        Kind::AlreadyThere(fault) => Refusal::AlreadyThere { path: fault.path },
        Kind::NotEmpty(fault) => Refusal::NotEmpty { path: fault.path },
        Kind::TextCount(fault) => Refusal::TextCount { edit: fault.edit, occurrences: fault.occurrences },
        Kind::ArchiveBad(fault) => Refusal::ArchiveBad {
            member: String::from_utf8_lossy(&fault.member).into_owned(),
            problem: fault.problem,
        },
        Kind::RangeEmpty(fault) => Refusal::RangeEmpty { size_bytes: fault.size_bytes },
        Kind::StdinNotOpen(fault) => {
            Refusal::StdinNotOpen { state: stdin_state(fault.state()), written_bytes: fault.written_bytes }
        }
        Kind::StdinStalled(fault) => Refusal::StdinStalled {
            waited: Duration::from_millis(fault.waited_ms),
            written_bytes: fault.written_bytes,
        },
        Kind::ReadOnlyUnavailable(fault) => Refusal::ReadOnlyUnavailable { errno: fault.errno },
        Kind::TerminalUnknown(_) => Refusal::TerminalUnknown,
        Kind::TerminalEnded(_) => Refusal::TerminalEnded,
        Kind::InputNotTaken(fault) => Refusal::InputNotTaken { taken_bytes: fault.taken_bytes },
        Kind::PortClosed(fault) => Refusal::PortClosed { port: fault.port },
        Kind::ConnectionUnknown(_) => Refusal::ConnectionUnknown,
        Kind::NotPutBack(fault) => {
            Refusal::NotPutBack { path: fault.path, files: fault.files, kept_in: fault.kept_in }
        }
        Kind::FieldInvalid(fault) => Refusal::FieldInvalid { field: fault.field, problem: fault.problem },
    }
}

fn stdin_state(state: v1::StdinState) -> StdinState {
    match state {
        v1::StdinState::NeverOpened => StdinState::NeverOpened,
        v1::StdinState::Ended => StdinState::Ended,
        v1::StdinState::Closed | v1::StdinState::Unspecified => StdinState::Closed,
    }
}
