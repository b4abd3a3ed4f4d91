//! One step of a turn: the model's answer, as it is sent to the page, and as it is kept for the next step.

use serde_json::Value;

use super::chunk::Chunk;
use super::out::Out;
use crate::model::{Block, EndReason, ToolCall};

/// A model's answer in one step.
#[derive(Default)]
pub(super) struct Step {
    pub(super) blocks: Vec<Block>,
    /// Ids and names of calls whose input is still arriving.
    pub(super) begun: Vec<(String, String)>,
    pub(super) calls: Vec<ToolCall>,
    pub(super) end: Option<EndReason>,
}

/// Whether a model ended without any text. Small models do that after their tools have run, and the user would only
/// see the tools' cards. Such a model gets one more request, for a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    /// It has called no tool, has written text, or has had that request already.
    Expected,
    /// It has called tools and written nothing since the turn started.
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

/// The block that is being sent in pieces.
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

/// Ids of texts and reasoning, unique in an answer. Calls have their own ids, unique in the conversation.
#[derive(Default)]
pub(super) struct Ids(usize);

impl Ids {
    pub(super) fn text(&mut self) -> String {
        self.0 += 1;
        format!("t{}", self.0)
    }
}

/// Returns the input, or its text if it has a key with a special meaning in JavaScript. Pages reject a whole answer
/// with such a key.
pub(super) fn checked_input(input: Value) -> Result<Value, String> {
    if has_special_key(&input) { Err(input.to_string()) } else { Ok(input) }
}

fn has_special_key(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields
            .iter()
            .any(|(key, value)| matches!(&**key, "__proto__" | "constructor") || has_special_key(value)),
        Value::Array(items) => items.iter().any(has_special_key),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Sends that the turn was cancelled.
pub(super) async fn abort(out: &mut Out) {
    out.say(Chunk::Abort { reason: "the turn was ended".into() }).await;
}
