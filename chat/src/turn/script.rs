//! A turn without a model: the user's own command.

use bash_tools::gates::Reason;
use bash_tools::tools::Toolkit;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::chunk::{Chunk, FinishReason};
use super::out::Out;
use super::step::abort;
use super::tools::run_all;
use crate::model::ToolCall;

/// Runs the command and sends its output.
pub(super) async fn run(
    tools: &Result<Toolkit, Reason>,
    command: &str,
    out: &mut Out,
    cancel: &CancellationToken,
) {
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
    run_all(tools, &[call], out, cancel).await;
    out.say(Chunk::FinishStep).await;
    match cancel.is_cancelled() {
        true => abort(out).await,
        false => out.say(Chunk::Finish { finish_reason: FinishReason::Stop }).await,
    }
}
