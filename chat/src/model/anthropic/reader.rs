//! Interprets the events of Anthropic's stream.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde_json::{Value, json};

use super::event::{Block, CompleteResponse, Delta, Event};
use crate::model::answer::{Progress, Reader};
use crate::model::calls::{Begun, Calls};
use crate::model::{EndReason, Error, Piece, Request, Result, messages, opaque, sse};

/// Maximum number of open blocks. Anthropic sends one at a time.
const MAX_OPEN_BLOCKS: usize = 64;

/// State of the answer.
pub(super) struct EventReader {
    host: Arc<str>,
    calls: Calls,
    open: HashMap<u64, Open>,
    ended: Option<EndReason>,
}

/// An incomplete block.
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
                push_delta(pieces, Piece::Text, &text);
                return Ok(());
            }
            Block::Unknown => return Ok(()),
            Block::Thinking { thinking, signature } => {
                push_delta(pieces, Piece::Thinking, &thinking);
                Open::Thinking { text: thinking, signature }
            }
            Block::RedactedThinking(mut block) => {
                block.insert("type".to_owned(), "redacted_thinking".into());
                Open::Redacted(block.into())
            }
            Block::ToolUse { id, name, input } => {
                let mut begun = self.calls.begin(Some(&id), &name, pieces)?;
                // In a stream it is empty here, and arrives later.
                if input.as_object().is_some_and(|input| !input.is_empty()) {
                    begun.add(&input.to_string(), pieces)?;
                }
                Open::Call(begun)
            }
        };
        if self.open.insert(index, open).is_some() || self.open.len() > MAX_OPEN_BLOCKS {
            return Err(Error::Garbage { what: format!("block {index} starts inside another") });
        }
        Ok(())
    }

    fn add(&mut self, index: u64, delta: Delta, pieces: &mut VecDeque<Piece>) -> Result<()> {
        match (delta, self.open.get_mut(&index)) {
            (Delta::Text { text }, _) => push_delta(pieces, Piece::Text, &text),
            (Delta::Thinking { thinking }, Some(Open::Thinking { text, .. })) => {
                text.push_str(&thinking);
                push_delta(pieces, Piece::Thinking, &thinking);
            }
            (Delta::Signature { signature: whole }, Some(Open::Thinking { signature, .. })) => {
                *signature = whole;
            }
            (Delta::InputJson { partial_json }, Some(Open::Call(begun))) => {
                begun.add(&partial_json, pieces)?;
            }
            // Belongs to a skipped block, such as the input of a provider's own tool.
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
                // Anthropic accepts no unsigned reasoning back.
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
    fn read_event(&mut self, event: &sse::Event, pieces: &mut VecDeque<Piece>) -> Result<Progress> {
        if event.data.trim().is_empty() {
            return Ok(Progress::More);
        }
        match serde_json::from_str(&event.data).map_err(garbage)? {
            Event::ContentBlockStart { index, content_block } => self.begin(index, content_block, pieces)?,
            Event::ContentBlockDelta { index, delta } => self.add(index, delta, pieces)?,
            Event::ContentBlockStop { index } => self.complete(index, pieces),
            Event::MessageDelta { delta } => self.stop(delta.stop_reason.as_deref()),
            Event::MessageStop => {
                self.ended.get_or_insert(EndReason::Stop);
                return Ok(Progress::Last);
            }
            Event::Error { error } => return Err(Error::Reported { message: messages::of_fault(&error) }),
            Event::Unknown => {}
        }
        Ok(Progress::More)
    }

    fn read_whole(&mut self, answer: Value, pieces: &mut VecDeque<Piece>) -> Result<()> {
        match serde_json::from_value(answer).map_err(garbage)? {
            CompleteResponse::Message { content, stop_reason } => {
                for (index, block) in (0..).zip(content) {
                    self.begin(index, block, pieces)?;
                    self.complete(index, pieces);
                }
                self.stop(Some(stop_reason.as_deref().unwrap_or("end_turn")));
                Ok(())
            }
            CompleteResponse::Error { error } => Err(Error::Reported { message: messages::of_fault(&error) }),
        }
    }

    fn close(&mut self, _pieces: &mut VecDeque<Piece>) -> Result<EndReason> {
        // Every block must be complete, because half a call is useless.
        let reason = self.ended.filter(|_| self.open.is_empty()).ok_or(Error::Cut)?;
        Ok(reason.with_calls(!self.calls.is_empty()))
    }
}

fn push_delta(pieces: &mut VecDeque<Piece>, piece: fn(String) -> Piece, text: &str) {
    if !text.is_empty() {
        pieces.push_back(piece(text.to_owned()));
    }
}

/// Serde's message may contain some of the input, which is shortened like every text of a server.
fn garbage(error: serde_json::Error) -> Error {
    Error::Garbage { what: error.to_string() }
}

/// `pause_turn` and `compaction` only occur with the provider's own tools, which are not used.
fn end_reason(reason: &str) -> EndReason {
    match reason {
        "end_turn" | "stop_sequence" => EndReason::Stop,
        "tool_use" => EndReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => EndReason::Length,
        "refusal" => EndReason::ContentFilter,
        _ => EndReason::Other,
    }
}
