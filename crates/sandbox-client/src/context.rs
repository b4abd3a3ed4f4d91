//! Contexts, and the streams of their runs.

use http::Method;
use sandbox_api::context::{
    Context, ContextInterrupted, ContextList, ContextOpened, OpenContext, RunCode, RunRecord,
};
use sandbox_api::tool::ToolAnswer;
use sandbox_api::{ContextId, Done, SandboxId};

use crate::deadlines::{ACT, FETCH, UNLIMITED};
use crate::records::RecordStream;
use crate::request::{json, send};
use crate::{Client, Error};

/// Maximum length of a line: the largest record of a run, with every byte escaped.
const MAX_RECORD_LINE_BYTES: usize = 32 * 1024 * 1024;

impl Client {
    /// Opens a context. Not safe to repeat: each call opens one.
    pub async fn open_context(
        &self,
        sandbox: &SandboxId,
        body: &OpenContext,
    ) -> Result<ContextOpened, Error> {
        let limit = if body.packages.is_some() { FETCH } else { ACT };
        json(self.post(&format!("/v1/sandboxes/{sandbox}/contexts"), body), limit).await
    }

    /// Returns the contexts of a sandbox, oldest first.
    pub async fn contexts(&self, sandbox: &SandboxId) -> Result<ContextList, Error> {
        json(self.request(Method::GET, &format!("/v1/sandboxes/{sandbox}/contexts")), ACT).await
    }

    /// Returns a context.
    pub async fn context(&self, sandbox: &SandboxId, context: &ContextId) -> Result<Context, Error> {
        json(self.request(Method::GET, &path_of(sandbox, context)), ACT).await
    }

    /// Runs code in a context. Not safe to repeat. Dropping the records interrupts the run.
    pub async fn run_code(
        &self,
        sandbox: &SandboxId,
        context: &ContextId,
        body: &RunCode,
    ) -> Result<RunRecords, Error> {
        let request = self.post(&format!("{}:run", path_of(sandbox, context)), body);
        let response = send(request, UNLIMITED).await?;
        let records = RecordStream::new(response, |record| matches!(record, RunRecord::End { .. }));
        Ok(records.with_lines(MAX_RECORD_LINE_BYTES))
    }

    /// Answers a call of a tool by code that this client runs. Not safe to repeat: the second time, the call is over.
    pub async fn answer_tool_call(
        &self,
        sandbox: &SandboxId,
        context: &ContextId,
        call: u64,
        answer: &ToolAnswer,
    ) -> Result<Done, Error> {
        let path = format!("{}/toolCalls/{call}", path_of(sandbox, context));
        json(self.post(&path, answer), ACT).await
    }

    /// Interrupts the code that runs in a context. Safe to repeat.
    pub async fn interrupt_context(
        &self,
        sandbox: &SandboxId,
        context: &ContextId,
    ) -> Result<ContextInterrupted, Error> {
        json(self.request(Method::POST, &format!("{}:interrupt", path_of(sandbox, context))), ACT).await
    }

    /// Starts a new interpreter in a context. Its state is lost.
    pub async fn restart_context(&self, sandbox: &SandboxId, context: &ContextId) -> Result<Done, Error> {
        json(self.request(Method::POST, &format!("{}:restart", path_of(sandbox, context))), ACT).await
    }

    /// Ends a context with everything started from it, and removes it.
    pub async fn close_context(&self, sandbox: &SandboxId, context: &ContextId) -> Result<Done, Error> {
        json(self.request(Method::DELETE, &path_of(sandbox, context)), ACT).await
    }
}

fn path_of(sandbox: &SandboxId, context: &ContextId) -> String {
    format!("/v1/sandboxes/{sandbox}/contexts/{context}")
}

/// Records of a run in order. The last one is [`RunRecord::End`].
pub type RunRecords = RecordStream<RunRecord>;
