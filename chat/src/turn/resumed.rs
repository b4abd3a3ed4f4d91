//! Continues an answer that an earlier instance of the app has stored up to a step.
//!
//! The stored parts are said again, so that pages which join get all of it. Of the calls that had not returned, commands are
//! followed: they have an id that depends on the turn and the call, and continue without the app. Nothing is run twice.

use bash_tools::provider::CommandId;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::chunk::Chunk;
use super::out::{FAILED, Out};
use super::step::{Ids, Silence};
use crate::model::ToolCall;

/// What an earlier instance of the app has stored of an answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stored {
    /// The parts of the answer, in the AI SDK's format.
    pub parts: Vec<Value>,
    /// Ids of the calls that had begun and not returned.
    pub pending: Vec<String>,
}

impl Stored {
    /// Creates it from the stored parts. The last one may say that the answer is not complete, which is no longer so.
    pub fn new(mut parts: Vec<Value>, pending: Vec<String>) -> Self {
        parts.pop_if(|part| part["type"] == FAILED);
        Self { parts, pending }
    }
}

/// Where an answer continues.
pub(super) struct Progress {
    /// Number of its steps.
    pub(super) steps: usize,
    pub(super) silence: Silence,
    /// Calls of the last step that have not returned.
    pub(super) pending: Vec<ToolCall>,
    /// Whether the last step has called tools, so that the model gets their results.
    pub(super) has_calls: bool,
}

/// Returns the id under which the command of a call is kept. It cannot be guessed, because that of a turn is random.
pub(super) fn command_id(turn: &str, call: &str) -> Option<CommandId> {
    let hash = Sha256::new().chain_update(turn).chain_update([0]).chain_update(call).finalize();
    let hex: String = hash[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("cmd_{hex}").parse().ok()
}

/// Says the stored parts again.
pub(super) fn recall(stored: &Stored, ids: &mut Ids, out: &mut Out) -> Progress {
    let mut progress =
        Progress { steps: 0, silence: Silence::Expected, pending: Vec::new(), has_calls: false };
    let (mut has_called, mut has_text) = (false, false);
    for part in &stored.parts {
        let kind = part["type"].as_str().unwrap_or_default();
        match kind {
            "step-start" => {
                if progress.steps > 0 {
                    out.recall(Chunk::FinishStep);
                }
                progress.steps += 1;
                progress.has_calls = false;
                out.recall(Chunk::StartStep);
            }
            "text" | "reasoning" => {
                has_text |= kind == "text";
                recall_text(kind == "text", part, ids, out);
            }
            _ => {
                if let Some(name) = kind.strip_prefix("tool-") {
                    (progress.has_calls, has_called, has_text) = (true, true, false);
                    let call = recall_call(name, part, &stored.pending, out);
                    progress.pending.extend(call);
                }
            }
        }
    }
    progress.silence = if has_called && !has_text { Silence::Odd } else { Silence::Expected };
    progress
}

fn recall_text(is_text: bool, part: &Value, ids: &mut Ids, out: &mut Out) {
    let (id, delta) = (ids.text(), part["text"].as_str().unwrap_or_default().to_owned());
    let chunks = match is_text {
        true => [
            Chunk::TextStart { id: id.clone() },
            Chunk::TextDelta { id: id.clone(), delta },
            Chunk::TextEnd { id },
        ],
        false => [
            Chunk::ReasoningStart { id: id.clone() },
            Chunk::ReasoningDelta { id: id.clone(), delta },
            Chunk::ReasoningEnd { id, provider_metadata: part.get("providerMetadata").cloned() },
        ],
    };
    chunks.into_iter().for_each(|chunk| out.recall(chunk));
}

/// Says a call and its result. Returns the call if it has none.
fn recall_call(name: &str, part: &Value, pending: &[String], out: &mut Out) -> Option<ToolCall> {
    let tool_call_id = part["toolCallId"].as_str()?.to_owned();
    let error_text = || part["errorText"].as_str().unwrap_or_default().to_owned();
    let (tool_name, input) = (name.to_owned(), part["input"].clone());
    if !input.is_object() {
        let error_text = error_text();
        out.recall(Chunk::ToolInputError { tool_call_id, tool_name, input, error_text });
        return None;
    }
    let provider_metadata = part.get("callProviderMetadata").cloned();
    let opaque = provider_metadata.as_ref().and_then(|all| all.as_object()?.values().next().cloned());
    let call =
        ToolCall { id: tool_call_id.clone(), name: tool_name.clone(), input: Ok(input.clone()), opaque };
    out.recall(Chunk::ToolInputAvailable {
        tool_call_id: tool_call_id.clone(),
        tool_name,
        input,
        provider_metadata,
    });
    if pending.contains(&tool_call_id) {
        return Some(call);
    }
    out.recall(match part["state"].as_str() {
        Some("output-available") => {
            Chunk::ToolOutputAvailable { tool_call_id, output: part["output"].clone(), preliminary: false }
        }
        _ => Chunk::ToolOutputError { tool_call_id, error_text: error_text() },
    });
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::super::Live;
    use super::*;

    fn call(id: &str, more: Value) -> Value {
        let mut part = json!({ "type": "tool-bash", "toolCallId": id, "input": { "command": "ls" } });
        part.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        part
    }

    #[tokio::test]
    async fn what_was_stored_is_said_again_and_stored_as_before() {
        let done = json!({ "state": "output-available", "output": { "exitCode": 0 } });
        let open =
            json!({ "state": "output-error", "errorText": "The call ended before it returned a result." });
        let parts = vec![
            json!({ "type": "step-start" }),
            json!({ "type": "reasoning", "text": "hm", "providerMetadata": { "openai": 1 } }),
            json!({ "type": "text", "text": "I look." }),
            call("a", done.clone()),
            json!({ "type": "tool-bash", "toolCallId": "b", "input": "{", "state": "output-error", "errorText": "no" }),
            json!({ "type": "step-start" }),
            call("c", open.clone()),
            call("d", done),
        ];
        let stored = Stored { parts: parts.clone(), pending: vec!["c".into()] };
        let live = Live::default();
        let (kept, mut versions) = mpsc::channel(1);
        let mut out = Out::new(live.speaker(), kept);
        let progress = recall(&stored, &mut Ids::default(), &mut out);
        assert_eq!((progress.steps, progress.silence, progress.has_calls), (2, Silence::Odd, true));
        let [pending] = &*progress.pending else { panic!("one is pending") };
        assert_eq!((pending.id.as_str(), &pending.input), ("c", &Ok(json!({ "command": "ls" }))));
        let mut page = live.watch().unwrap();
        let storing = async {
            let _ = out.end().await;
        };
        let (version, ()) = tokio::join!(versions.recv(), storing);
        assert_eq!(version.unwrap().parts, parts);
        let mut said = Vec::new();
        while let Some(chunk) = page.next().await {
            said.push(chunk);
        }
        assert_eq!(said.iter().filter(|chunk| **chunk == Chunk::StartStep).count(), 2);
        assert!(!said.iter().any(|chunk| matches!(chunk, Chunk::ToolOutputError { .. })), "{said:?}");
    }

    #[test]
    fn each_call_of_each_turn_has_its_own_command() {
        let all = [("t", "a"), ("t", "b"), ("u", "a"), ("ta", "")];
        let ids: std::collections::HashSet<_> =
            all.map(|(turn, call)| command_id(turn, call).unwrap()).into();
        assert_eq!(ids.len(), all.len());
        assert_eq!(command_id("t", "a"), command_id("t", "a"));
    }
}
