//! Runs the tools that a model calls.

use std::time::Duration;

use bash_tools::gates::Reason;
use bash_tools::session::Lease;
use bash_tools::tools::{self, Answer, Call, Tool, Toolkit};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::history::for_model;
use super::resumed::command_id;
use super::{Chunk, Out};
use crate::model::{ToolCall, ToolResult};

/// Maximum number of calls that run at a time. The others wait.
const MAX_PARALLEL_CALLS: usize = 8;

/// Error of a call with an invalid input.
pub(super) const BAD_INPUT: &str = "The input of the call is not JSON, or has a key that no tool has.";

/// Result of code that ran when the app ended. It does not continue without the app.
const CODE_LOST: &str =
    "The chat server restarted while this code ran. Its result is lost, and it was not run again.";

/// Result of a file that was written when the app ended. Something else may have changed it since.
const WRITE_LOST: &str =
    "The chat server restarted while this file was written. It may be written, and it was not written again.";

/// Error of calls that are not stored before they begin.
const NOT_STORED: &str = "The call could not be recorded, so it was not run: the chat's disk may be full.";

/// How long a call that has begun waits for its sandbox after a restart. sandboxd may start later than the app.
const RESUME: Duration = Duration::from_secs(5 * 60);

/// The same for one that is only to be ended.
const RESUME_CANCELLED: Duration = Duration::from_secs(10);

/// Pause between attempts to reach it.
const RESUME_PAUSE: Duration = Duration::from_millis(500);

/// Exit code of ssh for a broken connection, in contrast to the command's own.
const LOST: i64 = 255;

/// Maximum number of chunks that wait to be sent.
const QUEUE: usize = 16;

/// How calls are run.
#[derive(Debug, Clone)]
pub(super) struct Runner {
    pub(super) tools: Result<Toolkit, Reason>,
    /// Id of the turn, if its commands continue without the app.
    pub(super) kept_turn: Option<String>,
    /// Whether an earlier instance of the app has begun the calls.
    pub(super) has_begun: bool,
    pub(super) cancel: CancellationToken,
}

/// Runs all calls and sends their progress. Returns the result of each call for the model, in order.
pub(super) async fn run_all(runner: &Runner, calls: &[ToolCall], out: &mut Out) -> Vec<ToolResult> {
    let is_kept = runner.kept_turn.is_some() && !calls.is_empty();
    if is_kept && !runner.has_begun && !out.store_calls().await {
        return refuse_all(calls, out).await;
    }
    let (chunks, mut received) = mpsc::channel(QUEUE);
    // The last sender is dropped with the last result, which ends the loop.
    let (runner, mut left) = (runner.clone(), calls.len());
    let answers = stream::iter(calls.to_vec())
        .map(move |call| run_call(runner.clone(), call, chunks.clone()))
        .buffered(MAX_PARALLEL_CALLS)
        .collect::<Vec<_>>();
    let sending = async {
        while let Some(chunk) = received.recv().await {
            let is_last = is_result(&chunk);
            out.say(chunk).await;
            // The last one is stored with the end of the step.
            left = left.saturating_sub(usize::from(is_last));
            if is_last && is_kept && left > 0 {
                out.store_result().await;
            }
        }
    };
    tokio::join!(answers, sending).0
}

/// Whether no other value of the call follows.
fn is_result(chunk: &Chunk) -> bool {
    matches!(chunk, Chunk::ToolOutputAvailable { preliminary: false, .. } | Chunk::ToolOutputError { .. })
}

async fn refuse_all(calls: &[ToolCall], out: &mut Out) -> Vec<ToolResult> {
    for call in calls {
        let error_text = NOT_STORED.to_owned();
        out.say(Chunk::ToolOutputError { tool_call_id: call.id.clone(), error_text }).await;
    }
    let refused = |call: &ToolCall| {
        let content = NOT_STORED.to_owned();
        ToolResult { call_id: call.id.clone(), content, is_error: true }
    };
    calls.iter().map(refused).collect()
}

async fn run_call(runner: Runner, call: ToolCall, chunks: mpsc::Sender<Chunk>) -> ToolResult {
    let answered = match try_call(&runner, &call, &chunks).await {
        Ok(output) => Ok(output),
        Err(error) => {
            let failed = Chunk::ToolOutputError { tool_call_id: call.id.clone(), error_text: error.clone() };
            let _ = chunks.send(failed).await;
            Err(error)
        }
    };
    let is_error = answered.is_err();
    let content = answered.map_or_else(|error| error, |output| for_model(&call.name, &output));
    ToolResult { call_id: call.id.clone(), content, is_error }
}

async fn try_call(runner: &Runner, call: &ToolCall, chunks: &mpsc::Sender<Chunk>) -> Result<Value, String> {
    let input = call.input.clone().map_err(|_| BAD_INPUT.to_owned())?;
    let no_tools = |reason: &Reason| format!("There are no tools for this chat at present: {reason}.");
    let (tools, cancel) = (runner.tools.as_ref().map_err(no_tools)?, &runner.cancel);
    let parsed = Call::of(&call.name, input).map_err(|error| error.to_string())?;
    match parsed.tool() {
        Tool::Python if runner.has_begun => return Err(CODE_LOST.into()),
        Tool::WriteFile if runner.has_begun => return Err(WRITE_LOST.into()),
        _ => {}
    }
    let _open = tokio::select! {
        biased;
        // What has begun must be ended, so its sandbox is needed all the same.
        () = cancel.cancelled(), if !runner.has_begun => {
            return Err("The call ended before the sandbox was open.".into());
        }
        open = runner.open(tools, chunks) => open.map_err(|error| error.to_string())?,
    };
    let reports_its_end = matches!(parsed.tool(), Tool::Bash | Tool::Python);
    let mut answers = runner.answers(tools, parsed, &call.id);
    let mut last = Value::Null;
    loop {
        let value = tokio::select! {
            biased;
            value = answers.next() => value,
            // A cancelled command or code ends by itself, and reports its end.
            () = cancel.cancelled(), if !reports_its_end => return Err("The call ended before it returned a result.".into()),
        };
        let Some(value) = value else { return Ok(last) };
        let preliminary = match value {
            Ok(value) => {
                last = output_of(&value);
                value.is_preliminary()
            }
            Err(error) if last.is_null() => return Err(error.to_string()),
            Err(error) => {
                mark_incomplete(&mut last, &error);
                false
            }
        };
        let output =
            Chunk::ToolOutputAvailable { tool_call_id: call.id.clone(), output: last.clone(), preliminary };
        let _ = chunks.send(output).await;
    }
}

impl Runner {
    /// Opens the sandbox. A call that has begun waits for it.
    async fn open(&self, tools: &Toolkit, chunks: &mpsc::Sender<Chunk>) -> tools::Result<Lease> {
        let ends_at = Instant::now() + RESUME;
        let may_wait = || match self.cancel.is_cancelled() {
            true => Instant::now() + RESUME < ends_at + RESUME_CANCELLED,
            false => Instant::now() < ends_at,
        };
        loop {
            // A slow page does not get every value, because the next one replaces it.
            let open = tools.open(|state| drop(chunks.try_send(Chunk::opening(state)))).await;
            match open {
                Err(error) if self.has_begun && error.is_temporary() && may_wait() => {
                    sleep(RESUME_PAUSE).await;
                }
                open => return open,
            }
        }
    }

    /// Runs the call. The command of one that has begun is followed. Calls that only read are repeated.
    fn answers(&self, tools: &Toolkit, call: Call, id: &str) -> BoxStream<'static, tools::Result<Answer>> {
        let cancel = self.cancel.clone();
        let kept_as = self.kept_turn.as_deref().and_then(|turn| command_id(turn, id));
        match (call, kept_as) {
            (Call::Bash(input), Some(id)) if self.has_begun => {
                tools.follow(id, input, cancel).map(|output| output.map(Answer::Bash)).boxed()
            }
            (call, Some(id)) => tools.keeping(id).call(call, cancel).boxed(),
            (call, None) => tools.call(call, cancel).boxed(),
        }
    }
}

/// Adds to the output of a command or of code why it is incomplete.
fn mark_incomplete(output: &mut Value, error: &tools::Error) {
    let stderr = output["stderr"].as_str().unwrap_or_default();
    let between = if stderr.is_empty() || stderr.ends_with('\n') { "" } else { "\n" };
    output["stderr"] =
        format!("{stderr}{between}[broken off: {error}. The command may still be running.]\n").into();
    match output.get("status") {
        Some(_) => output["status"] = "lost".into(),
        None => output["exitCode"] = LOST.into(),
    }
}

fn output_of(answer: &Answer) -> Value {
    serde_json::to_value(answer).expect("answers are maps of text and numbers, which JSON has")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Live;
    use super::*;

    #[tokio::test]
    async fn calls_begin_only_when_they_are_stored() {
        let call = ToolCall {
            id: "a".into(),
            name: "bash".into(),
            input: Ok(json!({ "command": "ls" })),
            opaque: None,
        };
        let runner = Runner {
            tools: Err(Reason::NotConfigured),
            kept_turn: Some("turn".into()),
            has_begun: false,
            cancel: CancellationToken::new(),
        };
        for (is_stored, expected) in [(false, NOT_STORED), (true, "There are no tools")] {
            let (kept, mut versions) = mpsc::channel(1);
            let mut out = Out::new(Live::default().speaker(), kept);
            out.say(Chunk::ToolInputAvailable {
                tool_call_id: "a".into(),
                tool_name: "bash".into(),
                input: json!({ "command": "ls" }),
                provider_metadata: None,
            })
            .await;
            let storing = async {
                let version = versions.recv().await.unwrap();
                assert_eq!(version.pending.unwrap(), ["a"]);
                version.stored.unwrap().send(is_stored).unwrap();
            };
            let calls = [call.clone()];
            let (results, ()) = tokio::join!(run_all(&runner, &calls, &mut out), storing);
            assert!(results[0].is_error && results[0].content.starts_with(expected), "{results:?}");
        }
    }
}
