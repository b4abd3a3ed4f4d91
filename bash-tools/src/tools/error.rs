//! Why a tool has no result. Every message is for the model and the person who reads along.

use crate::{provider, session};

/// A tool's answer.
pub type Result<T> = std::result::Result<T, Error>;

/// A tool did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no sandbox to do it in.
    #[error(transparent)]
    Session(#[from] session::Error),
    /// The sandbox or its provider did not do it.
    #[error(transparent)]
    Provider(#[from] provider::Error),
    /// A tool that there is none of.
    #[error("there is no tool `{name}`: there are readFile, writeFile, bash and sandboxUrl")]
    NoTool {
        /// As it was called.
        name: String,
    },
    /// A call that is not as its tool's schema says.
    #[error("{tool} was not called as its schema says: {problem}")]
    BadCall {
        /// Which.
        tool: &'static str,
        /// What is wrong with it, with the field's name.
        problem: String,
    },
    /// A port that the configuration does not list.
    #[error(
        "port {port} is not one of app.bash_tools.sandbox.ports ({listed}): start the server on one of those"
    )]
    PortNotListed {
        /// What was asked for.
        port: u16,
        /// Those there are, for people.
        listed: String,
    },
    /// A file that is no text.
    #[error("{path} is not a text file: look at it with bash (`file`, `xxd`, `jq`, …)")]
    NotText {
        /// As it was asked for.
        path: String,
    },
    /// A line that the file has not.
    #[error("`offset` is {offset}, and {path} has only {lines} lines")]
    NoLine {
        /// As it was asked for.
        path: String,
        /// As it was asked for.
        offset: u64,
        /// How many there are.
        lines: u64,
    },
    /// An input that is not in its range.
    #[error("`{field}` {problem}")]
    BadInput {
        /// Which.
        field: &'static str,
        /// The end of a sentence that begins with it.
        problem: String,
    },
}
