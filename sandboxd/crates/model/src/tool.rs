//! Tools of a client that code in a context can call.

use std::time::Duration;

use bytes::Bytes;
use sandbox_api::tool::ToolErrorType;
use serde_json::Value;

/// A tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// Unique in its context.
    pub name: String,
    /// What it does.
    pub description: String,
    /// Schema of the arguments.
    pub input_schema: Value,
    /// Schema of the result. `None` is any value.
    pub output_schema: Option<Value>,
    /// Time for the answer to a call.
    pub timeout: Duration,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// Number of the call in its context, from 1.
    pub call: u64,
    /// Name of the tool.
    pub name: String,
    /// Match the schema of the tool.
    pub arguments: Value,
    /// Time for the answer.
    pub timeout: Duration,
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolOutcome {
    /// The result as JSON.
    Result(Bytes),
    /// An error of the tool, or of the call.
    Error {
        /// What kind of error.
        kind: ToolErrorType,
        /// Message for the code.
        message: String,
    },
}
