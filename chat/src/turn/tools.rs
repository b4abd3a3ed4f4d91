//! What a model calls for, done.

use bash_tools::gates::Reason;
use bash_tools::tools::{self, Answer, Call, Toolkit};
use futures::{StreamExt, stream};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Chunk, Out};
use crate::model::{ToolCall, ToolResult};

/// Calls that are done at a time; the others wait.
const MAX_AT_ONCE: usize = 8;

/// For a call whose input cannot be used.
pub(super) const BAD_INPUT: &str = "What it was called with is no JSON, or has a key that no tool has.";

/// How ssh says that the connection broke off, and not the command.
const LOST: i64 = 255;

/// Chunks that wait to be told.
const QUEUE: usize = 16;

/// Does all of them, tells what happens, and answers what the model is told: a result for each call, in their order.
pub(super) async fn answer_all(
    tools: &Result<Toolkit, Reason>,
    calls: &[ToolCall],
    out: &mut Out,
    cancel: &CancellationToken,
) -> Vec<ToolResult> {
    let (tell, mut told) = mpsc::channel(QUEUE);
    // The last sender goes with the last answer, and so the telling ends.
    let (tools, cancel) = (tools.clone(), cancel.clone());
    let answers = stream::iter(calls.to_vec())
        .map(move |call| answer(tools.clone(), call, tell.clone(), cancel.clone()))
        .buffered(MAX_AT_ONCE)
        .collect::<Vec<_>>();
    let telling = async {
        while let Some(chunk) = told.recv().await {
            out.say(chunk).await;
        }
    };
    tokio::join!(answers, telling).0
}

async fn answer(
    tools: Result<Toolkit, Reason>,
    call: ToolCall,
    tell: mpsc::Sender<Chunk>,
    cancel: CancellationToken,
) -> ToolResult {
    let answered = match try_answer(&tools, &call, &tell, &cancel).await {
        Ok(output) => Ok(output),
        Err(error) => {
            let failed = Chunk::ToolOutputError { tool_call_id: call.id.clone(), error_text: error.clone() };
            let _ = tell.send(failed).await;
            Err(error)
        }
    };
    let is_error = answered.is_err();
    let content = answered.map_or_else(|error| error, |output| output.to_string());
    ToolResult { call_id: call.id.clone(), content, is_error }
}

async fn try_answer(
    tools: &Result<Toolkit, Reason>,
    call: &ToolCall,
    tell: &mpsc::Sender<Chunk>,
    cancel: &CancellationToken,
) -> Result<Value, String> {
    let input = call.input.clone().map_err(|_| BAD_INPUT.to_owned())?;
    let tools =
        tools.as_ref().map_err(|reason| format!("There are no tools for this chat at present: {reason}."))?;
    let wish = Call::of(&call.name, input).map_err(|error| error.to_string())?;
    let _open = tokio::select! {
        () = cancel.cancelled() => return Err("It was ended before the sandbox was open.".into()),
        // A page that is behind is not told of every step, which is replaced by the next.
        open = tools.open(|state| drop(tell.try_send(Chunk::opening(state)))) => open.map_err(|error| error.to_string())?,
    };
    let mut answers = Box::pin(tools.call(wish, cancel.clone()));
    let mut last = Value::Null;
    loop {
        let answer = tokio::select! {
            biased;
            answer = answers.next() => answer,
            // A command ends by itself where it is cancelled, and tells its end.
            () = cancel.cancelled(), if call.name != "bash" => return Err("It was ended before it answered.".into()),
        };
        let Some(answer) = answer else { return Ok(last) };
        let preliminary = match answer {
            Ok(answer) => {
                last = output_of(&answer);
                answer.is_preliminary()
            }
            Err(error) if last.is_null() => return Err(error.to_string()),
            Err(error) => {
                break_off(&mut last, &error);
                false
            }
        };
        let output =
            Chunk::ToolOutputAvailable { tool_call_id: call.id.clone(), output: last.clone(), preliminary };
        let _ = tell.send(output).await;
    }
}

/// What a command wrote so far, with why there is no more of it.
fn break_off(output: &mut Value, error: &tools::Error) {
    let said = output["stderr"].as_str().unwrap_or_default();
    let between = if said.is_empty() || said.ends_with('\n') { "" } else { "\n" };
    output["stderr"] =
        format!("{said}{between}[broken off: {error}. The command may still be running.]\n").into();
    output["exitCode"] = LOST.into();
}

fn output_of(answer: &Answer) -> Value {
    serde_json::to_value(answer).expect("answers are maps of text and numbers, which JSON has")
}
