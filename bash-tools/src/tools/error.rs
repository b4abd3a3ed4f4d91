//! Errors of tools. Every message is for the model and the user.

use toolbox::InvalidOutput;

use crate::{provider, session};

/// Result of a tool.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a tool failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no sandbox to run the tool in.
    #[error(transparent)]
    Session(#[from] session::Error),
    /// The sandbox or its provider failed.
    #[error(transparent)]
    Provider(#[from] provider::Error),
    /// The tool does not exist.
    #[error(
        "there is no tool `{name}`: the tools are readFile, writeFile, bash, sandboxUrl and, if it is enabled, python"
    )]
    NoTool {
        /// Name as called.
        name: String,
    },
    /// A [hook](super::CommandHooks) of the app refused the command.
    #[error("the command was not run: {reason}")]
    Refused {
        /// Reason from the hook.
        reason: String,
    },
    /// A kept command cannot be continued.
    #[error(
        "the command is not known any more: it never started, or its sandbox was lost. It was not run again"
    )]
    NoCommand,
    /// The input does not match the tool's schema.
    #[error("{tool} was called with invalid input: {problem}")]
    BadCall {
        /// The tool.
        tool: &'static str,
        /// What is wrong, with the name of the field.
        problem: String,
    },
    /// The port is not configured.
    #[error(
        "port {port} is not one of app.bash_tools.sandbox.ports ({listed}): start the server on one of those"
    )]
    PortNotListed {
        /// Requested port.
        port: u16,
        /// Configured ports, human-readable.
        listed: String,
    },
    /// The file is not text.
    #[error("{path} is not a text file: look at it with bash (`file`, `xxd`, `jq`, …)")]
    NotText {
        /// Path as requested.
        path: String,
    },
    /// The file does not have the line.
    #[error("`offset` is {offset}, and {path} has only {lines} lines")]
    NoLine {
        /// Path as requested.
        path: String,
        /// Line as requested.
        offset: u64,
        /// Number of lines in the file.
        lines: u64,
    },
    /// An input is out of range.
    #[error("`{field}` {problem}")]
    BadInput {
        /// Name of the input.
        field: &'static str,
        /// Rest of the sentence after the name.
        problem: String,
    },
}

impl From<InvalidOutput> for Error {
    fn from(InvalidOutput { field, problem }: InvalidOutput) -> Self {
        Self::BadInput { field, problem }
    }
}

impl Error {
    /// Whether the same call may succeed later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Provider(error) => error.is_temporary(),
            Self::Session(error) => error.is_temporary(),
            _ => false,
        }
    }

    pub(super) fn bad_input(field: &'static str, problem: String) -> Self {
        Self::BadInput { field, problem }
    }
}
