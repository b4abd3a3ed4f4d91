//! Contexts, and the streams of their runs.

use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, ready};

use bytes::Bytes;
use futures::Stream;
use futures::stream::BoxStream;
use http::Method;
use sandbox_api::context::{
    Context, ContextInterrupted, ContextList, ContextOpened, OpenContext, RunCode, RunRecord,
};
use sandbox_api::{ContextId, Done, SandboxId};

use crate::deadlines::{ACT, UNLIMITED};
use crate::lines::Lines;
use crate::request::{broken, json, send};
use crate::{BoxError, Client, Error};

/// Maximum length of a line: the largest record of a run, with every byte escaped.
const MAX_RECORD_LINE_BYTES: usize = 32 * 1024 * 1024;

impl Client {
    /// Opens a context. Not safe to repeat: each call opens one.
    pub async fn open_context(
        &self,
        sandbox: &SandboxId,
        body: &OpenContext,
    ) -> Result<ContextOpened, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/contexts"), body), ACT).await
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
        let body = Box::pin(send(request, UNLIMITED).await?.into_body().into_pieces());
        Ok(RunRecords { body, lines: Lines::with_limit(MAX_RECORD_LINE_BYTES), done: false })
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

/// Records of a run in order. The last one is [`RunRecord::End`]. A stream that ends without it returns an error.
pub struct RunRecords {
    body: BoxStream<'static, Result<Bytes, BoxError>>,
    lines: Lines,
    done: bool,
}

impl RunRecords {
    fn finish(&mut self, last: Error) -> Poll<Option<Result<RunRecord, Error>>> {
        self.done = true;
        Poll::Ready(Some(Err(last)))
    }
}

impl Stream for RunRecords {
    type Item = Result<RunRecord, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Option<Self::Item>> {
        while !self.done {
            match self.lines.next() {
                Err(error) => return self.finish(error),
                Ok(Some(line)) => match serde_json::from_slice(&line) {
                    Err(error) => return self.finish(Error::BadLine(error)),
                    Ok(record) => {
                        self.done = matches!(record, RunRecord::End { .. });
                        return Poll::Ready(Some(Ok(record)));
                    }
                },
                Ok(None) => match ready!(self.body.as_mut().poll_next(context)) {
                    Some(Ok(bytes)) => self.lines.push(&bytes),
                    Some(Err(error)) => return self.finish(broken(error)),
                    None => return self.finish(Error::Cut),
                },
            }
        }
        Poll::Ready(None)
    }
}

impl std::fmt::Debug for RunRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunRecords").field("done", &self.done).finish_non_exhaustive()
    }
}
