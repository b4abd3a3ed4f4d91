//! What a model is told of the conversation so far.

use std::sync::Arc;

use bash_tools::tools::Definition;
use serde_json::Value;

/// What a model is asked.
#[derive(Debug, Clone)]
pub struct Request {
    /// As its provider names it.
    pub model: String,
    /// What it is to be and to know.
    pub system: String,
    /// Oldest first; the last one is not the model's.
    pub turns: Vec<Turn>,
    /// What it may call.
    pub tools: Arc<[Definition]>,
}

/// One turn of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// The person's.
    Person(String),
    /// The model's.
    Model(Vec<Block>),
    /// What the tools answered that the model called in its last turn: every one of them, in that order.
    Tools(Vec<ToolResult>),
}

/// A part of a model's turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// Said to the person.
    Text(String),
    /// Thought aloud.
    Thinking(Thinking),
    /// A tool called.
    Call(ToolCall),
}

/// What a model thought aloud.
#[derive(Debug, Clone, PartialEq)]
pub struct Thinking {
    /// May be empty, where the provider keeps it to itself.
    pub text: String,
    /// The provider's own, which must come back to it unchanged. Another provider is not sent the thought.
    pub opaque: Option<Value>,
}

/// A tool called by a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Unique in its turn.
    pub id: String,
    /// The tool's, as the model has it; there need not be one of that name.
    pub name: String,
    /// What it is called with, or what the model wrote where that is no JSON.
    pub input: Result<Value, String>,
    /// The provider's own, which must come back to it unchanged.
    pub opaque: Option<Value>,
}

/// What a tool answered.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// Which call it is of.
    pub call_id: String,
    /// For the model.
    pub content: String,
    /// Whether it did not do what it was called for.
    pub is_error: bool,
}
