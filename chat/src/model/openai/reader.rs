//! Interprets the chunks of a stream.
//!
//! Only the end of an answer shows that a call is complete. So all calls are returned then, and none of an incomplete
//! answer.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::chunk::{CallDelta, Choice, Chunk, TextPart};
use crate::model::answer::{Progress, Reader};
use crate::model::calls::{Begun, Calls};
use crate::model::sse::Event;
use crate::model::{EndReason, Error, Piece, Request, Result, messages, opaque};

/// Field for reasoning of the servers that require it back.
pub(super) const REASONING_CONTENT: &str = "reasoning_content";

/// State of the answer.
pub(super) struct ChunkReader {
    host: Arc<str>,
    calls: Calls,
    slots: Vec<Slot>,
    thinking: Option<Thought>,
    ended: Option<EndReason>,
}

/// A call, and how the server identifies it.
struct Slot {
    index: Option<u64>,
    id: Option<String>,
    begun: Begun,
}

/// Incomplete reasoning.
struct Thought {
    is_wanted_back: bool,
}

impl ChunkReader {
    pub(super) fn new(host: Arc<str>, request: &Request) -> Self {
        Self { host, calls: Calls::after(request), slots: Vec::new(), thinking: None, ended: None }
    }

    fn add_choice(&mut self, choice: Choice, pieces: &mut VecDeque<Piece>) -> Result<()> {
        if let Some(reason) = choice.finish_reason() {
            self.ended = Some(end_reason(reason));
        }
        let delta = choice.delta();
        for text in delta.texts() {
            match text {
                TextPart::Text(text) => {
                    self.thought(pieces);
                    pieces.push_back(Piece::Text(text));
                }
                TextPart::Thought(text, is_wanted_back) => {
                    self.thinking = Some(Thought { is_wanted_back });
                    pieces.push_back(Piece::Thinking(text));
                }
            }
        }
        for call in delta.into_calls() {
            self.thought(pieces);
            self.add_call(call, pieces)?;
        }
        Ok(())
    }

    fn add_call(&mut self, delta: CallDelta, pieces: &mut VecDeque<Piece>) -> Result<()> {
        let at = match self.slot_of(&delta) {
            Some(at) => at,
            None => {
                let begun = self.calls.begin(delta.id(), delta.name().unwrap_or_default(), pieces)?;
                let id = delta.id().map(str::to_owned);
                self.slots.push(Slot { index: delta.index(), id, begun });
                self.slots.len() - 1
            }
        };
        let begun = &mut self.slots[at].begun;
        begun.add(&delta.arguments(), pieces)?;
        if let Some(extra) = delta.into_extra_content() {
            begun.opaque = Some(opaque::seal(&self.host, extra));
        }
        Ok(())
    }

    /// Finds the call of a delta. Returns `None` if it starts a new one. Servers that leave out the index, or give
    /// every call the same, send each call complete, with an id and a name.
    fn slot_of(&self, delta: &CallDelta) -> Option<usize> {
        let is_other = |slot: &Slot| {
            let is_other_id = delta.id().is_some_and(|id| slot.id.as_deref() != Some(id));
            delta.name().is_some() && (is_other_id || delta.index().is_none())
        };
        let of_index = |slot: &Slot| delta.index().is_none() || slot.index == delta.index();
        let at = self.slots.iter().rposition(of_index)?;
        (!is_other(&self.slots[at])).then_some(at)
    }

    /// Completes the reasoning when something else follows it.
    fn thought(&mut self, pieces: &mut VecDeque<Piece>) {
        if let Some(Thought { is_wanted_back }) = self.thinking.take() {
            let opaque = is_wanted_back.then(|| opaque::seal(&self.host, REASONING_CONTENT.into()));
            pieces.push_back(Piece::Thought { opaque });
        }
    }

    fn read_value(&mut self, value: &Value, pieces: &mut VecDeque<Piece>) -> Result<bool> {
        // Serde would also fill the fields from a list.
        if !value.is_object() {
            return Err(Error::Garbage { what: "a chunk that is not an object".to_owned() });
        }
        let chunk = Chunk::deserialize(value).map_err(garbage)?;
        if chunk.is_fault() {
            return Err(Error::Reported { message: messages::of_fault(value) });
        }
        let Some(choice) = chunk.choice() else { return Ok(false) };
        self.add_choice(choice, pieces).map(|()| true)
    }
}

impl Reader for ChunkReader {
    fn read_event(&mut self, event: &Event, pieces: &mut VecDeque<Piece>) -> Result<Progress> {
        match event.data.trim() {
            "" => return Ok(Progress::More),
            "[DONE]" => {
                self.ended.get_or_insert(EndReason::Stop);
                return Ok(Progress::Last);
            }
            _ => {}
        }
        let value: Value = serde_json::from_str(&event.data).map_err(garbage)?;
        if event.name == "error" {
            return Err(Error::Reported { message: messages::of_fault(&value) });
        }
        self.read_value(&value, pieces).map(|_| Progress::More)
    }

    fn read_whole(&mut self, answer: Value, pieces: &mut VecDeque<Piece>) -> Result<()> {
        if !self.read_value(&answer, pieces)? {
            return Err(Error::Garbage { what: "an answer without choices".to_owned() });
        }
        self.ended.get_or_insert(EndReason::Stop);
        Ok(())
    }

    fn close(&mut self, pieces: &mut VecDeque<Piece>) -> Result<EndReason> {
        let reason = self.ended.ok_or(Error::Cut)?;
        self.thought(pieces);
        pieces.extend(self.slots.drain(..).map(|slot| Piece::Called(slot.begun.called())));
        Ok(reason.with_calls(!self.calls.is_empty()))
    }
}

/// Serde's message may contain some of the input, which is shortened like every text of a server.
fn garbage(error: serde_json::Error) -> Error {
    Error::Garbage { what: error.to_string() }
}

fn end_reason(reason: &str) -> EndReason {
    match reason {
        "stop" => EndReason::Stop,
        "tool_calls" | "function_call" => EndReason::ToolCalls,
        "length" | "model_length" => EndReason::Length,
        "content_filter" => EndReason::ContentFilter,
        _ => EndReason::Other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const NAMES: [&str; 8] = ["index", "id", "function", "name", "arguments", "type", "text", "thinking"];

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            (-1_i64..3).prop_map(Value::from),
            "[a{}\":]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let list = prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from);
            let fields = prop::collection::vec((prop::sample::select(&NAMES[..]), inner), 0..4);
            prop_oneof![list, fields.prop_map(Value::from_iter)]
        })
    }

    fn any_call() -> impl Strategy<Value = Value> {
        let function = ("a?", any_json()).prop_map(|(name, input)| json!({"name": name, "arguments": input}));
        let function = prop_oneof![4 => function, 1 => Just(Value::Null)];
        (any_json(), any_json(), function)
            .prop_map(|(index, id, function)| json!({"index": index, "id": id, "function": function}))
    }

    proptest! {
        #[test]
        fn every_call_that_begins_is_called_once(
            deltas in prop::collection::vec((any_json(), any_json(), prop::collection::vec(any_call(), 0..3)), 0..5),
        ) {
            let request = Request { model: String::new(), system: String::new(), turns: vec![], tools: [].into() };
            let mut reader = ChunkReader::new("host".into(), &request);
            let mut pieces = VecDeque::new();
            for (content, reasoning, calls) in deltas {
                let delta = json!({"content": content, "reasoning": reasoning, "tool_calls": calls});
                let chunk = json!({"choices": [{"delta": delta}]});
                if reader.read_value(&chunk, &mut pieces).is_err() {
                    return Ok(());
                }
            }
            reader.ended = Some(EndReason::Stop);
            reader.close(&mut pieces).unwrap();
            let begun: Vec<_> = pieces.iter().filter_map(|piece| match piece {
                Piece::CallBegun { id, name } => Some((id, name)),
                _ => None,
            }).collect();
            let called: Vec<_> = pieces.iter().filter_map(|piece| match piece {
                Piece::Called(call) => Some((&call.id, &call.name)),
                _ => None,
            }).collect();
            prop_assert_eq!(begun, called);
        }
    }
}
