//! A turn without a model: the user's own command.

use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::chunk::{Chunk, FinishReason};
use super::out::Out;
use super::step::abort;
use super::tools::{Runner, run_all};
use crate::model::ToolCall;

/// Runs the command and sends its output.
pub(super) async fn run(runner: &Runner, command: &str, out: &mut Out) {
    out.say(Chunk::StartStep).await;
    let id = format!("call_{}", Uuid::new_v4().simple());
    let input = json!({ "command": command });
    out.say(Chunk::ToolInputAvailable {
        tool_call_id: id.clone(),
        tool_name: "bash".into(),
        input: input.clone(),
        provider_metadata: None,
    })
    .await;
    let call = ToolCall { id, name: "bash".into(), input: Ok(input), opaque: None };
    run_all(runner, &[call], out).await;
    out.say(Chunk::FinishStep).await;
    finish(out, &runner.cancel).await;
}

/// Says how the turn ended.
pub(super) async fn finish(out: &mut Out, cancel: &CancellationToken) {
    match cancel.is_cancelled() {
        true => abort(out).await,
        false => out.say(Chunk::Finish { finish_reason: FinishReason::Stop }).await,
    }
}
