//! Why a request is refused: message, code and details of each refusal that an agent or the daemon makes.

use std::fmt;
use std::time::Duration;

use sandbox_api::ErrorCode;
use serde_json::json;
use thiserror::Error;

use super::FieldError;
use super::command::StdinState;
use super::echo::Echo;
use super::public_error::PublicError;

/// Why a request is refused. The message is for the client. Texts that come from an agent are facts to show, not to
/// act on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", self.to_public().message)]
pub enum Refusal {
    /// A field of the request is invalid.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The resource does not exist, or not any more.
    NotFound(Resource),
    /// A limit of one sandbox is reached.
    LimitReached {
        /// What is limited, in the plural.
        limit: String,
        /// Maximum number.
        value: u64,
    },
    /// Something is larger than its limit.
    TooLarge {
        /// A field in backquotes, or a file.
        what: String,
        /// Maximum size in bytes.
        limit: u64,
    },
    /// One request contains too many of something. A retry does not help, unlike with a limit that is reached.
    TooMany {
        /// What is limited, in the plural.
        what: String,
        /// Maximum number.
        limit: u64,
    },

    /// The id belongs to a command that another request started.
    CommandDiffers,
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

    /// The terminal has ended.
    TerminalEnded,
    /// The program on the terminal does not read its input.
    InputNotTaken {
        /// Bytes that the program had taken.
        taken_bytes: u64,
    },

    /// The path leads out of the workspace.
    OutsideWorkspace {
        /// As in the request.
        path: String,
    },
    /// The path names something other than a regular file.
    NotAFile {
        /// As in the request.
        path: String,
    },
    /// The path names something other than a directory.
    NotADirectory {
        /// As in the request.
        path: String,
    },
    /// The file does not exist, or its content is not what the request requires.
    ConditionFailed {
        /// As in the request.
        path: String,
    },
    /// The path exists and may not be replaced.
    AlreadyThere {
        /// As in the request.
        path: String,
    },
    /// A directory to remove is not empty.
    NotEmpty {
        /// As in the request.
        path: String,
    },
    /// A change failed, and some of the files that it had replaced could not be put back.
    NotPutBack {
        /// The first of them.
        path: String,
        /// Number of files.
        files: u64,
        /// Directory of the workspace that contains them now.
        kept_in: String,
    },
    /// A text that must occur once in the file occurs more often, or not at all.
    TextCount {
        /// Index of the edit, from 0.
        edit: u32,
        /// Number of occurrences.
        occurrences: u64,
    },
    /// The archive cannot be unpacked.
    ArchiveBad {
        /// The member at fault; empty if the fault is in the archive as a whole.
        member: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A snapshot cannot have this file, or a restore cannot make it.
    TreeRejected {
        /// Relative to the snapshot's root, such as `workspace/a`.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The file has no byte of the requested range.
    RangeEmpty {
        /// The file's size.
        size_bytes: u64,
    },
    /// The workspace is full.
    NoSpace {
        /// As in the request.
        path: String,
    },
    /// Another error of the file system.
    FileFailed {
        /// As in the request.
        path: String,
        /// The system's error number.
        errno: i32,
    },

    /// No server listens on the port of the sandbox's loopback, or it does not answer.
    PortClosed {
        /// The port.
        port: u32,
    },

    /// The denied host cannot be allowed.
    NotAllowable {
        /// The host and port.
        host: String,
        /// Why.
        problem: &'static str,
    },
}

impl Refusal {
    /// The part of the refusal that clients see.
    pub fn to_public(&self) -> PublicError {
        match self {
            Self::Field(fault) => PublicError::new(
                ErrorCode::InvalidRequest,
                fault.to_string(),
                json!({ "field": fault.field }),
            ),
            Self::NotFound(resource) => PublicError::new(
                ErrorCode::NotFound,
                format!("no such {resource}"),
                json!({ "resource": resource.as_str() }),
            ),
            Self::LimitReached { limit, value } => PublicError::new(
                ErrorCode::CapacityExhausted,
                format!("the sandbox's limit of {value} {limit} is reached{}", remedy_for(limit)),
                json!({ "limit": limit, "value": value }),
            ),
            Self::TooLarge { what, limit } => PublicError::new(
                ErrorCode::TooLarge,
                format!("{what} is larger than {limit} bytes"),
                json!({ "limit": limit }),
            ),
            Self::TooMany { what, limit } => PublicError::new(
                ErrorCode::TooLarge,
                format!("there are more than {limit} {what}"),
                json!({ "limit": limit }),
            ),

            Self::CommandDiffers => PublicError::new(
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

            Self::TerminalEnded => {
                PublicError::new(ErrorCode::WrongState, "the terminal has ended", json!({}))
            }
            Self::InputNotTaken { taken_bytes } => PublicError::new(
                ErrorCode::WrongState,
                format!(
                    "the program on the terminal does not read its input; {taken_bytes} bytes of it were taken"
                ),
                json!({ "takenBytes": taken_bytes }),
            ),

            Self::OutsideWorkspace { path } => PublicError::new(
                ErrorCode::Refused,
                format!("the path {} leads out of the workspace", Echo(path)),
                json!({ "path": path }),
            ),
            Self::NotAFile { path } => PublicError::new(
                ErrorCode::Refused,
                format!("{} is not a regular file", Echo(path)),
                json!({ "path": path }),
            ),
            Self::NotADirectory { path } => PublicError::new(
                ErrorCode::Refused,
                format!("{} is not a directory", Echo(path)),
                json!({ "path": path }),
            ),
            Self::ConditionFailed { path } => PublicError::new(
                ErrorCode::PreconditionFailed,
                format!(
                    "{} does not meet `if-match` or `if-none-match`, or no longer has the content that was read; \
                     it was not changed",
                    Echo(path)
                ),
                json!({ "path": path }),
            ),
            Self::AlreadyThere { path } => PublicError::new(
                ErrorCode::AlreadyExists,
                format!("{} already exists and may not be replaced", Echo(path)),
                json!({ "path": path }),
            ),
            Self::NotEmpty { path } => PublicError::new(
                ErrorCode::WrongState,
                format!("the directory {} is not empty; remove it with `recursive=true`", Echo(path)),
                json!({ "path": path }),
            ),
            Self::NotPutBack { path, files, kept_in } => PublicError::new(
                ErrorCode::WrongState,
                format!(
                    "the change failed, and {files} files could not be put back because a command was changing them, {} first; \
                     their earlier content is in {}",
                    Echo(path),
                    Echo(kept_in)
                ),
                json!({ "path": path, "files": files, "keptIn": kept_in }),
            ),
            Self::TextCount { edit, occurrences } => PublicError::new(
                ErrorCode::WrongState,
                format!(
                    "`edits[{edit}].oldText` occurs {occurrences} times in the file, and without `replaceAll` must occur once; it was not changed"
                ),
                json!({ "field": format!("edits[{edit}].oldText"), "occurrences": occurrences }),
            ),
            Self::ArchiveBad { member, problem } => PublicError::new(
                ErrorCode::Refused,
                format!("the archive was not unpacked: {problem}"),
                json!({ "member": member }),
            ),
            Self::TreeRejected { path, problem } => PublicError::new(
                ErrorCode::Refused,
                format!("no snapshot can have {}: it {problem}", Echo(path)),
                json!({ "path": path }),
            ),
            Self::RangeEmpty { size_bytes } => PublicError::new(
                ErrorCode::RangeNotSatisfiable,
                format!("the file has {size_bytes} bytes, and none of them is in the range"),
                json!({ "sizeBytes": size_bytes }),
            ),
            Self::NoSpace { path } => PublicError::new(
                ErrorCode::InsufficientStorage,
                format!("no space left in the workspace for {}", Echo(path)),
                json!({ "path": path }),
            ),
            Self::FileFailed { path, errno } => PublicError::new(
                ErrorCode::Refused,
                format!("the file {} could not be used: {}", Echo(path), system_message(*errno)),
                json!({ "path": path, "errno": errno }),
            ),

            Self::PortClosed { port } => PublicError::new(
                ErrorCode::WrongState,
                format!("nothing answers on port {port} in the sandbox"),
                json!({ "port": port }),
            ),

            Self::NotAllowable { host, problem } => PublicError::new(
                ErrorCode::Refused,
                format!("{} cannot be allowed: {problem}", Echo(host)),
                json!({ "host": host }),
            ),
        }
    }
}

/// Resources that a request can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// A sandbox.
    Sandbox,
    /// A command.
    Command,
    /// A terminal.
    Terminal,
    /// A file or directory.
    File,
    /// A port that is offered for previews.
    Port,
    /// A preview link.
    Link,
    /// A connection that a process in a sandbox opens.
    Connection,
    /// A host that a sandbox was denied.
    Denial,
    /// A container, volume or disk that belongs to no sandbox.
    Orphan,
    /// A wrapped server.
    McpServer,
    /// A snapshot.
    Snapshot,
}

impl Resource {
    /// Name in `details.resource`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Command => "command",
            Self::Terminal => "terminal",
            Self::File => "file",
            Self::Snapshot => "snapshot",
            Self::Port => "port",
            Self::Link => "link",
            Self::Connection => "connection",
            Self::Denial => "denial",
            Self::Orphan => "orphan",
            Self::McpServer => "mcpServer",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Actions against a limit that is not temporary.
fn remedy_for(limit: &str) -> &'static str {
    match limit {
        "processes" => "; end commands that run with :kill, or all of them with :park",
        _ => "",
    }
}

/// The system's message for an error number. Some errors have no number.
fn system_message(errno: i32) -> String {
    if errno == 0 {
        "the system gave no reason".into()
    } else {
        std::io::Error::from_raw_os_error(errno).to_string()
    }
}

fn stdin_message(state: StdinState) -> &'static str {
    match state {
        StdinState::NeverOpened => "it was started without `openStdin`",
        StdinState::Closed => "it was closed, by a writer or by the command itself",
        StdinState::Ended => "the command has ended",
    }
}
