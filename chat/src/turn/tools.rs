//! Runs the tools that a model calls.

use bash_tools::gates::Reason;
use bash_tools::tools::{self, Answer, Call, Tool, Toolkit};
use futures::{StreamExt, stream};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::history::for_model;
use super::{Chunk, Out};
use crate::model::{ToolCall, ToolResult};

/// Maximum number of calls that run at a time. The others wait.
const MAX_PARALLEL_CALLS: usize = 8;

/// Error of a call with an invalid input.
pub(super) const BAD_INPUT: &str = "The input of the call is not JSON, or has a key that no tool has.";

/// Exit code of ssh for a broken connection, in contrast to the command's own.
const LOST: i64 = 255;

/// Maximum number of chunks that wait to be sent.
const QUEUE: usize = 16;

/// Runs all calls and sends their progress. Returns the result of each call for the model, in order.
pub(super) async fn run_all(
    tools: &Result<Toolkit, Reason>,
    calls: &[ToolCall],
    out: &mut Out,
    cancel: &CancellationToken,
) -> Vec<ToolResult> {
    let (chunks, mut received) = mpsc::channel(QUEUE);
    // The last sender is dropped with the last result, which ends the loop.
    let (tools, cancel) = (tools.clone(), cancel.clone());
    let answers = stream::iter(calls.to_vec())
        .map(move |call| run_call(tools.clone(), call, chunks.clone(), cancel.clone()))
        .buffered(MAX_PARALLEL_CALLS)
        .collect::<Vec<_>>();
    let sending = async {
        while let Some(chunk) = received.recv().await {
            out.say(chunk).await;
        }
    };
    tokio::join!(answers, sending).0
}

async fn run_call(
    tools: Result<Toolkit, Reason>,
    call: ToolCall,
    chunks: mpsc::Sender<Chunk>,
    cancel: CancellationToken,
) -> ToolResult {
    let answered = match try_call(&tools, &call, &chunks, &cancel).await {
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

async fn try_call(
    tools: &Result<Toolkit, Reason>,
    call: &ToolCall,
    chunks: &mpsc::Sender<Chunk>,
    cancel: &CancellationToken,
) -> Result<Value, String> {
    let input = call.input.clone().map_err(|_| BAD_INPUT.to_owned())?;
    let tools =
        tools.as_ref().map_err(|reason| format!("There are no tools for this chat at present: {reason}."))?;
    let parsed = Call::of(&call.name, input).map_err(|error| error.to_string())?;
    let _open = tokio::select! {
        () = cancel.cancelled() => return Err("The call ended before the sandbox was open.".into()),
        // A slow page does not get every value, because the next one replaces it.
        open = tools.open(|state| drop(chunks.try_send(Chunk::opening(state)))) => open.map_err(|error| error.to_string())?,
    };
    let reports_its_end = matches!(parsed.tool(), Tool::Bash | Tool::Python);
    let mut answers = Box::pin(tools.call(parsed, cancel.clone()));
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
