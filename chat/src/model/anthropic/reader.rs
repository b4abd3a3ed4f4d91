//! Understands events, one after the other.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};

use super::event::{Block, Delta, Event, Whole};
use crate::model::answer::{Heard, Reader};
use crate::model::calls::{Begun, Calls};
use crate::model::{EndReason, Error, Piece, Request, Result, opaque, sse, words};

/// Blocks that may be open at a time; there is one, as Anthropic has it.
const MAX_OPEN_BLOCKS: usize = 64;

/// What is known of the answer so far.
pub(super) struct EventReader {
    host: Arc<str>,
    calls: Calls,
    open: HashMap<u64, Open>,
    ended: Option<EndReason>,
}

/// A block that is not complete.
enum Open {
    Thinking { text: String, signature: String },
    Redacted(Value),
    Call(Begun),
}

impl EventReader {
    pub(super) fn new(host: Arc<str>, request: &Request) -> Self {
        Self { host, calls: Calls::after(request), open: HashMap::new(), ended: None }
    }

    fn begin(&mut self, index: u64, block: Block, pieces: &mut VecDeque<Piece>) -> Result<()> {
        let open = match block {
            Block::Text { text } => {
                tell(pieces, Piece::Text, &text);
                return Ok(());
            }
            Block::Unknown => return Ok(()),
            Block::Thinking { thinking, signature } => {
                tell(pieces, Piece::Thinking, &thinking);
                Open::Thinking { text: thinking, signature }
            }
            Block::RedactedThinking(mut block) => {
                block.insert("type".to_owned(), "redacted_thinking".into());
                Open::Redacted(block.into())
            }
            Block::ToolUse { id, name, input } => {
                let mut begun = self.calls.begin(Some(&id), &name, pieces)?;
                // In a stream it is empty, and comes after.
                if input.as_object().is_some_and(|input| !input.is_empty()) {
                    begun.add(&input.to_string(), pieces)?;
                }
                Open::Call(begun)
            }
        };
        if self.open.insert(index, open).is_some() || self.open.len() > MAX_OPEN_BLOCKS {
            return Err(Error::Garbage { what: format!("block {index} begins among others") });
        }
        Ok(())
    }

    fn add(&mut self, index: u64, delta: Delta, pieces: &mut VecDeque<Piece>) -> Result<()> {
        match (delta, self.open.get_mut(&index)) {
            (Delta::Text { text }, _) => tell(pieces, Piece::Text, &text),
            (Delta::Thinking { thinking }, Some(Open::Thinking { text, .. })) => {
                text.push_str(&thinking);
                tell(pieces, Piece::Thinking, &thinking);
            }
            (Delta::Signature { signature: whole }, Some(Open::Thinking { signature, .. })) => {
                *signature = whole;
            }
            (Delta::InputJson { partial_json }, Some(Open::Call(begun))) => {
                begun.add(&partial_json, pieces)?;
            }
            // Of blocks that are passed over, such as what a tool of the provider's own is called with.
            (
                Delta::Thinking { .. } | Delta::Signature { .. } | Delta::InputJson { .. } | Delta::Unknown,
                _,
            ) => {}
        }
        Ok(())
    }

    fn complete(&mut self, index: u64, pieces: &mut VecDeque<Piece>) {
        match self.open.remove(&index) {
            None => {}
            Some(Open::Call(begun)) => pieces.push_back(Piece::Called(begun.called())),
            Some(Open::Redacted(block)) => self.thought(Some(block), pieces),
            Some(Open::Thinking { text, signature }) => {
                // One that is not signed is not taken back.
                let block = json!({ "type": "thinking", "thinking": text, "signature": signature });
                self.thought((!signature.is_empty()).then_some(block), pieces);
            }
        }
    }

    fn thought(&self, block: Option<Value>, pieces: &mut VecDeque<Piece>) {
        let opaque = block.map(|block| opaque::seal(&self.host, block));
        pieces.push_back(Piece::Thought { opaque });
    }

    fn stop(&mut self, reason: Option<&str>) {
        if let Some(reason) = reason {
            self.ended = Some(end_reason(reason));
        }
    }
}

impl Reader for EventReader {
    fn hear(&mut self, event: &sse::Event, pieces: &mut VecDeque<Piece>) -> Result<Heard> {
        if event.data.trim().is_empty() {
            return Ok(Heard::More);
        }
        match serde_json::from_str(&event.data).map_err(garbage)? {
            Event::ContentBlockStart { index, content_block } => self.begin(index, content_block, pieces)?,
            Event::ContentBlockDelta { index, delta } => self.add(index, delta, pieces)?,
            Event::ContentBlockStop { index } => self.complete(index, pieces),
            Event::MessageDelta { delta } => self.stop(delta.stop_reason.as_deref()),
            Event::MessageStop => {
                self.ended.get_or_insert(EndReason::Stop);
                return Ok(Heard::Last);
            }
            Event::Error { error } => return Err(Error::Reported { said: words::of_fault(&error) }),
            Event::Unknown => {}
        }
        Ok(Heard::More)
    }

    fn hear_whole(&mut self, answer: Value, pieces: &mut VecDeque<Piece>) -> Result<()> {
        match serde_json::from_value(answer).map_err(garbage)? {
            Whole::Message { content, stop_reason } => {
                for (index, block) in (0..).zip(content) {
                    self.begin(index, block, pieces)?;
                    self.complete(index, pieces);
                }
                self.stop(Some(stop_reason.as_deref().unwrap_or("end_turn")));
                Ok(())
            }
            Whole::Error { error } => Err(Error::Reported { said: words::of_fault(&error) }),
        }
    }

    fn close(&mut self, _pieces: &mut VecDeque<Piece>) -> Result<EndReason> {
        // A block that was begun must also be complete: half a call is none.
        let reason = self.ended.filter(|_| self.open.is_empty()).ok_or(Error::Cut)?;
        Ok(reason.with_calls(!self.calls.is_empty()))
    }
}

fn tell(pieces: &mut VecDeque<Piece>, piece: fn(String) -> Piece, text: &str) {
    if !text.is_empty() {
        pieces.push_back(piece(text.to_owned()));
    }
}

/// Serde's words have something of what was read in them, which is shown shortened like all that a server says.
fn garbage(error: serde_json::Error) -> Error {
    Error::Garbage { what: error.to_string() }
}

/// `pause_turn` and `compaction` come only where tools of the provider's own are at work, and none is asked for.
fn end_reason(reason: &str) -> EndReason {
    match reason {
        "end_turn" | "stop_sequence" => EndReason::Stop,
        "tool_use" => EndReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => EndReason::Length,
        "refusal" => EndReason::ContentFilter,
        _ => EndReason::Other,
    }
}
