//! The conversation so far, for a model.

use std::sync::Arc;

use bash_tools::tools::Definition;
use serde_json::Value;

/// A request to a model.
#[derive(Debug, Clone)]
pub struct Request {
    /// Name at its provider.
    pub model: String,
    /// System prompt.
    pub system: String,
    /// Oldest first. The last one is not the model's.
    pub turns: Vec<Turn>,
    /// The tools that it may call.
    pub tools: Arc<[Definition]>,
}

/// One turn of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// A message of the user.
    User(String),
    /// A turn of the model.
    Model(Vec<Block>),
    /// The results of all tools that the model called in its last turn, in the same order.
    Tools(Vec<ToolResult>),
}

/// A part of a model's turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Text for the user.
    Text(String),
    /// Reasoning.
    Thinking(Thinking),
    /// A tool call.
    Call(ToolCall),
}

/// Reasoning of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Thinking {
    /// May be empty if the provider does not show it.
    pub text: String,
    /// Data that must be sent back to the provider unchanged. Another provider does not get the reasoning.
    pub opaque: Option<Value>,
}

/// A tool call of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Unique in its turn.
    pub id: String,
    /// Name of the tool as the model wrote it. The tool may not exist.
    pub name: String,
    /// Input, or the model's text if it is not JSON.
    pub input: Result<Value, String>,
    /// Data that must be sent back to the provider unchanged.
    pub opaque: Option<Value>,
}

/// Result of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// Id of the call.
    pub call_id: String,
    /// Text for the model.
    pub content: String,
    /// Whether the tool failed.
    pub is_error: bool,
}
