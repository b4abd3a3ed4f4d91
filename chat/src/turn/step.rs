//! One step of a turn: what its model answers, as it is told and as it is kept for the next step.

use serde_json::Value;

use super::chunk::Chunk;
use super::out::Out;
use crate::model::{Block, EndReason, ToolCall};

/// What a model answered in one step.
#[derive(Default)]
pub(super) struct Step {
    pub(super) blocks: Vec<Block>,
    /// Ids and names of calls whose input is still coming.
    pub(super) begun: Vec<(String, String)>,
    pub(super) calls: Vec<ToolCall>,
    pub(super) end: Option<EndReason>,
}

/// What is made of it when a model ends without a word. Small ones do so after their tools have answered, and the person is left
/// with cards; such a one is asked for words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    /// It has called nothing, has said something, or was asked already.
    Expected,
    /// It has called tools and said nothing since the turn began.
    Odd,
}

impl Silence {
    pub(super) fn after(self, step: &Step) -> Self {
        let has_words =
            step.blocks.iter().any(|block| matches!(block, Block::Text(text) if !text.trim().is_empty()));
        match self {
            _ if has_words => Self::Expected,
            _ if !step.calls.is_empty() => Self::Odd,
            before => before,
        }
    }
}

/// What is being told, in pieces.
pub(super) enum Open {
    Nothing,
    Text(String),
    Thought(String),
}

impl Open {
    pub(super) fn id(&self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Text(id) | Self::Thought(id) => id.clone(),
        }
    }

    pub(super) async fn close(&mut self, metadata: Option<Value>, out: &mut Out) {
        match std::mem::replace(self, Self::Nothing) {
            Self::Nothing => {}
            Self::Text(id) => out.say(Chunk::TextEnd { id }).await,
            Self::Thought(id) => out.say(Chunk::ReasoningEnd { id, provider_metadata: metadata }).await,
        }
    }
}

/// Ids of texts and thoughts, unique in an answer. Calls come with theirs, unique in the conversation.
#[derive(Default)]
pub(super) struct Ids(usize);

impl Ids {
    pub(super) fn text(&mut self) -> String {
        self.0 += 1;
        format!("t{}", self.0)
    }
}

/// An input as it came, or its text where it has a key that JavaScript takes for something else: pages refuse a whole answer for it.
pub(super) fn plain(input: Value) -> Result<Value, String> {
    if has_odd_key(&input) { Err(input.to_string()) } else { Ok(input) }
}

fn has_odd_key(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields
            .iter()
            .any(|(key, value)| matches!(&**key, "__proto__" | "constructor") || has_odd_key(value)),
        Value::Array(items) => items.iter().any(has_odd_key),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Tells that the turn was ended from outside.
pub(super) async fn abort(out: &mut Out) {
    out.say(Chunk::Abort { reason: "the turn was ended".into() }).await;
}
