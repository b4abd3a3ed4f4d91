//! Where a turn's chunks go: to the page, and into what is kept of the answer.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Chunk;

/// The part of an answer that says why it ended before its end.
const FAILED: &str = "data-failed";

/// What a part takes besides its text, about.
const PART_BYTES: usize = 256;

/// How long a page may take to hear the rest of a turn that was ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The way to one page, and to what is kept of the answer: after each step and at its end, so that whoever stops the app loses no
/// step that was done. A page that is gone ends the turn and is told nothing more; what is kept goes on. How the turn ended is
/// told last of all, by [`Ending`]: pages ask again as soon as they hear it.
#[derive(Debug)]
pub struct Out {
    page: Page,
    kept: mpsc::Sender<Vec<Value>>,
    parts: Parts,
    /// How long what was kept last is.
    kept_bytes: usize,
    /// What is told when all is kept.
    ending: Vec<Chunk>,
}

/// How a turn ended, for its page.
#[derive(Debug)]
#[must_use]
pub struct Ending {
    page: Page,
    chunks: Vec<Chunk>,
}

#[derive(Debug)]
struct Page {
    /// None that is gone.
    chunks: Option<mpsc::Sender<Chunk>>,
    cancel: CancellationToken,
}

impl Out {
    /// To a page, and to whoever keeps the answer's parts, for a turn that `cancel` ends.
    pub fn new(page: mpsc::Sender<Chunk>, kept: mpsc::Sender<Vec<Value>>, cancel: CancellationToken) -> Self {
        let page = Page { chunks: Some(page), cancel };
        Self { page, kept, parts: Parts::default(), kept_bytes: 0, ending: Vec::new() }
    }

    /// Tells it, and waits where the page is slow, but not long in a turn that was ended.
    pub async fn say(&mut self, chunk: Chunk) {
        self.parts.note(&chunk);
        if chunk == Chunk::FinishStep {
            self.keep().await;
        }
        match chunk {
            Chunk::Error { .. } | Chunk::Abort { .. } | Chunk::Finish { .. } => self.ending.push(chunk),
            _ => self.page.tell(chunk).await,
        }
    }

    /// How long that is so far, in bytes of text.
    pub fn kept_bytes(&self) -> usize {
        self.parts.bytes
    }

    /// Has all of it kept.
    pub async fn end(mut self) -> Ending {
        self.keep().await;
        Ending { page: self.page, chunks: self.ending }
    }

    async fn keep(&mut self) {
        // All that is added has a length.
        if self.kept_bytes != self.parts.bytes {
            self.kept_bytes = self.parts.bytes;
            let _ = self.kept.send(self.parts.whole()).await;
        }
    }
}

impl Ending {
    /// Tells it, after what else is to be told.
    pub async fn tell(mut self, before: Option<Chunk>) {
        for chunk in before.into_iter().chain(self.chunks) {
            self.page.tell(chunk).await;
        }
    }
}

impl Page {
    async fn tell(&mut self, chunk: Chunk) {
        let Some(chunks) = &self.chunks else { return };
        let too_late = async {
            self.cancel.cancelled().await;
            sleep(LAST_WORDS).await;
        };
        let is_told = tokio::select! {
            biased;
            sent = chunks.send(chunk) => sent.is_ok(),
            () = too_late => false,
        };
        if !is_told {
            self.chunks = None;
            self.cancel.cancel();
        }
    }
}

/// The parts of an answer, as the AI SDK's pages have them.
#[derive(Debug, Default)]
pub struct Parts {
    list: Vec<Map<String, Value>>,
    /// Of what was said and of what tools were called with and answered, without what stands around it.
    bytes: usize,
}

impl Parts {
    fn note(&mut self, chunk: &Chunk) {
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
            // What is not final is not kept: a page would show it at work for ever.
            Chunk::ToolOutputAvailable { tool_call_id, output, preliminary: false } => {
                if let Some(part) = self.find("toolCallId", tool_call_id) {
                    part.insert("state".into(), "output-available".into());
                    part.insert("output".into(), output.clone());
                }
            }
            Chunk::ToolOutputError { tool_call_id, error_text } => self.fail(tool_call_id, error_text),
            // Without it what broke off would look complete when it is read again.
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

    /// Without what only the stream needs. A tool that never answered is told as failed.
    fn whole(&self) -> Vec<Value> {
        let whole = |part: &Map<String, Value>| {
            let mut part = part.clone();
            part.remove("id");
            if part.get("state").is_some_and(|state| state == "input-available") {
                part.insert("state".into(), "output-error".into());
                part.insert("errorText".into(), "It was ended before it answered.".into());
            }
            Value::Object(part)
        };
        self.list.iter().map(whole).collect()
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
    async fn what_is_kept_is_what_was_told() {
        let (page, mut told) = mpsc::channel(64);
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
        told.close();
        while told.recv().await.is_some() {}
        let expected = json!([
            { "type": "step-start" },
            { "type": "text", "text": "hey" },
            { "type": "tool-bash", "toolCallId": "a", "state": "output-available", "input": { "command": "ls" }, "output": { "exitCode": 0 } },
            { "type": "tool-bash", "toolCallId": "b", "state": "output-error", "input": { "command": "ls" },
              "errorText": "It was ended before it answered." },
        ]);
        assert_eq!(Value::from(parts.recv().await.unwrap()), expected);
        let _ = out.end().await;
        assert_eq!(parts.recv().await, None, "it is kept already");
    }

    #[tokio::test]
    async fn a_page_hears_of_the_end_when_all_is_kept() {
        let (page, mut told) = mpsc::channel(8);
        let (kept, mut parts) = mpsc::channel(1);
        let mut out = Out::new(page, kept, CancellationToken::new());
        let failed = Chunk::Error { error_text: "no".into() };
        let finished = Chunk::Finish { finish_reason: FinishReason::Error };
        out.say(failed.clone()).await;
        out.say(finished.clone()).await;
        assert!(told.try_recv().is_err());
        let ending = out.end().await;
        assert_eq!(parts.recv().await.unwrap(), [json!({ "type": FAILED, "data": { "text": "no" } })]);
        assert!(told.try_recv().is_err());
        ending.tell(None).await;
        assert_eq!(told.recv().await, Some(failed));
        assert_eq!(told.recv().await, Some(finished));
        assert_eq!(told.recv().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_reads_no_more_does_not_hold_a_turn_that_was_ended() {
        let (page, mut told) = mpsc::channel(1);
        let cancel = CancellationToken::new();
        let (kept, _parts) = mpsc::channel(128);
        let mut out = Out::new(page, kept, cancel.clone());
        out.say(Chunk::StartStep).await;
        cancel.cancel();
        for _ in 0..100 {
            out.say(Chunk::FinishStep).await;
        }
        assert_eq!(told.recv().await, Some(Chunk::StartStep));
        assert_eq!(told.recv().await, None);
    }

    #[tokio::test]
    async fn a_page_that_leaves_ends_the_turn() {
        let (page, told) = mpsc::channel(1);
        let cancel = CancellationToken::new();
        let (kept, _parts) = mpsc::channel(128);
        let mut out = Out::new(page, kept, cancel.clone());
        drop(told);
        out.say(Chunk::StartStep).await;
        assert!(cancel.is_cancelled());
        assert_eq!(out.parts.whole().len(), 1);
    }
}
