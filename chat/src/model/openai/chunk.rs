//! A chunk of an answer, with all that servers leave out or say otherwise.
//!
//! Fields whose type differs from server to server are kept as they came and looked at here. The message of an answer that is no
//! stream has the form of a chunk's delta, so it is read as one.

use serde::Deserialize;
use serde_json::Value;

/// A chunk, or the whole answer.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk {
    /// vLLM says `error` here, and what is wrong beside it.
    object: Value,
    error: Value,
    choices: Option<Vec<Choice>>,
}

/// The one answer of it; no more are asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice {
    delta: Option<Delta>,
    message: Option<Delta>,
    finish_reason: Value,
}

/// What is new in it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta {
    content: Value,
    refusal: Value,
    reasoning_content: Value,
    reasoning: Value,
    tool_calls: Option<Vec<CallDelta>>,
}

/// What is new of one tool call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta {
    index: Value,
    id: Value,
    function: Option<FunctionDelta>,
    /// Gemini's signature of its thoughts is in it.
    extra_content: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct FunctionDelta {
    name: Value,
    arguments: Value,
}

/// Some text of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// For the person.
    Text(String),
    /// Thought aloud; whether it was called `reasoning_content`.
    Thought(String, bool),
}

impl Chunk {
    pub(super) fn is_fault(&self) -> bool {
        !self.error.is_null() || self.object == "error"
    }

    /// What there is of the answer, if anything: the chunk with the usage has none.
    pub(super) fn choice(self) -> Option<Choice> {
        self.choices?.into_iter().next()
    }
}

impl Choice {
    /// Some servers send an empty one along with every chunk.
    pub(super) fn finish_reason(&self) -> Option<&str> {
        filled(&self.finish_reason)
    }

    pub(super) fn delta(self) -> Delta {
        self.delta.or(self.message).unwrap_or_default()
    }
}

impl Delta {
    /// All of its texts; thoughts first, as models have them.
    pub(super) fn said(&self) -> Vec<Said> {
        let mut said = Vec::new();
        if let Some(thought) = filled(&self.reasoning_content) {
            said.push(Said::Thought(thought.to_owned(), true));
        } else if let Some(thought) = filled(&self.reasoning) {
            said.push(Said::Thought(thought.to_owned(), false));
        }
        match &self.content {
            Value::Array(parts) => said.extend(parts.iter().filter_map(of_part)),
            content => said.extend(filled(content).map(|text| Said::Text(text.to_owned()))),
        }
        said.extend(filled(&self.refusal).map(|text| Said::Text(text.to_owned())));
        said
    }

    pub(super) fn into_calls(self) -> Vec<CallDelta> {
        self.tool_calls.unwrap_or_default()
    }
}

/// Mistral's thoughts are parts of the content, and have parts themselves.
fn of_part(part: &Value) -> Option<Said> {
    let text = match part {
        Value::String(text) => return Some(Said::Text(text.clone())),
        part => match (part.get("text"), part.get("thinking")) {
            (Some(text), _) => filled(text)?.to_owned(),
            (None, Some(Value::Array(parts))) => {
                parts.iter().filter_map(|part| filled(part.get("text")?)).collect()
            }
            (None, Some(thinking)) => filled(thinking)?.to_owned(),
            (None, None) => return None,
        },
    };
    Some(if part.get("thinking").is_some() { Said::Thought(text, false) } else { Said::Text(text) })
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

    /// More of its input; some servers send the input itself rather than its text.
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
