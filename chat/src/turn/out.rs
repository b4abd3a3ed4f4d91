//! Sends a turn's chunks to the page, and stores them with the answer.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Chunk;

/// The part of an answer that says why it ended early.
const FAILED: &str = "data-failed";

/// Approximate size of a part besides its text.
const PART_BYTES: usize = 256;

/// How long a page may take to read the rest of a cancelled turn.
const END_GRACE: Duration = Duration::from_secs(2);

/// The output of a turn: one page, and the stored answer. The answer is stored after each step and at the end, so
/// that stopping the app loses no complete step. If the page disconnects, the turn ends, and only storing continues.
/// The end of the turn is sent last of all, by [`Ending`], because pages send their next request as soon as they
/// receive it.
#[derive(Debug)]
pub struct Out {
    page: Page,
    kept: mpsc::Sender<Vec<Value>>,
    parts: Parts,
    /// Size of the last stored version.
    kept_bytes: usize,
    /// Sent when everything is stored.
    ending: Vec<Chunk>,
}

/// The end of a turn, for its page.
#[derive(Debug)]
#[must_use]
pub struct Ending {
    page: Page,
    chunks: Vec<Chunk>,
}

#[derive(Debug)]
struct Page {
    /// `None` if the page has disconnected.
    chunks: Option<mpsc::Sender<Chunk>>,
    cancel: CancellationToken,
}

impl Out {
    /// Creates the output for a page and for the store, for a turn that `cancel` ends.
    pub fn new(page: mpsc::Sender<Chunk>, kept: mpsc::Sender<Vec<Value>>, cancel: CancellationToken) -> Self {
        let page = Page { chunks: Some(page), cancel };
        Self { page, kept, parts: Parts::default(), kept_bytes: 0, ending: Vec::new() }
    }

    /// Sends a chunk. Waits for a slow page, but only a short time in a cancelled turn.
    pub async fn say(&mut self, chunk: Chunk) {
        self.parts.add(&chunk);
        if chunk == Chunk::FinishStep {
            self.store().await;
        }
        match chunk {
            Chunk::Error { .. } | Chunk::Abort { .. } | Chunk::Finish { .. } => self.ending.push(chunk),
            _ => self.page.send(chunk).await,
        }
    }

    /// Returns the size of the answer so far, in bytes of text.
    pub fn kept_bytes(&self) -> usize {
        self.parts.bytes
    }

    /// Stores the whole answer.
    pub async fn end(mut self) -> Ending {
        self.store().await;
        Ending { page: self.page, chunks: self.ending }
    }

    async fn store(&mut self) {
        // Every addition has a length.
        if self.kept_bytes != self.parts.bytes {
            self.kept_bytes = self.parts.bytes;
            let _ = self.kept.send(self.parts.stored_parts()).await;
        }
    }
}

impl Ending {
    /// Sends the end, after an optional other chunk.
    pub async fn send(mut self, before: Option<Chunk>) {
        for chunk in before.into_iter().chain(self.chunks) {
            self.page.send(chunk).await;
        }
    }
}

impl Page {
    async fn send(&mut self, chunk: Chunk) {
        let Some(chunks) = &self.chunks else { return };
        let too_late = async {
            self.cancel.cancelled().await;
            sleep(END_GRACE).await;
        };
        let is_sent = tokio::select! {
            biased;
            sent = chunks.send(chunk) => sent.is_ok(),
            () = too_late => false,
        };
        if !is_sent {
            self.chunks = None;
            self.cancel.cancel();
        }
    }
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
                self.push(json!({ "type": FAILED, "data": { "text": error_text } }));
            }
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
    use super::super::FinishReason;
    use super::*;

    #[tokio::test]
    async fn the_stored_answer_equals_the_sent_one() {
        let (page, mut received) = mpsc::channel(64);
        let (kept, mut parts) = mpsc::channel(4);
        let mut out = Out::new(page, kept, CancellationToken::new());
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
        received.close();
        while received.recv().await.is_some() {}
        let expected = json!([
            { "type": "step-start" },
            { "type": "text", "text": "hey" },
            { "type": "tool-bash", "toolCallId": "a", "state": "output-available", "input": { "command": "ls" }, "output": { "exitCode": 0 } },
            { "type": "tool-bash", "toolCallId": "b", "state": "output-error", "input": { "command": "ls" },
              "errorText": "The call ended before it returned a result." },
        ]);
        assert_eq!(Value::from(parts.recv().await.unwrap()), expected);
        let _ = out.end().await;
        assert_eq!(parts.recv().await, None, "it is kept already");
    }

    #[tokio::test]
    async fn the_end_is_sent_when_everything_is_stored() {
        let (page, mut received) = mpsc::channel(8);
        let (kept, mut parts) = mpsc::channel(1);
        let mut out = Out::new(page, kept, CancellationToken::new());
        let failed = Chunk::Error { error_text: "no".into() };
        let finished = Chunk::Finish { finish_reason: FinishReason::Error };
        out.say(failed.clone()).await;
        out.say(finished.clone()).await;
        assert!(received.try_recv().is_err());
        let ending = out.end().await;
        assert_eq!(parts.recv().await.unwrap(), [json!({ "type": FAILED, "data": { "text": "no" } })]);
        assert!(received.try_recv().is_err());
        ending.send(None).await;
        assert_eq!(received.recv().await, Some(failed));
        assert_eq!(received.recv().await, Some(finished));
        assert_eq!(received.recv().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_page_does_not_block_a_cancelled_turn() {
        let (page, mut received) = mpsc::channel(1);
        let cancel = CancellationToken::new();
        let (kept, _parts) = mpsc::channel(128);
        let mut out = Out::new(page, kept, cancel.clone());
        out.say(Chunk::StartStep).await;
        cancel.cancel();
        for _ in 0..100 {
            out.say(Chunk::FinishStep).await;
        }
        assert_eq!(received.recv().await, Some(Chunk::StartStep));
        assert_eq!(received.recv().await, None);
    }

    #[tokio::test]
    async fn a_disconnecting_page_ends_the_turn() {
        let (page, received) = mpsc::channel(1);
        let cancel = CancellationToken::new();
        let (kept, _parts) = mpsc::channel(128);
        let mut out = Out::new(page, kept, cancel.clone());
        drop(received);
        out.say(Chunk::StartStep).await;
        assert!(cancel.is_cancelled());
        assert_eq!(out.parts.stored_parts().len(), 1);
    }
}
