//! Why a request is refused: message, code and details of each refusal that an agent or the daemon makes.

mod command;
mod file;
mod system;

use std::fmt;

use sandbox_api::ErrorCode;
use serde_json::json;
use thiserror::Error;

pub use self::command::CommandRefusal;
pub use self::file::FileRefusal;
use super::FieldError;
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
    /// Why a request about a command is refused.
    #[error(transparent)]
    Command(#[from] CommandRefusal),
    /// Why a request about files is refused.
    #[error(transparent)]
    File(#[from] FileRefusal),
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

    /// The terminal has ended.
    TerminalEnded,
    /// The program on the terminal does not read its input.
    InputNotTaken {
        /// Bytes that the program had taken.
        taken_bytes: u64,
    },

    /// The context runs other code.
    ContextBusy,
    /// The call of a tool was answered, or has expired, or its run is over.
    ToolCallOver,

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
            Self::Command(refusal) => refusal.to_public(),
            Self::File(refusal) => refusal.to_public(),
            Self::NotFound(resource) => PublicError::new(
                ErrorCode::NotFound,
                format!("no such {resource}{}", absence_of(*resource)),
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

            Self::ContextBusy => {
                PublicError::new(ErrorCode::WrongState, "the context runs other code", json!({}))
            }
            Self::ToolCallOver => PublicError::new(
                ErrorCode::WrongState,
                "the call was answered, has expired, or its run is over",
                json!({}),
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
    /// A context.
    Context,
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
    /// A project.
    Project,
    /// A token of a project.
    Token,
    /// A value that is kept with a sandbox.
    Value,
    /// A call of a tool.
    ToolCall,
}

impl Resource {
    /// Name in `details.resource`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Command => "command",
            Self::Terminal => "terminal",
            Self::Context => "context",
            Self::File => "file",
            Self::Snapshot => "snapshot",
            Self::Project => "project",
            Self::Token => "token",
            Self::Value => "value",
            Self::ToolCall => "toolCall",
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

/// Why a resource may be absent that existed before.
fn absence_of(resource: Resource) -> &'static str {
    match resource {
        Resource::Context => "; contexts end when they are closed and when their sandbox is parked",
        _ => "",
    }
}

/// Actions against a limit that is not temporary.
fn remedy_for(limit: &str) -> &'static str {
    match limit {
        "contexts" => "; close one of them",
        "processes" => "; end commands that run with :kill, or all of them with :park",
        _ => "",
    }
}
