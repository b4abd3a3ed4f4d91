//! Why a request is not served, in the daemon's own terms.

use std::sync::Arc;
use std::time::Duration;

use sandbox_api::ErrorCode;
use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::agent::{self, Refusal};
use crate::engine::{self, DiskFault};
use crate::model::command::StdinState;
use crate::model::echo::Echo;
use crate::model::{FieldError, limits};
use crate::store;

/// Why a request is not served. The text is for the caller; the cause is for the log.
#[derive(Debug, Error)]
pub enum Error {
    /// A value is not what it must be.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// There is no such thing.
    #[error("no such {resource}")]
    NotFound {
        /// `sandbox`, `command`, `terminal`, `file`, `port`, `link` or `connection`.
        resource: &'static str,
    },
    /// Ports are not published on the host here.
    #[error(
        "a port cannot be published here, because containers do not see the run dir; `style=gateway` works"
    )]
    NotPublished,
    /// The operator does not allow sandboxes with a network of their own.
    #[error("the network mode `open` is not allowed here; SANDBOXD_ALLOW_OPEN_NETWORK=1 allows it")]
    OpenNotAllowed,
    /// A sandbox with a container keeps the network that the container has.
    #[error("the network mode changes from or to `open` only while the sandbox is parked; park it first")]
    NetworkHeld,
    /// There is no such runtime.
    #[error("the runtime {runtime} is not offered, only node24 and python3.13", runtime = Echo(.runtime))]
    UnknownRuntime {
        /// What was asked for.
        runtime: String,
    },
    /// The sandbox's kernel cannot keep a command from writing to the workspace.
    #[error(
        "`readOnly` cannot be had: the sandbox's kernel has no Landlock (error {errno}); nothing was run"
    )]
    ReadOnlyUnavailable {
        /// The system's error number.
        errno: i32,
    },
    /// A command's standard input cannot be written to.
    #[error("the command's standard input is not open: {}", words_for(*.state))]
    StdinNotOpen {
        /// Why not.
        state: StdinState,
        /// What the command had taken of this request.
        written_bytes: u64,
    },
    /// A command does not read its standard input.
    #[error(
        "the command did not read for {waited:?}, or another writer did not finish; {written_bytes} bytes were written"
    )]
    StdinStalled {
        /// How long was waited.
        waited: Duration,
        /// What the command had taken of this request.
        written_bytes: u64,
    },
    /// The bytes for standard input stopped coming.
    #[error("nothing was sent for {:?}; {written_bytes} bytes were written", limits::STDIN_SILENCE)]
    StdinLate {
        /// What the command had taken of this request.
        written_bytes: u64,
    },
    /// The bytes for standard input broke off.
    #[error("the body could not be read to its end; {written_bytes} bytes were written")]
    StdinCut {
        /// What the command had taken of this request.
        written_bytes: u64,
        /// What happened.
        source: std::io::Error,
    },
    /// The agent went away, or failed, while standard input was written.
    #[error("the sandbox did not answer; at least {written_bytes} bytes were written")]
    StdinBroken {
        /// What the command is known to have taken of this request.
        written_bytes: u64,
        /// What happened.
        source: agent::Error,
    },
    /// A command could not be started.
    #[error("the command could not be started: {step} {}: {}", Echo(.subject), words_of_system(*.errno))]
    StartFailed {
        /// `cwd`, `pipe`, `script`, `exec` or `fork`.
        step: String,
        /// What it was about.
        subject: String,
        /// The system's error number.
        errno: i32,
    },
    /// A path leads out of the workspace.
    #[error("the path {path} leads out of the workspace", path = Echo(.path))]
    OutsideWorkspace {
        /// As the caller gave it.
        path: String,
    },
    /// A path is no regular file.
    #[error("{path} is not a regular file", path = Echo(.path))]
    NotAFile {
        /// As the caller gave it.
        path: String,
    },
    /// A path is no directory.
    #[error("{path} is not a directory", path = Echo(.path))]
    NotADirectory {
        /// As the caller gave it.
        path: String,
    },
    /// A file has other content than the caller thought, or is not there.
    #[error(
        "{path} is not as it must be by `if-match`, `if-none-match` or what was read of it; it was not changed", path = Echo(.path))]
    ConditionFailed {
        /// As the caller gave it.
        path: String,
    },
    /// There is something that is not to be replaced.
    #[error("there is something at {path} that is not to be replaced", path = Echo(.path))]
    AlreadyThere {
        /// As the caller gave it.
        path: String,
    },
    /// A directory that is to go has something in it.
    #[error("the directory {path} is not empty; remove it with `recursive=true`", path = Echo(.path))]
    NotEmpty {
        /// As the caller gave it.
        path: String,
    },
    /// A directory that is to be replaced has something in it.
    #[error("the directory {path} is not empty, and only an empty one is replaced", path = Echo(.path))]
    NotReplaced {
        /// As the caller gave it.
        path: String,
    },
    /// A change failed, and not everything that it had replaced could be put back.
    #[error(
        "the change failed, and {files} files could not be put back because a command was changing them, {path} first; \
         their earlier content is in {kept_in}", path = Echo(.path), kept_in = Echo(.kept_in))]
    NotPutBack {
        /// The first of them.
        path: String,
        /// How many there are.
        files: u64,
        /// Directory of the workspace that has them now.
        kept_in: String,
    },
    /// A text that must occur once in a file does not.
    #[error(
        "`edits[{edit}].oldText` occurs {occurrences} times in the file, and without `replaceAll` must occur once; it was not changed"
    )]
    TextCount {
        /// Which edit, counted from 0.
        edit: u32,
        /// How often it occurs.
        occurrences: u64,
    },
    /// An archive cannot be unpacked as it is.
    #[error("the archive was not unpacked: {problem}")]
    ArchiveBad {
        /// The member it is about; empty where it is about the whole.
        member: String,
        /// Why.
        problem: String,
    },
    /// A file has no byte of the range that was asked for.
    #[error("the file has {size_bytes} bytes and none of the range")]
    RangeEmpty {
        /// The file's size.
        size_bytes: u64,
    },
    /// The file system refused.
    #[error("the file {path} could not be used: {}", words_of_system(*.errno), path = Echo(.path))]
    FileFailed {
        /// As the caller gave it.
        path: String,
        /// The system's error number.
        errno: i32,
    },
    /// The id belongs to a command that another request started.
    #[error("`commandId` belongs to another command: repeat the same request, or choose another id")]
    CommandDiffers,
    /// The store is away, and what must be recorded first is not.
    #[error("the history of commands cannot be written")]
    HistoryUnwritten,
    /// A limit of one sandbox.
    #[error("the sandbox's limit of {value} {limit} is reached{}", cure_of(limit))]
    LimitReached {
        /// Of what.
        limit: String,
        /// How many.
        value: u64,
    },
    /// Something is larger than it may be.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// What.
        what: String,
        /// What it may be.
        limit: u64,
    },
    /// There is more of something than one request may have, however often it is tried.
    #[error("there are more than {limit} {what}")]
    TooMany {
        /// Of what, in the plural.
        what: String,
        /// How many there may be.
        limit: u64,
    },
    /// The workspace is full.
    #[error("no space left in the workspace for {path}", path = Echo(.path))]
    NoSpace {
        /// As the caller gave it.
        path: String,
    },
    /// What is asked for needs a terminal that runs.
    #[error("the terminal has ended")]
    TerminalEnded,
    /// The program on a terminal does not read what is typed.
    #[error("the program on the terminal does not read its input; {taken_bytes} bytes of it were taken")]
    InputNotTaken {
        /// How much of it.
        taken_bytes: u64,
    },
    /// There is no server to connect to.
    #[error("nothing answers on port {port} in the sandbox")]
    PortClosed {
        /// Which.
        port: u32,
    },
    /// It is in use and the caller did not say that this does not matter.
    #[error("a command or a program on a terminal runs in the sandbox; end it first, or park with `force`")]
    InUse,
    /// It was to be deleted only if it is parked.
    #[error("the sandbox is not parked, or somebody is about to use it; it was not deleted")]
    NotParked,
    /// The sandbox changed its state again and again under the request.
    #[error("the sandbox is being parked, woken or deleted by others; try again")]
    Unsettled,
    /// The image is not one that the operator allows.
    #[error("the image {image} is not one that may be used here; see SANDBOXD_ALLOWED_IMAGES", image = Echo(.image))]
    ImageNotAllowed {
        /// What was asked for.
        image: String,
    },
    /// The image is allowed and cannot be had.
    #[error("the image {image} is not on the engine and cannot be pulled", image = Echo(.image))]
    ImageUnavailable {
        /// What was asked for.
        image: String,
        /// What the engine said.
        source: engine::Error,
    },
    /// The engine did not do as it was told, so the container was not used.
    #[error("the engine did not harden the container: {weakness}")]
    NotHardened {
        /// How.
        weakness: &'static str,
    },
    /// The engine's disk is nearly full.
    #[error("the engine's disk is nearly full, with {free_bytes} bytes free; its operator has to free some")]
    DiskShort {
        /// What is left.
        free_bytes: u64,
    },
    /// The sandbox has a disk and this daemon cannot use disks.
    #[error("the sandbox's disk cannot be used: disks do not work here any more")]
    NoDisks,
    /// The files of the sandbox are missing on the engine.
    #[error(
        "the sandbox is lost: its files are missing on the engine; restore its volume or disk there, or delete the sandbox to start anew"
    )]
    Lost,
    /// The engine has nothing of the sandboxes that there are.
    #[error(
        "this engine has none of the {sandboxes} sandboxes that the database lists, and no marker of this installation"
    )]
    OtherEngine {
        /// How many there are.
        sandboxes: usize,
    },
    /// The state dir's database belongs to another key.
    #[error("the database belongs to the instance {recorded}, and instance.key is that of {found}")]
    OtherInstance {
        /// Whose it is.
        recorded: String,
        /// Whose the key is.
        found: String,
    },
    /// Another daemon of this instance runs.
    #[error("another sandboxd with this instance key uses this engine")]
    AnotherDaemon,
    /// Another daemon of this instance was started after this one.
    #[error("another sandboxd with this instance key was started after this one, which no longer acts")]
    Superseded,
    /// As many sandboxes run as may.
    #[error("all {max} sandboxes are in use")]
    Full {
        /// How many may run.
        max: usize,
    },
    /// The daemon is still starting.
    #[error("sandboxd is starting: {missing} is not ready")]
    NotReady {
        /// What it waits for.
        missing: &'static str,
    },
    /// The engine has not told of the sandbox's container since the daemon was started.
    #[error("the sandbox is not restored yet: the engine does not answer for its container; try again")]
    NotRestored,
    /// A wait ran out of time; what it waited for goes on.
    #[error("the command did not end within {timeout_ms} ms; it goes on")]
    WaitDeadline {
        /// What the caller gave it.
        timeout_ms: u64,
    },
    /// Making the sandbox failed, for this caller and all others of the session.
    #[error("{0}")]
    CreateFailed(#[source] Arc<Error>),
    /// The engine.
    #[error("{}", words_for_callers(.0))]
    Engine(#[from] engine::Error),
    /// The store.
    #[error("the daemon's store cannot be used")]
    Store(#[from] store::Error),
    /// An agent.
    #[error("the sandbox did not answer")]
    Agent {
        /// What happened.
        source: agent::Error,
    },
    /// The run dir.
    #[error("the run dir cannot be used")]
    RunDir {
        /// What the system said.
        source: std::io::Error,
    },
    /// The system gave no randomness.
    #[error("the system has no randomness")]
    Randomness {
        /// What it said.
        source: getrandom::Error,
    },
    /// A task of ours ended without an answer.
    #[error("a task of the daemon failed")]
    Task {
        /// How.
        source: tokio::task::JoinError,
    },
}

impl Error {
    /// The kind, for the caller's program.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Field(_) => ErrorCode::InvalidRequest,
            Self::NotFound { .. } => ErrorCode::NotFound,
            Self::UnknownRuntime { .. }
            | Self::NotPublished
            | Self::ReadOnlyUnavailable { .. }
            | Self::ImageNotAllowed { .. }
            | Self::ImageUnavailable { .. }
            | Self::StartFailed { .. }
            | Self::OutsideWorkspace { .. }
            | Self::NotAFile { .. }
            | Self::NotADirectory { .. }
            | Self::ArchiveBad { .. }
            | Self::FileFailed { .. } => ErrorCode::Refused,
            Self::OpenNotAllowed => ErrorCode::Forbidden,
            Self::AlreadyThere { .. } | Self::CommandDiffers => ErrorCode::AlreadyExists,
            Self::NotEmpty { .. }
            | Self::NotReplaced { .. }
            | Self::NotPutBack { .. }
            | Self::TextCount { .. } => ErrorCode::WrongState,
            Self::ConditionFailed { .. } => ErrorCode::PreconditionFailed,
            Self::RangeEmpty { .. } => ErrorCode::RangeNotSatisfiable,
            Self::InUse
            | Self::Lost
            | Self::NetworkHeld
            | Self::NotParked
            | Self::PortClosed { .. }
            | Self::StdinNotOpen { .. }
            | Self::TerminalEnded
            | Self::InputNotTaken { .. } => ErrorCode::WrongState,
            Self::Unsettled | Self::HistoryUnwritten => ErrorCode::Unavailable,
            Self::TooLarge { .. } | Self::TooMany { .. } => ErrorCode::TooLarge,
            Self::NoSpace { .. }
            | Self::DiskShort { .. }
            | Self::Engine(engine::Error::Disk { source: DiskFault::Full(_), .. }) => {
                ErrorCode::InsufficientStorage
            }
            Self::NoDisks
            | Self::OtherEngine { .. }
            | Self::OtherInstance { .. }
            | Self::AnotherDaemon
            | Self::Superseded => ErrorCode::Unavailable,
            Self::Full { .. } | Self::LimitReached { .. } => ErrorCode::CapacityExhausted,
            Self::NotReady { .. } | Self::NotRestored => ErrorCode::Unavailable,
            Self::WaitDeadline { .. } | Self::StdinStalled { .. } | Self::StdinLate { .. } => {
                ErrorCode::DeadlineExceeded
            }
            Self::StdinCut { .. } => ErrorCode::InvalidRequest,
            Self::CreateFailed(error) => error.code(),
            Self::Engine(engine::Error::Conflict { .. }) => ErrorCode::AlreadyExists,
            // A disk that cannot be used now is there still.
            Self::Engine(engine::Error::Refused { .. } | engine::Error::Disk { .. }) => {
                ErrorCode::Unavailable
            }
            Self::Engine(error) if error.is_temporary() => ErrorCode::Unavailable,
            Self::Store(store::Error::Full { .. }) => ErrorCode::InsufficientStorage,
            Self::Store(error) if error.is_away() => ErrorCode::Unavailable,
            Self::Agent { source } | Self::StdinBroken { source, .. } => agent_code(source),
            Self::Engine(_)
            | Self::Store(_)
            | Self::NotHardened { .. }
            | Self::RunDir { .. }
            | Self::Randomness { .. }
            | Self::Task { .. } => ErrorCode::Internal,
        }
    }

    /// Facts for the caller's program.
    pub fn details(&self) -> Map<String, Value> {
        let facts = match self {
            Self::Field(fault) => json!({ "field": fault.field }),
            Self::NotFound { resource } => json!({ "resource": resource }),
            Self::NotPublished => json!({ "field": "style" }),
            Self::CommandDiffers => json!({ "field": "commandId" }),
            Self::OpenNotAllowed | Self::NetworkHeld => json!({ "field": "network.mode" }),
            Self::UnknownRuntime { runtime } => json!({ "field": "runtime", "value": runtime }),
            Self::ReadOnlyUnavailable { errno } => json!({ "field": "readOnly", "errno": errno }),
            Self::StdinNotOpen { state, written_bytes } => {
                json!({ "state": state.as_str(), "writtenBytes": written_bytes })
            }
            Self::StdinStalled { written_bytes, .. } | Self::StdinBroken { written_bytes, .. } => {
                json!({ "writtenBytes": written_bytes })
            }
            Self::StdinLate { written_bytes } | Self::StdinCut { written_bytes, .. } => {
                json!({ "field": "body", "writtenBytes": written_bytes })
            }
            Self::StartFailed { step, errno, .. } => json!({ "step": step, "errno": errno }),
            Self::OutsideWorkspace { path }
            | Self::NotAFile { path }
            | Self::NotADirectory { path }
            | Self::NoSpace { path }
            | Self::ConditionFailed { path }
            | Self::AlreadyThere { path }
            | Self::NotEmpty { path }
            | Self::NotReplaced { path } => json!({ "path": path }),
            Self::NotPutBack { path, files, kept_in } => {
                json!({ "path": path, "files": files, "keptIn": kept_in })
            }
            Self::TextCount { edit, occurrences } => {
                json!({ "field": format!("edits[{edit}].oldText"), "occurrences": occurrences })
            }
            Self::ArchiveBad { member, .. } => json!({ "member": member }),
            Self::RangeEmpty { size_bytes } => json!({ "sizeBytes": size_bytes }),
            Self::FileFailed { path, errno } => json!({ "path": path, "errno": errno }),
            Self::LimitReached { limit, value } => json!({ "limit": limit, "value": value }),
            Self::TooLarge { limit, .. } | Self::TooMany { limit, .. } => json!({ "limit": limit }),
            Self::InputNotTaken { taken_bytes } => json!({ "takenBytes": taken_bytes }),
            Self::PortClosed { port } => json!({ "port": port }),
            Self::Full { max } => json!({ "maxConcurrent": max }),
            Self::NotReady { missing } => json!({ "missing": missing }),
            Self::Lost => json!({ "state": "lost" }),
            Self::OtherEngine { .. } => json!({ "missing": "marker" }),
            Self::ImageNotAllowed { image } | Self::ImageUnavailable { image, .. } => {
                json!({ "field": "image", "value": image })
            }
            Self::DiskShort { free_bytes } => json!({ "freeBytes": free_bytes }),
            Self::CreateFailed(error) => return error.details(),
            Self::WaitDeadline { .. }
            | Self::InUse
            | Self::TerminalEnded
            | Self::NotParked
            | Self::Unsettled
            | Self::HistoryUnwritten
            | Self::NotRestored
            | Self::NoDisks
            | Self::OtherInstance { .. }
            | Self::AnotherDaemon
            | Self::Superseded
            | Self::NotHardened { .. }
            | Self::Store(_)
            | Self::Engine(_)
            | Self::Agent { .. }
            | Self::RunDir { .. }
            | Self::Randomness { .. }
            | Self::Task { .. } => json!({}),
        };
        match facts {
            Value::Object(facts) => facts,
            _ => Map::new(),
        }
    }

    /// Whether the connection to the sandbox ended under the request, or was gone before it.
    pub fn is_cut_off(&self) -> bool {
        match self {
            Self::Agent { source } | Self::StdinBroken { source, .. } => source.is_broken(),
            Self::Unsettled => true,
            _ => false,
        }
    }

    /// Whether a start that met it is tried again: its cause may go while the daemon runs.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Engine(error) => error.may_pass(),
            Self::Store(error) => error.is_away(),
            Self::Agent { source } => agent_code(source) != ErrorCode::Internal,
            _ => false,
        }
    }

    /// What the operator can do about it, where that is known.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Engine(error) => error.advice(),
            Self::Store(error) => error.advice(),
            Self::OtherEngine { .. } => Some(
                "mount the engine's data root and start again; if its files are gone for good, `sandboxd accept-engine` keeps the sandboxes as lost and lets the daemon start",
            ),
            Self::OtherInstance { .. } => Some(
                "restore the instance.key that belongs to the database, or move the database away to take the sandboxes back from the engine's labels",
            ),
            Self::AnotherDaemon => Some(
                "stop that daemon, which may run on another machine or with a copy of this state dir; each installation needs a key of its own",
            ),
            _ => None,
        }
    }

    /// After how many seconds the caller may try again.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.code().is_retryable().then_some(limits::RETRY_AFTER_SECONDS)
    }
}

/// What a caller is told of the engine. The rest is for the log.
fn words_for_callers(error: &engine::Error) -> String {
    match error {
        engine::Error::ImageMissing { image } => format!("the image {image} is missing on the engine"),
        engine::Error::Conflict { .. } => "the engine has something else of this name".to_owned(),
        engine::Error::Malformed { .. } => "the engine's answer cannot be read".to_owned(),
        engine::Error::Refused { .. } => "the engine refused what sandboxd asked of it".to_owned(),
        engine::Error::Disk { source, .. } => format!("the workspace's disk cannot be used: {source}"),
        error if error.is_away() => "the engine does not answer".to_owned(),
        _ => "the engine failed".to_owned(),
    }
}

/// What helps against a limit that does not pass by itself.
fn cure_of(limit: &str) -> &'static str {
    match limit {
        "processes" => "; end commands that run with :kill, or all of them with :park",
        _ => "",
    }
}

/// What the system calls an error. Some have no number.
fn words_of_system(errno: i32) -> String {
    if errno == 0 {
        "the system gave no reason".into()
    } else {
        std::io::Error::from_raw_os_error(errno).to_string()
    }
}

fn words_for(state: StdinState) -> &'static str {
    match state {
        StdinState::NeverOpened => "it was started without `openStdin`",
        StdinState::Closed => "it was closed, by a writer or by the command itself",
        StdinState::Ended => "the command has ended",
    }
}

fn agent_code(error: &agent::Error) -> ErrorCode {
    match error {
        agent::Error::Away { .. } | agent::Error::Broken { .. } | agent::Error::Outdated => {
            ErrorCode::Unavailable
        }
        agent::Error::Deadline { .. } => ErrorCode::DeadlineExceeded,
        agent::Error::Failed { .. } | agent::Error::Nonsense { .. } | agent::Error::Refused(_) => {
            ErrorCode::Internal
        }
    }
}

impl From<agent::Error> for Error {
    fn from(error: agent::Error) -> Self {
        match error {
            agent::Error::Refused(refusal) => refused(refusal),
            source => Self::Agent { source },
        }
    }
}

fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::CommandUnknown => Error::NotFound { resource: "command" },
        Refusal::CommandDiffers => Error::CommandDiffers,
        Refusal::StartFailed { step, errno, subject } => Error::StartFailed { step, subject, errno },
        Refusal::LimitReached { limit, value } => Error::LimitReached { limit, value },
        Refusal::OutsideWorkspace { path } => Error::OutsideWorkspace { path },
        Refusal::FileUnknown { .. } => Error::NotFound { resource: "file" },
        Refusal::NotAFile { path } => Error::NotAFile { path },
        Refusal::TooLarge { path, max_bytes, .. } => {
            Error::TooLarge { what: format!("the file {}", Echo(&path)), limit: max_bytes }
        }
        Refusal::TooMany { what, limit } => Error::TooMany { what, limit },
        Refusal::NoSpace { path } => Error::NoSpace { path },
        Refusal::NotADirectory { path } => Error::NotADirectory { path },
        Refusal::ConditionFailed { path } => Error::ConditionFailed { path },
        Refusal::AlreadyThere { path } => Error::AlreadyThere { path },
        Refusal::NotEmpty { path } => Error::NotEmpty { path },
        Refusal::TextCount { edit, occurrences } => Error::TextCount { edit, occurrences },
        Refusal::ArchiveBad { member, problem } => Error::ArchiveBad { member, problem },
        Refusal::RangeEmpty { size_bytes } => Error::RangeEmpty { size_bytes },
        Refusal::FileFailed { path, errno } => Error::FileFailed { path, errno },
        Refusal::StdinNotOpen { state, written_bytes } => Error::StdinNotOpen { state, written_bytes },
        Refusal::StdinStalled { waited, written_bytes } => Error::StdinStalled { waited, written_bytes },
        Refusal::ReadOnlyUnavailable { errno } => Error::ReadOnlyUnavailable { errno },
        Refusal::TerminalUnknown => Error::NotFound { resource: "terminal" },
        Refusal::TerminalEnded => Error::TerminalEnded,
        Refusal::InputNotTaken { taken_bytes } => Error::InputNotTaken { taken_bytes },
        Refusal::PortClosed { port } => Error::PortClosed { port },
        Refusal::ConnectionUnknown => Error::NotFound { resource: "connection" },
        Refusal::NotPutBack { path, files, kept_in } => Error::NotPutBack { path, files, kept_in },
        Refusal::FieldInvalid { field, problem } => Error::Field(FieldError::new(field, problem)),
    }
}
