//! The loop of a turn: request, tool calls, results, next request.

use std::sync::Arc;

use bash_tools::gates::Reason;
use bash_tools::tools::{Definition, Toolkit};
use futures::StreamExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::chunk::{Chunk, FinishReason};
use super::history::add_answer;
use super::out::Out;
use super::resumed::{Progress, Stored, recall};
use super::step::{Ids, Open, Silence, Step, abort, checked_input};
use super::tools::{BAD_INPUT, Runner, run_all};
use super::{MAX_STEPS, MAX_TURN_BYTES, script};
use crate::model::{
    self, Block, EndReason, ModelClient, Piece, Request, Thinking, ToolCall, Turn as ConversationTurn,
};

/// A turn that is about to start.
#[derive(Clone)]
pub struct Turn {
    /// Answers the turn.
    pub responder: Responder,
    /// The chat's tools, or why the request has none.
    pub tools: Result<Toolkit, Reason>,
    /// Cancels the turn.
    pub cancel: CancellationToken,
    /// Id of the answer, if its commands continue without the app.
    pub kept_as: Option<String>,
    /// What an earlier instance of the app has stored of the answer.
    pub stored: Option<Stored>,
}

/// The source of a turn's answer.
#[derive(Clone)]
pub enum Responder {
    /// Bash, with the user's own command.
    Bash(String),
    /// A model.
    Model {
        /// The client of the model.
        client: Arc<dyn ModelClient>,
        /// Its provider, as stored answers name it.
        provider: &'static str,
        /// Name at its provider.
        model: String,
        /// System prompt.
        system: String,
        /// Tools that it may call.
        definitions: Arc<[Definition]>,
        /// The chat so far.
        turns: Vec<ConversationTurn>,
    },
}

impl Turn {
    /// Answers, from the first chunk to the last. Never fails: errors become part of the answer.
    pub async fn run(self, message_id: String, out: &mut Out) {
        out.say(Chunk::Start { message_id }).await;
        let is_resumed = self.stored.as_ref().is_some_and(|stored| !stored.parts.is_empty());
        if self.cancel.is_cancelled() && !is_resumed {
            return abort(out).await;
        }
        let mut ids = Ids::default();
        let resumed = match &self.stored {
            Some(stored) if is_resumed => Some(self.resume(stored, &mut ids, out).await),
            _ => None,
        };
        match &self.responder {
            Responder::Bash(_) if resumed.is_some() => script::finish(out, &self.cancel).await,
            Responder::Bash(command) => script::run(&self.runner(false), command, out).await,
            Responder::Model { client, provider, model, system, definitions, turns } => {
                let mut request = Request {
                    model: model.clone(),
                    system: system.clone(),
                    turns: turns.clone(),
                    tools: Arc::clone(definitions),
                };
                add_answer(&mut request.turns, &out.parts(), provider);
                let steps = Steps { turn: &self, client: &**client, provider, ids };
                match resumed {
                    None => steps.run(request, 0, Silence::Expected, out).await,
                    Some(_) if self.cancel.is_cancelled() => abort(out).await,
                    Some(Progress { steps: done, silence, has_calls: true, .. }) => {
                        steps.run(request, done, silence, out).await;
                    }
                    // The model had finished.
                    Some(_) => out.say(Chunk::Finish { finish_reason: FinishReason::Stop }).await,
                }
            }
        }
    }

    /// Says the stored answer, and runs the calls of its last step to their end.
    async fn resume(&self, stored: &Stored, ids: &mut Ids, out: &mut Out) -> Progress {
        let progress = recall(stored, ids, out);
        run_all(&self.runner(true), &progress.pending, out).await;
        out.say(Chunk::FinishStep).await;
        progress
    }

    fn runner(&self, has_begun: bool) -> Runner {
        Runner {
            tools: self.tools.clone(),
            kept_turn: self.kept_as.clone(),
            has_begun,
            cancel: self.cancel.clone(),
        }
    }
}

/// Sent to a model as a user's message, and not stored.
const REQUEST_FOR_TEXT: &str = "Say in a few words what came of that.";

struct Steps<'a> {
    turn: &'a Turn,
    client: &'a dyn ModelClient,
    provider: &'static str,
    ids: Ids,
}

impl Steps<'_> {
    /// Runs the steps after those that are `done`.
    async fn run(mut self, mut request: Request, done: usize, mut silence: Silence, out: &mut Out) {
        let runner = self.turn.runner(false);
        for _ in done..MAX_STEPS {
            out.say(Chunk::StartStep).await;
            let step = match self.request_step(request.clone(), out).await {
                Ok(step) => step,
                Err(Ended::Cancelled) => return abort(out).await,
                Err(Ended::Failed(error)) => {
                    tracing::warn!(%error, cause = error.source_text(), "a model did not answer");
                    // Not stored without the error, because this step is not complete.
                    out.recall(Chunk::FinishStep);
                    out.say(Chunk::Error { error_text: error.to_string() }).await;
                    return out.say(Chunk::Finish { finish_reason: FinishReason::Error }).await;
                }
            };
            let results = run_all(&runner, &step.calls, out).await;
            out.say(Chunk::FinishStep).await;
            if self.turn.cancel.is_cancelled() {
                return abort(out).await;
            }
            silence = silence.after(&step);
            if results.is_empty() {
                if silence != Silence::Odd {
                    return out.say(Chunk::Finish { finish_reason: finish_reason(step.end) }).await;
                }
                silence = Silence::Expected;
                request.turns.extend([
                    ConversationTurn::Model(step.blocks),
                    ConversationTurn::User(REQUEST_FOR_TEXT.to_owned()),
                ]);
                continue;
            }
            request.turns.extend([ConversationTurn::Model(step.blocks), ConversationTurn::Tools(results)]);
        }
        let id = self.ids.text();
        let words = format!("I stopped after {MAX_STEPS} steps. Ask me to continue if you want more.");
        out.say(Chunk::TextStart { id: id.clone() }).await;
        out.say(Chunk::TextDelta { id: id.clone(), delta: words }).await;
        out.say(Chunk::TextEnd { id }).await;
        out.say(Chunk::Finish { finish_reason: FinishReason::Other }).await;
    }

    /// Sends one request, and passes the answer on while it arrives.
    async fn request_step(&mut self, request: Request, out: &mut Out) -> Result<Step, Ended> {
        let mut pieces = self.client.stream(request);
        let mut step = Step::default();
        let mut open = Open::Nothing;
        let ended = loop {
            let piece = tokio::select! {
                biased;
                () = self.turn.cancel.cancelled() => break Err(Ended::Cancelled),
                piece = pieces.next() => piece,
            };
            match piece {
                Some(Ok(Piece::End(end))) => {
                    step.end = Some(end);
                    break Ok(());
                }
                Some(Ok(_)) if out.kept_bytes() > MAX_TURN_BYTES => {
                    break Err(Ended::Failed(model::Error::TooLong { limit: MAX_TURN_BYTES }));
                }
                Some(Ok(piece)) => self.pass_on(piece, &mut step, &mut open, out).await,
                Some(Err(error)) => break Err(Ended::Failed(error)),
                None => break Err(Ended::Failed(model::Error::Cut)),
            }
        };
        open.close(None, out).await;
        for (tool_call_id, tool_name) in step.begun.drain(..) {
            let error_text = "The answer ended before the call was complete.".to_owned();
            let input = Value::Null;
            out.say(Chunk::ToolInputError { tool_call_id, tool_name, input, error_text }).await;
        }
        ended.map(|()| step)
    }

    async fn pass_on(&mut self, piece: Piece, step: &mut Step, open: &mut Open, out: &mut Out) {
        match piece {
            Piece::Text(delta) => {
                if !matches!(open, Open::Text(_)) {
                    open.close(None, out).await;
                    *open = Open::Text(self.ids.text());
                    out.say(Chunk::TextStart { id: open.id() }).await;
                    step.blocks.push(Block::Text(String::new()));
                }
                if let Some(Block::Text(text)) = step.blocks.last_mut() {
                    text.push_str(&delta);
                }
                out.say(Chunk::TextDelta { id: open.id(), delta }).await;
            }
            Piece::Thinking(delta) => {
                self.open_thought(step, open, out).await;
                if let Some(Block::Thinking(thinking)) = step.blocks.last_mut() {
                    thinking.text.push_str(&delta);
                }
                out.say(Chunk::ReasoningDelta { id: open.id(), delta }).await;
            }
            Piece::Thought { opaque } => {
                // Reasoning without text must be sent back too.
                self.open_thought(step, open, out).await;
                if let Some(Block::Thinking(thinking)) = step.blocks.last_mut() {
                    thinking.opaque.clone_from(&opaque);
                }
                open.close(self.metadata(opaque), out).await;
            }
            Piece::CallBegun { id, name } => {
                open.close(None, out).await;
                step.begun.push((id.clone(), name.clone()));
                out.say(Chunk::ToolInputStart { tool_call_id: id, tool_name: name }).await;
            }
            Piece::CallInput { id, delta } => {
                out.say(Chunk::ToolInputDelta { tool_call_id: id, input_text_delta: delta }).await;
            }
            Piece::Called(call) => {
                open.close(None, out).await;
                self.call(call, step, out).await;
            }
            // Handled by the loop that calls this.
            Piece::End(_) => {}
        }
    }

    async fn open_thought(&mut self, step: &mut Step, open: &mut Open, out: &mut Out) {
        if !matches!(open, Open::Thought(_)) {
            open.close(None, out).await;
            *open = Open::Thought(self.ids.text());
            out.say(Chunk::ReasoningStart { id: open.id() }).await;
            step.blocks.push(Block::Thinking(Thinking { text: String::new(), opaque: None }));
        }
    }

    async fn call(&mut self, call: ToolCall, step: &mut Step, out: &mut Out) {
        let call = ToolCall { input: call.input.and_then(checked_input), ..call };
        let (tool_call_id, tool_name) = (call.id.clone(), call.name.clone());
        step.begun.retain(|(id, _)| *id != tool_call_id);
        let chunk = match &call.input {
            Ok(input) => Chunk::ToolInputAvailable {
                tool_call_id,
                tool_name,
                input: input.clone(),
                provider_metadata: self.metadata(call.opaque.clone()),
            },
            Err(text) => Chunk::ToolInputError {
                tool_call_id,
                tool_name,
                input: Value::String(text.clone()),
                error_text: BAD_INPUT.into(),
            },
        };
        out.say(chunk).await;
        step.blocks.push(Block::Call(call.clone()));
        step.calls.push(call);
    }

    fn metadata(&self, opaque: Option<Value>) -> Option<Value> {
        opaque.map(|opaque| json!({ self.provider: opaque }))
    }
}

/// Why a step has no answer.
enum Ended {
    Cancelled,
    Failed(model::Error),
}

fn finish_reason(end: Option<EndReason>) -> FinishReason {
    match end {
        Some(EndReason::Stop | EndReason::ToolCalls) => FinishReason::Stop,
        Some(EndReason::Length) => FinishReason::Length,
        Some(EndReason::ContentFilter) => FinishReason::ContentFilter,
        Some(EndReason::Other) | None => FinishReason::Other,
    }
}
