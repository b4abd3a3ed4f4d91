//! Python interpreters that keep their state between runs of code.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;
use futures::stream::BoxStream;
use sandbox_api::context::{Display, RunError, RunStatus};
use sandbox_api::tool::{Tool, ToolAnswer, ToolCall};

pub use sandbox_api::ContextId as InterpreterId;

use super::{Result, SandboxId};

/// Interpreters of a provider's sandboxes.
#[async_trait]
pub trait Interpreters: Send + Sync {
    /// Starts an interpreter in the workspace. Its code can call the tools. If the sandbox has too many interpreters, the
    /// oldest one that runs no code is ended.
    async fn start(&self, sandbox: &SandboxId, tools: &[Tool]) -> Result<InterpreterId>;

    /// Runs code, after code that was interrupted has ended. `None` if the interpreter no longer exists; then nothing has run.
    async fn run_code(
        &self,
        sandbox: &SandboxId,
        interpreter: &InterpreterId,
        code: &str,
        timeout: Duration,
    ) -> Result<Option<RunningCode>>;

    /// Answers a call of a tool. Succeeds if the call is over.
    async fn answer(
        &self,
        sandbox: &SandboxId,
        interpreter: &InterpreterId,
        call: u64,
        answer: ToolAnswer,
    ) -> Result<()>;
}

/// What happens in a run of code.
#[derive(Debug, Clone, PartialEq)]
pub enum CodeEvent {
    /// The code has started.
    Started,
    /// Bytes of standard output.
    Stdout(Bytes),
    /// Bytes of standard error.
    Stderr(Bytes),
    /// Something that the code displayed.
    Display(Display),
    /// Value of the last expression.
    Result(Display),
    /// The error that ended the code.
    Error(RunError),
    /// The code calls a tool, and waits for the answer.
    Call(ToolCall),
    /// The code still runs.
    Heartbeat,
    /// The run has ended. Always the last event.
    Ended(CodeEnd),
}

/// End of a run of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeEnd {
    /// How it ended.
    pub status: RunStatus,
    /// Bytes of output, displays and results that were not kept.
    pub dropped_bytes: u64,
    /// Whether the run began without the state of earlier runs.
    pub restarted: bool,
    /// Whether the next run begins without the state of this one.
    pub state_lost: bool,
}

/// Code that runs: a stream of its events. Dropping it interrupts the code.
pub struct RunningCode(BoxStream<'static, Result<CodeEvent>>);

impl RunningCode {
    /// Creates running code from its events.
    pub fn new(events: BoxStream<'static, Result<CodeEvent>>) -> Self {
        Self(events)
    }
}

impl fmt::Debug for RunningCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningCode").finish_non_exhaustive()
    }
}

impl Stream for RunningCode {
    type Item = Result<CodeEvent>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.as_mut().poll_next(context)
    }
}
