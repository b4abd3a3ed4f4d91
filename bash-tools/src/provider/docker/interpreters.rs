//! Interpreters of sandboxd: contexts of the language Python.

use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use sandbox_api::ErrorCode;
use sandbox_api::context::{Context, Language, OpenContext, RunCode, RunRecord};
use sandbox_api::tool::{Tool, ToolAnswer};
use sandbox_client::Client;
use tokio::time::{Instant, sleep};

use super::commands::bytes;
use super::{Docker, fault, id};
use crate::provider::{
    CodeEnd, CodeEvent, Error, InterpreterId, Interpreters, Result, RunningCode, SandboxId,
};

/// Time in which code that was interrupted ends, or its interpreter (`docs/interpreters.md`).
const INTERRUPTED_WAIT: Duration = Duration::from_secs(10);

/// Pause between two attempts to run code until then.
const INTERRUPTED_PAUSE: Duration = Duration::from_millis(20);

#[async_trait]
impl Interpreters for Docker {
    async fn start(&self, sandbox: &SandboxId, tools: &[Tool]) -> Result<InterpreterId> {
        let started = self.open_context(sandbox, tools).await;
        match started {
            Err(Error::Busy { .. }) if self.close_oldest(sandbox).await? => {
                self.open_context(sandbox, tools).await
            }
            started => started,
        }
    }

    async fn run_code(
        &self,
        sandbox: &SandboxId,
        interpreter: &InterpreterId,
        code: &str,
        timeout: Duration,
    ) -> Result<Option<RunningCode>> {
        let id = &id(sandbox)?;
        let timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX));
        let request = &RunCode { timeout_ms, ..RunCode::new(code) };
        let run = |client: Client| async move { client.run_code(id, interpreter, request).await };
        let deadline = Instant::now() + INTERRUPTED_WAIT;
        loop {
            match self.subjects.call(sandbox.subject(), run).await {
                Ok(records) => {
                    let events = records.map(|record| event(record.map_err(fault)?));
                    return Ok(Some(RunningCode::new(events.boxed())));
                }
                Err(error) if is_without_context(&error) => return Ok(None),
                Err(error) if is_running_other_code(&error) && Instant::now() < deadline => {
                    sleep(INTERRUPTED_PAUSE).await;
                }
                Err(error) => return Err(fault(error)),
            }
        }
    }

    async fn answer(
        &self,
        sandbox: &SandboxId,
        interpreter: &InterpreterId,
        call: u64,
        answer: ToolAnswer,
    ) -> Result<()> {
        let (id, answer) = (&id(sandbox)?, &answer);
        let send =
            |client: Client| async move { client.answer_tool_call(id, interpreter, call, answer).await };
        match self.subjects.call(sandbox.subject(), send).await {
            Ok(_) => Ok(()),
            Err(error) if is_over(&error) => Ok(()),
            Err(error) => Err(fault(error)),
        }
    }
}

impl Docker {
    async fn open_context(&self, sandbox: &SandboxId, tools: &[Tool]) -> Result<InterpreterId> {
        let id = &id(sandbox)?;
        let request = &OpenContext { tools: tools.to_vec(), ..OpenContext::new(Language::Python) };
        let open = |client: Client| async move { client.open_context(id, request).await };
        let opened = self.subjects.call(sandbox.subject(), open).await.map_err(fault)?;
        Ok(opened.context_id)
    }

    /// Ends the oldest Python interpreter that runs no code. Apps that were restarted have left it.
    async fn close_oldest(&self, sandbox: &SandboxId) -> Result<bool> {
        let id = &id(sandbox)?;
        let list = |client: Client| async move { client.contexts(id).await };
        let contexts = self.subjects.call(sandbox.subject(), list).await.map_err(fault)?.contexts;
        let is_idle = |context: &&Context| context.language == Language::Python && !context.running;
        let Some(oldest) = contexts.iter().find(is_idle) else { return Ok(false) };
        let oldest = &oldest.context_id;
        let close = |client: Client| async move { client.close_context(id, oldest).await };
        match self.subjects.call(sandbox.subject(), close).await {
            Ok(_) => Ok(true),
            Err(error) if is_without_context(&error) => Ok(true),
            Err(error) => Err(fault(error)),
        }
    }
}

fn is_without_context(error: &sandbox_client::Error) -> bool {
    let resource = error.body().and_then(|body| body.details.get("resource"));
    error.code() == Some(ErrorCode::NotFound) && resource.is_some_and(|resource| resource == "context")
}

/// Whether the code before was interrupted and has not ended yet. Code of one app never runs at the same time.
fn is_running_other_code(error: &sandbox_client::Error) -> bool {
    error.code() == Some(ErrorCode::WrongState)
}

/// Whether the call is over: its time, its run, or its interpreter. An answer that does not match its schema ends the call too,
/// with an error for the code.
fn is_over(error: &sandbox_client::Error) -> bool {
    matches!(error.code(), Some(ErrorCode::WrongState | ErrorCode::NotFound | ErrorCode::InvalidRequest))
}

fn event(record: RunRecord) -> Result<CodeEvent> {
    Ok(match record {
        RunRecord::Start { .. } => CodeEvent::Started,
        RunRecord::Stdout(output) => CodeEvent::Stdout(bytes(output)?),
        RunRecord::Stderr(output) => CodeEvent::Stderr(bytes(output)?),
        RunRecord::Result(display) => CodeEvent::Result(display),
        RunRecord::Display(display) => CodeEvent::Display(display),
        RunRecord::Error(error) => CodeEvent::Error(error),
        RunRecord::ToolCall(call) => CodeEvent::Call(call),
        RunRecord::Heartbeat => CodeEvent::Heartbeat,
        RunRecord::End { status, dropped_bytes, restarted, state_lost, .. } => {
            CodeEvent::Ended(CodeEnd { status, dropped_bytes, restarted, state_lost })
        }
    })
}
