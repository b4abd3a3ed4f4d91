//! Why a request is refused: message, code and details of each refusal that an agent or the daemon makes.

use std::fmt;
use std::time::Duration;

use sandbox_api::ErrorCode;
use serde_json::{Value, json};
use thiserror::Error;

use super::FieldError;
use super::command::StdinState;
use super::echo::Echo;

/// Why a request is refused. The message is for the client. Texts that come from an agent are facts to show, not to
/// act on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A field of the request is invalid.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The resource does not exist, or not any more.
    #[error("no such {0}")]
    NotFound(Resource),
    /// A limit of one sandbox is reached.
    #[error("the sandbox's limit of {value} {limit} is reached{}", remedy_for(limit))]
    LimitReached {
        /// What is limited, in the plural.
        limit: String,
        /// Maximum number.
        value: u64,
    },
    /// Something is larger than its limit.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// A field in backquotes, or a file.
        what: String,
        /// Maximum size in bytes.
        limit: u64,
    },
    /// One request contains too many of something. A retry does not help, unlike with a limit that is reached.
    #[error("there are more than {limit} {what}")]
    TooMany {
        /// What is limited, in the plural.
        what: String,
        /// Maximum number.
        limit: u64,
    },

    /// The id belongs to a command that another request started.
    #[error("`commandId` belongs to another command: repeat the same request, or choose another id")]
    CommandDiffers,
    /// The command could not be started.
    #[error("the command could not be started: {step} {}: {}", Echo(.subject), system_message(*.errno))]
    StartFailed {
        /// `cwd`, `pipe`, `script`, `exec` or `fork`.
        step: String,
        /// The directory or program that the step is about.
        subject: String,
        /// The system's error number.
        errno: i32,
    },
    /// The sandbox's kernel cannot prevent a command from writing to the workspace.
    #[error(
        "`readOnly` is not supported here: the sandbox's kernel has no Landlock (error {errno}); nothing was run"
    )]
    ReadOnlyUnavailable {
        /// The system's error number.
        errno: i32,
    },
    /// The command's standard input cannot be written to.
    #[error("the command's standard input is not open: {}", stdin_message(*.state))]
    StdinNotOpen {
        /// Why it is not open.
        state: StdinState,
        /// Bytes of this request that the command had taken.
        written_bytes: u64,
    },
    /// The command did not read its standard input, or another writer did not finish.
    #[error(
        "the command did not read for {waited:?}, or another writer did not finish; {written_bytes} bytes were written"
    )]
    StdinStalled {
        /// How long the agent waited.
        waited: Duration,
        /// Bytes of this request that the command had taken.
        written_bytes: u64,
    },

    /// The terminal has ended.
    #[error("the terminal has ended")]
    TerminalEnded,
    /// The program on the terminal does not read its input.
    #[error("the program on the terminal does not read its input; {taken_bytes} bytes of it were taken")]
    InputNotTaken {
        /// Bytes that the program had taken.
        taken_bytes: u64,
    },

    /// The path leads out of the workspace.
    #[error("the path {path} leads out of the workspace", path = Echo(.path))]
    OutsideWorkspace {
        /// As in the request.
        path: String,
    },
    /// The path names something other than a regular file.
    #[error("{path} is not a regular file", path = Echo(.path))]
    NotAFile {
        /// As in the request.
        path: String,
    },
    /// The path names something other than a directory.
    #[error("{path} is not a directory", path = Echo(.path))]
    NotADirectory {
        /// As in the request.
        path: String,
    },
    /// The file does not exist, or its content is not what the request requires.
    #[error(
        "{path} does not meet `if-match` or `if-none-match`, or no longer has the content that was read; \
         it was not changed",
        path = Echo(.path)
    )]
    ConditionFailed {
        /// As in the request.
        path: String,
    },
    /// The path exists and may not be replaced.
    #[error("{path} already exists and may not be replaced", path = Echo(.path))]
    AlreadyThere {
        /// As in the request.
        path: String,
    },
    /// A directory to remove is not empty.
    #[error("the directory {path} is not empty; remove it with `recursive=true`", path = Echo(.path))]
    NotEmpty {
        /// As in the request.
        path: String,
    },
    /// A change failed, and some of the files that it had replaced could not be put back.
    #[error(
        "the change failed, and {files} files could not be put back because a command was changing them, {path} first; \
         their earlier content is in {kept_in}",
        path = Echo(.path), kept_in = Echo(.kept_in)
    )]
    NotPutBack {
        /// The first of them.
        path: String,
        /// Number of files.
        files: u64,
        /// Directory of the workspace that contains them now.
        kept_in: String,
    },
    /// A text that must occur once in the file occurs more often, or not at all.
    #[error(
        "`edits[{edit}].oldText` occurs {occurrences} times in the file, and without `replaceAll` must occur once; it was not changed"
    )]
    TextCount {
        /// Index of the edit, from 0.
        edit: u32,
        /// Number of occurrences.
        occurrences: u64,
    },
    /// The archive cannot be unpacked.
    #[error("the archive was not unpacked: {problem}")]
    ArchiveBad {
        /// The member at fault; empty if the fault is in the archive as a whole.
        member: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The file has no byte of the requested range.
    #[error("the file has {size_bytes} bytes, and none of them is in the range")]
    RangeEmpty {
        /// The file's size.
        size_bytes: u64,
    },
    /// The workspace is full.
    #[error("no space left in the workspace for {path}", path = Echo(.path))]
    NoSpace {
        /// As in the request.
        path: String,
    },
    /// Another error of the file system.
    #[error("the file {path} could not be used: {}", system_message(*.errno), path = Echo(.path))]
    FileFailed {
        /// As in the request.
        path: String,
        /// The system's error number.
        errno: i32,
    },

    /// No server listens on the port of the sandbox's loopback, or it does not answer.
    #[error("nothing answers on port {port} in the sandbox")]
    PortClosed {
        /// The port.
        port: u32,
    },
}

impl Refusal {
    /// Code and details of the response, which are for programs.
    pub fn facts(&self) -> (ErrorCode, Value) {
        match self {
            Self::Field(fault) => (ErrorCode::InvalidRequest, json!({ "field": fault.field })),
            Self::NotFound(resource) => (ErrorCode::NotFound, json!({ "resource": resource.as_str() })),
            Self::LimitReached { limit, value } => {
                (ErrorCode::CapacityExhausted, json!({ "limit": limit, "value": value }))
            }
            Self::TooLarge { limit, .. } | Self::TooMany { limit, .. } => {
                (ErrorCode::TooLarge, json!({ "limit": limit }))
            }

            Self::CommandDiffers => (ErrorCode::AlreadyExists, json!({ "field": "commandId" })),
            Self::StartFailed { step, errno, .. } => {
                (ErrorCode::Refused, json!({ "step": step, "errno": errno }))
            }
            Self::ReadOnlyUnavailable { errno } => {
                (ErrorCode::Refused, json!({ "field": "readOnly", "errno": errno }))
            }
            Self::StdinNotOpen { state, written_bytes } => {
                (ErrorCode::WrongState, json!({ "state": state.as_str(), "writtenBytes": written_bytes }))
            }
            Self::StdinStalled { written_bytes, .. } => {
                (ErrorCode::DeadlineExceeded, json!({ "writtenBytes": written_bytes }))
            }

            Self::TerminalEnded => (ErrorCode::WrongState, json!({})),
            Self::InputNotTaken { taken_bytes } => {
                (ErrorCode::WrongState, json!({ "takenBytes": taken_bytes }))
            }

            Self::OutsideWorkspace { path } | Self::NotAFile { path } | Self::NotADirectory { path } => {
                (ErrorCode::Refused, json!({ "path": path }))
            }
            Self::ConditionFailed { path } => (ErrorCode::PreconditionFailed, json!({ "path": path })),
            Self::AlreadyThere { path } => (ErrorCode::AlreadyExists, json!({ "path": path })),
            Self::NotEmpty { path } => (ErrorCode::WrongState, json!({ "path": path })),
            Self::NotPutBack { path, files, kept_in } => {
                (ErrorCode::WrongState, json!({ "path": path, "files": files, "keptIn": kept_in }))
            }
            Self::TextCount { edit, occurrences } => {
                let field = format!("edits[{edit}].oldText");
                (ErrorCode::WrongState, json!({ "field": field, "occurrences": occurrences }))
            }
            Self::ArchiveBad { member, .. } => (ErrorCode::Refused, json!({ "member": member })),
            Self::RangeEmpty { size_bytes } => {
                (ErrorCode::RangeNotSatisfiable, json!({ "sizeBytes": size_bytes }))
            }
            Self::NoSpace { path } => (ErrorCode::InsufficientStorage, json!({ "path": path })),
            Self::FileFailed { path, errno } => (ErrorCode::Refused, json!({ "path": path, "errno": errno })),

            Self::PortClosed { port } => (ErrorCode::WrongState, json!({ "port": port })),
        }
    }
}

/// What a request names and may not find.
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
    /// A container, volume or disk that belongs to no sandbox.
    Orphan,
}

impl Resource {
    /// Name in `details.resource`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Command => "command",
            Self::Terminal => "terminal",
            Self::File => "file",
            Self::Port => "port",
            Self::Link => "link",
            Self::Connection => "connection",
            Self::Orphan => "orphan",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What helps against a limit that does not pass by itself.
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
