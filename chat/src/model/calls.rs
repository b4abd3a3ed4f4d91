//! The tool calls of one answer, while they arrive and when they are sent back to a server.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};

use serde_json::{Value, json};
use uuid::Uuid;

use super::limits::{MAX_CALLS, MAX_ID_BYTES, MAX_INPUT_BYTES, MAX_NAME_BYTES};
use super::{Block, Error, Piece, Request, Result, ToolCall, Turn};

/// Maximum length of a name that providers accept back.
const MAX_SENT_NAME_CHARS: usize = 64;

/// Counts the calls of an answer, and keeps their ids distinct from each other and from those of the conversation.
/// Servers restart with `call_0`, or leave out the ids.
#[derive(Debug)]
pub(super) struct Calls {
    taken: HashSet<String>,
    count: usize,
}

/// A call whose input is still arriving.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) id: String,
    name: String,
    input: String,
    pub(super) opaque: Option<Value>,
}

impl Calls {
    pub(super) fn after(request: &Request) -> Self {
        let blocks = request.turns.iter().flat_map(|turn| match turn {
            Turn::Model(blocks) => &blocks[..],
            Turn::User(_) | Turn::Tools(_) => &[],
        });
        let taken = blocks.filter_map(|block| match block {
            Block::Call(call) => Some(call.id.clone()),
            Block::Text(_) | Block::Thinking(_) => None,
        });
        Self { taken: taken.collect(), count: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Starts a call. Uses the server's id if possible.
    pub(super) fn begin(
        &mut self,
        id: Option<&str>,
        name: &str,
        pieces: &mut VecDeque<Piece>,
    ) -> Result<Begun> {
        if self.count >= MAX_CALLS {
            return Err(Error::TooManyCalls { limit: MAX_CALLS });
        }
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            let what = format!("the name of a tool has {} bytes, not 1 to {MAX_NAME_BYTES}", name.len());
            return Err(Error::Garbage { what });
        }
        self.count += 1;
        let id = id.filter(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES && !self.taken.contains(*id));
        let id = id.map_or_else(|| format!("call_{}", Uuid::new_v4().simple()), str::to_owned);
        self.taken.insert(id.clone());
        let name = name.to_owned();
        pieces.push_back(Piece::CallBegun { id: id.clone(), name: name.clone() });
        Ok(Begun { id, name, input: String::new(), opaque: None })
    }
}

impl Begun {
    pub(super) fn add(&mut self, delta: &str, pieces: &mut VecDeque<Piece>) -> Result<()> {
        if delta.is_empty() {
            return Ok(());
        }
        if self.input.len() + delta.len() > MAX_INPUT_BYTES {
            return Err(Error::InputTooLong { limit: MAX_INPUT_BYTES });
        }
        self.input.push_str(delta);
        pieces.push_back(Piece::CallInput { id: self.id.clone(), delta: delta.to_owned() });
        Ok(())
    }

    /// Completes the call. A tool without parameters is often called with no input at all.
    pub(super) fn called(self) -> ToolCall {
        let Self { id, name, input, opaque } = self;
        let input = match input.trim() {
            "" => Ok(json!({})),
            _ => serde_json::from_str(&input).map_err(|_| input),
        };
        ToolCall { id, name, input, opaque }
    }
}

/// Returns the input of a call as servers accept it. Anthropic and Ollama reject a whole conversation if an input is
/// not an object.
pub(super) fn sent_input(input: &std::result::Result<Value, String>) -> Cow<'_, Value> {
    match input {
        Ok(object @ Value::Object(_)) => Cow::Borrowed(object),
        Ok(other) => Cow::Owned(json!({ "INVALID_JSON": other.to_string() })),
        Err(text) => Cow::Owned(json!({ "INVALID_JSON": text })),
    }
}

/// Returns an id or a name as servers accept it. OpenAI and Anthropic reject a whole conversation if a model invented
/// a name such as `functions.bash`.
pub(super) fn sent_name(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match name {
        "" => Cow::Borrowed("_"),
        _ if name.chars().all(is_plain) && name.len() <= MAX_SENT_NAME_CHARS => Cow::Borrowed(name),
        _ => {
            let plain = name.chars().map(|c| if is_plain(c) { c } else { '_' });
            Cow::Owned(plain.take(MAX_SENT_NAME_CHARS).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(calls: &mut Calls, id: Option<&str>) -> Result<Begun> {
        calls.begin(id, "bash", &mut VecDeque::new())
    }

    #[test]
    fn ids_of_calls_are_unique() {
        let mut calls = Calls { taken: HashSet::from(["call_0".to_owned()]), count: 0 };
        let long = "x".repeat(MAX_ID_BYTES + 1);
        let ids = [Some("call_0"), Some("call_1"), Some("call_1"), Some(""), None, Some(&long)];
        let ids = ids.map(|id| begin(&mut calls, id).unwrap().id);
        assert_eq!(ids[1], "call_1");
        assert_eq!(HashSet::from(ids.clone()).len(), ids.len(), "{ids:?}");
        assert!(!ids.contains(&"call_0".to_owned()));
        assert!(ids.iter().all(|id| !id.is_empty() && id.len() <= MAX_ID_BYTES), "{ids:?}");
    }

    #[test]
    fn calls_names_and_inputs_are_limited() {
        let mut calls = Calls { taken: HashSet::new(), count: 0 };
        let mut pieces = VecDeque::new();
        for name in ["", &"x".repeat(MAX_NAME_BYTES + 1)] {
            assert!(matches!(calls.begin(None, name, &mut pieces), Err(Error::Garbage { .. })));
        }
        let mut first = begin(&mut calls, None).unwrap();
        first.add(&"x".repeat(MAX_INPUT_BYTES), &mut pieces).unwrap();
        assert!(matches!(first.add("x", &mut pieces), Err(Error::InputTooLong { .. })));
        for _ in 1..MAX_CALLS {
            begin(&mut calls, None).unwrap();
        }
        assert!(matches!(begin(&mut calls, None), Err(Error::TooManyCalls { limit: MAX_CALLS })));
    }

    #[test]
    fn names_and_inputs_are_sent_back_in_a_valid_form() {
        assert_eq!(sent_name("read_file-2"), "read_file-2");
        assert_eq!(sent_name("functions.bash:0"), "functions_bash_0");
        assert_eq!(sent_name("é"), "_");
        assert_eq!(sent_name(""), "_");
        assert_eq!(sent_name(&"x".repeat(80)).len(), MAX_SENT_NAME_CHARS);
        assert_eq!(*sent_input(&Ok(json!({"a": 1}))), json!({"a": 1}));
        assert_eq!(*sent_input(&Ok(json!(["ls"]))), json!({"INVALID_JSON": "[\"ls\"]"}));
        assert_eq!(*sent_input(&Err("{\"a".into())), json!({"INVALID_JSON": "{\"a"}));
    }
}
