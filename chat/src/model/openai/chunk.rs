//! A chunk of an answer, with all variations between servers.
//!
//! Fields whose type differs between servers are kept as JSON and interpreted here. The message of an answer that is
//! not a stream has the form of a chunk's delta, so it is read as one.

use serde::Deserialize;
use serde_json::Value;

/// A chunk, or a whole answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk {
    /// vLLM sends `error` here, and the message beside it.
    object: Value,
    error: Value,
    choices: Option<Vec<Choice>>,
}

/// The single choice of it. No more are requested.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice {
    delta: Option<Delta>,
    message: Option<Delta>,
    finish_reason: Value,
}

/// The new part.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta {
    content: Value,
    refusal: Value,
    reasoning_content: Value,
    reasoning: Value,
    tool_calls: Option<Vec<CallDelta>>,
}

/// The new part of one tool call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta {
    index: Value,
    id: Value,
    function: Option<FunctionDelta>,
    /// Contains Gemini's signature of its reasoning.
    extra_content: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FunctionDelta {
    name: Value,
    arguments: Value,
}

/// A text of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TextPart {
    /// For the user.
    Text(String),
    /// Reasoning, and whether the field was `reasoning_content`.
    Thought(String, bool),
}

impl Chunk {
    pub(super) fn is_fault(&self) -> bool {
        !self.error.is_null() || self.object == "error"
    }

    /// Returns the choice. The chunk with the usage has none.
    pub(super) fn choice(self) -> Option<Choice> {
        self.choices?.into_iter().next()
    }
}

impl Choice {
    /// Some servers send an empty reason with every chunk.
    pub(super) fn finish_reason(&self) -> Option<&str> {
        filled(&self.finish_reason)
    }

    pub(super) fn delta(self) -> Delta {
        self.delta.or(self.message).unwrap_or_default()
    }
}

impl Delta {
    /// Returns all of its texts, with the reasoning first, as models write them.
    pub(super) fn texts(&self) -> Vec<TextPart> {
        let mut texts = Vec::new();
        if let Some(thought) = filled(&self.reasoning_content) {
            texts.push(TextPart::Thought(thought.to_owned(), true));
        } else if let Some(thought) = filled(&self.reasoning) {
            texts.push(TextPart::Thought(thought.to_owned(), false));
        }
        match &self.content {
            Value::Array(parts) => texts.extend(parts.iter().filter_map(of_part)),
            content => texts.extend(filled(content).map(|text| TextPart::Text(text.to_owned()))),
        }
        texts.extend(filled(&self.refusal).map(|text| TextPart::Text(text.to_owned())));
        texts
    }

    pub(super) fn into_calls(self) -> Vec<CallDelta> {
        self.tool_calls.unwrap_or_default()
    }
}

/// Mistral's reasoning is a part of the content, and has parts itself.
fn of_part(part: &Value) -> Option<TextPart> {
    let text = match part {
        Value::String(text) => return Some(TextPart::Text(text.clone())),
        part => match (part.get("text"), part.get("thinking")) {
            (Some(text), _) => filled(text)?.to_owned(),
            (None, Some(Value::Array(parts))) => {
                parts.iter().filter_map(|part| filled(part.get("text")?)).collect()
            }
            (None, Some(thinking)) => filled(thinking)?.to_owned(),
            (None, None) => return None,
        },
    };
    Some(if part.get("thinking").is_some() { TextPart::Thought(text, false) } else { TextPart::Text(text) })
}

impl CallDelta {
    pub(super) fn index(&self) -> Option<u64> {
        self.index.as_u64()
    }

    pub(super) fn id(&self) -> Option<&str> {
        filled(&self.id)
    }

    pub(super) fn name(&self) -> Option<&str> {
        filled(&self.function.as_ref()?.name)
    }

    /// Returns more of the input. Some servers send JSON instead of its text.
    pub(super) fn arguments(&self) -> String {
        match self.function.as_ref().map(|function| &function.arguments) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(input) => input.to_string(),
        }
    }

    pub(super) fn into_extra_content(self) -> Option<Value> {
        Some(self.extra_content).filter(|extra| !extra.is_null())
    }
}

fn filled(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}
