//! Says a turn's chunks to the pages that watch it, and stores them with the answer.

use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use super::{Chunk, Speaker};

/// The part of an answer that says why it ended early.
pub(super) const FAILED: &str = "data-failed";

/// Approximate size of a part besides its text.
const PART_BYTES: usize = 256;

/// What an answer shows that was stored after a step, if the app ends before the next version is stored.
const LOST: &str = "The chat server stopped before this answer was complete.";

/// A version of an answer, to be stored in place of the one before.
#[derive(Debug)]
pub struct Version {
    /// The parts, in the AI SDK's format.
    pub parts: Vec<Value>,
    /// Ids of the calls that have begun and not returned. `None` at the end of the turn.
    pub pending: Option<Vec<String>>,
    /// Gets whether the version could be stored.
    pub stored: Option<oneshot::Sender<bool>>,
}

/// The output of a turn: its pages, and the stored answer. The answer is stored before the calls of each step, after them
/// and at the end, so that another instance of the app can continue it. The end of the turn is said last of all, by
/// [`Ending`], because pages send their next request as soon as they receive it.
#[derive(Debug)]
pub struct Out {
    pages: Speaker,
    kept: mpsc::Sender<Version>,
    parts: Parts,
    /// Size of the last stored version, and whether it has a problem.
    kept_version: (usize, bool),
    /// Said when everything is stored.
    ending: Vec<Chunk>,
}

/// The end of a turn, for its pages.
#[derive(Debug)]
#[must_use]
pub struct Ending {
    pages: Speaker,
    chunks: Vec<Chunk>,
}

impl Out {
    /// Creates the output for pages and for the store.
    pub fn new(pages: Speaker, kept: mpsc::Sender<Version>) -> Self {
        Self { pages, kept, parts: Parts::default(), kept_version: (0, false), ending: Vec::new() }
    }

    /// Says a chunk. Waits only for the store.
    pub async fn say(&mut self, chunk: Chunk) {
        self.parts.add(&chunk);
        if chunk == Chunk::FinishStep {
            self.store(Some(LOST), None).await;
        }
        match chunk {
            Chunk::Error { .. } | Chunk::Abort { .. } | Chunk::Finish { .. } => self.ending.push(chunk),
            _ => self.pages.say(chunk),
        }
    }

    /// Says a chunk without storing the answer.
    pub(super) fn recall(&mut self, chunk: Chunk) {
        self.parts.add(&chunk);
        self.pages.say(chunk);
    }

    /// Stores the answer before its calls run. Returns whether it is stored. A call that may have begun is never begun again, so
    /// others must not begin.
    pub(super) async fn store_calls(&mut self) -> bool {
        let (stored, is_stored) = oneshot::channel();
        self.store(Some(LOST), Some(stored)).await;
        is_stored.await.unwrap_or(false)
    }

    /// Stores the answer while some of its calls still run.
    pub(super) async fn store_result(&mut self) {
        self.store(Some(LOST), None).await;
    }

    /// Returns the parts so far, as they are stored.
    pub(super) fn parts(&self) -> Vec<Value> {
        self.parts.stored_parts()
    }

    /// Returns the size of the answer so far, in bytes of text.
    pub fn kept_bytes(&self) -> usize {
        self.parts.bytes
    }

    /// Stores the whole answer.
    pub async fn end(mut self) -> Ending {
        self.store(None, None).await;
        Ending { pages: self.pages, chunks: self.ending }
    }

    /// Stores the answer so far. `problem` is what it shows if this remains its last version.
    async fn store(&mut self, problem: Option<&str>, stored: Option<oneshot::Sender<bool>>) {
        let version = (self.parts.bytes, problem.is_some());
        // Every addition has a length.
        if self.kept_version != version && version != (0, false) {
            self.kept_version = version;
            let mut parts = self.parts.stored_parts();
            parts.extend(problem.map(failed_part));
            let pending = problem.map(|_| self.parts.pending());
            let _ = self.kept.send(Version { parts, pending, stored }).await;
        }
    }
}

impl Ending {
    /// Says the end, after an optional other chunk.
    pub fn say(self, before: Option<Chunk>) {
        before.into_iter().chain(self.chunks).for_each(|chunk| self.pages.say(chunk));
    }
}

fn failed_part(text: &str) -> Value {
    json!({ "type": FAILED, "data": { "text": text } })
}

/// The parts of an answer, in the AI SDK's format.
#[derive(Debug, Default)]
pub struct Parts {
    list: Vec<Map<String, Value>>,
    /// Bytes of texts and of the tools' inputs and outputs, without the surrounding JSON.
    bytes: usize,
}

impl Parts {
    fn add(&mut self, chunk: &Chunk) {
        self.bytes += chunk.kept_bytes();
        match chunk {
            Chunk::StartStep => self.push(json!({ "type": "step-start" })),
            Chunk::TextStart { id } => self.push(json!({ "type": "text", "id": id, "text": "" })),
            Chunk::ReasoningStart { id } => self.push(json!({ "type": "reasoning", "id": id, "text": "" })),
            Chunk::TextDelta { id, delta } | Chunk::ReasoningDelta { id, delta } => self.append(id, delta),
            Chunk::ReasoningEnd { id, provider_metadata: Some(opaque) } => {
                if let Some(part) = self.find("id", id) {
                    part.insert("providerMetadata".into(), opaque.clone());
                }
            }
            Chunk::ToolInputAvailable { tool_call_id, tool_name, input, provider_metadata } => {
                self.push(json!({
                    "type": format!("tool-{tool_name}"), "toolCallId": tool_call_id, "state": "input-available",
                    "input": input,
                }));
                if let (Some(opaque), Some(part)) = (provider_metadata, self.list.last_mut()) {
                    part.insert("callProviderMetadata".into(), opaque.clone());
                }
            }
            Chunk::ToolInputError { tool_call_id, tool_name, input, error_text } => self.push(json!({
                "type": format!("tool-{tool_name}"), "toolCallId": tool_call_id, "state": "output-error",
                "input": input, "errorText": error_text,
            })),
            // Preliminary output is not stored, because a page would show the tool as running forever.
            Chunk::ToolOutputAvailable { tool_call_id, output, preliminary: false } => {
                if let Some(part) = self.find("toolCallId", tool_call_id) {
                    part.insert("state".into(), "output-available".into());
                    part.insert("output".into(), output.clone());
                }
            }
            Chunk::ToolOutputError { tool_call_id, error_text } => self.fail(tool_call_id, error_text),
            // Without this, an interrupted answer would look complete after a reload.
            Chunk::Error { error_text } => {
                self.push(failed_part(error_text));
            }
            Chunk::Stopped { data } => self.push(json!({ "type": "data-stopped", "data": data })),
            Chunk::Start { .. }
            | Chunk::TextEnd { .. }
            | Chunk::ReasoningEnd { .. }
            | Chunk::ToolInputStart { .. }
            | Chunk::ToolInputDelta { .. }
            | Chunk::ToolOutputAvailable { preliminary: true, .. }
            | Chunk::FinishStep
            | Chunk::Chat { .. }
            | Chunk::Sandbox { .. }
            | Chunk::Abort { .. }
            | Chunk::Finish { .. } => {}
        }
    }

    /// Returns the parts without what only the stream needs. A tool without a result counts as failed.
    fn stored_parts(&self) -> Vec<Value> {
        let stored_parts = |part: &Map<String, Value>| {
            let mut part = part.clone();
            part.remove("id");
            if part.get("state").is_some_and(|state| state == "input-available") {
                part.insert("state".into(), "output-error".into());
                part.insert("errorText".into(), "The call ended before it returned a result.".into());
            }
            Value::Object(part)
        };
        self.list.iter().map(stored_parts).collect()
    }

    /// Ids of the calls without a result.
    fn pending(&self) -> Vec<String> {
        let pending =
            self.list.iter().filter(|part| part.get("state").is_some_and(|it| it == "input-available"));
        pending.filter_map(|part| part.get("toolCallId")?.as_str().map(str::to_owned)).collect()
    }

    fn push(&mut self, part: Value) {
        self.bytes += PART_BYTES;
        if let Value::Object(part) = part {
            self.list.push(part);
        }
    }

    fn append(&mut self, id: &str, delta: &str) {
        if let Some(Value::String(text)) = self.find("id", id).and_then(|part| part.get_mut("text")) {
            text.push_str(delta);
        }
    }

    fn fail(&mut self, call: &str, error: &str) {
        if let Some(part) = self.find("toolCallId", call) {
            part.insert("state".into(), "output-error".into());
            part.insert("errorText".into(), error.into());
        }
    }

    fn find(&mut self, key: &str, value: &str) -> Option<&mut Map<String, Value>> {
        self.list.iter_mut().rev().find(|part| part.get(key).is_some_and(|found| found == value))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::super::{FinishReason, Live};
    use super::*;

    #[tokio::test]
    async fn the_stored_answer_equals_the_sent_one() {
        let (kept, mut parts) = mpsc::channel(4);
        let mut out = Out::new(Live::default().speaker(), kept);
        let call = |id: &str| Chunk::ToolInputAvailable {
            tool_call_id: id.into(),
            tool_name: "bash".into(),
            input: json!({ "command": "ls" }),
            provider_metadata: None,
        };
        let output = |id: &str, code: i32, preliminary| Chunk::ToolOutputAvailable {
            tool_call_id: id.into(),
            output: json!({ "exitCode": code }),
            preliminary,
        };
        for chunk in [
            Chunk::Start { message_id: "m".into() },
            Chunk::StartStep,
            Chunk::TextStart { id: "1".into() },
            Chunk::TextDelta { id: "1".into(), delta: "he".into() },
            Chunk::TextDelta { id: "1".into(), delta: "y".into() },
            Chunk::TextEnd { id: "1".into() },
            call("a"),
            call("b"),
            output("a", -1, true),
            output("a", 0, false),
            Chunk::FinishStep,
        ] {
            out.say(chunk).await;
        }
        let whole = json!([
            { "type": "step-start" },
            { "type": "text", "text": "hey" },
            { "type": "tool-bash", "toolCallId": "a", "state": "output-available", "input": { "command": "ls" }, "output": { "exitCode": 0 } },
            { "type": "tool-bash", "toolCallId": "b", "state": "output-error", "input": { "command": "ls" },
              "errorText": "The call ended before it returned a result." },
        ]);
        let mut so_far = parts.recv().await.unwrap();
        assert_eq!(so_far.parts.pop(), Some(failed_part(LOST)));
        assert_eq!(Value::from(so_far.parts), whole);
        assert_eq!(so_far.pending.unwrap(), ["b"]);
        let _ = out.end().await;
        let last = parts.recv().await.unwrap();
        assert_eq!((Value::from(last.parts), last.pending), (whole, None));
        assert!(parts.recv().await.is_none());
    }

    #[tokio::test]
    async fn the_end_is_said_when_everything_is_stored() {
        let live = Live::default();
        let mut page = live.watch().unwrap();
        let (kept, mut parts) = mpsc::channel(1);
        let mut out = Out::new(live.speaker(), kept);
        let failed = Chunk::Error { error_text: "no".into() };
        let finished = Chunk::Finish { finish_reason: FinishReason::Error };
        out.say(failed.clone()).await;
        out.say(finished.clone()).await;
        let ending = out.end().await;
        assert_eq!(parts.recv().await.unwrap().parts, [json!({ "type": FAILED, "data": { "text": "no" } })]);
        assert_eq!(page.next().now_or_never(), None);
        ending.say(None);
        assert_eq!(page.next().await, Some(failed));
        assert_eq!(page.next().await, Some(finished));
        assert_eq!(page.next().await, None);
    }

    #[tokio::test]
    async fn a_turn_continues_when_its_page_leaves_or_reads_nothing() {
        let live = Live::default();
        let (page, _idle) = (live.watch().unwrap(), live.watch().unwrap());
        let (kept, _parts) = mpsc::channel(128);
        let mut out = Out::new(live.speaker(), kept);
        drop(page);
        for _ in 0..100 {
            out.say(Chunk::StartStep).await;
        }
        assert_eq!(out.parts.stored_parts().len(), 100);
    }
}
