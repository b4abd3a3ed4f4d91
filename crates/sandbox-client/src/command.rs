//! Commands and their streams.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use http::header::ACCEPT;
use http::{Method, Response};
use sandbox_api::command::{
    Command, CommandEnded, CommandKilled, CommandList, CommandRan, CommandStarted, HistoryList, KillCommand,
    Record, RunCommand, StartCommand,
};
use sandbox_api::limits::DEFAULT_COMMAND_TIMEOUT_MS;
use sandbox_api::{CommandId, ErrorCode, NDJSON, SandboxId};
use tokio::time::timeout;

use crate::deadlines::{ACT, LOOK, SILENCE};
use crate::lines::Lines;
use crate::request::{broken, json, send_for_stream};
use crate::{Body, Client, Error};

/// How long one request waits for a command's end before it is repeated.
const WAIT_AT_ONCE: Duration = Duration::from_secs(5 * 60);

impl Client {
    /// Returns the newest commands of a sandbox, newest first. Does not wake the sandbox.
    pub async fn commands(&self, sandbox: &SandboxId, limit: u32) -> Result<CommandList, Error> {
        let path = format!("/v1/sandboxes/{sandbox}/commands");
        json(self.request(Method::GET, &path).query(&[("limit", limit)]), LOOK).await
    }

    /// Returns a page of the commands that have ended, the last one first.
    pub async fn history(&self, sandbox: &SandboxId, cursor: Option<&str>) -> Result<HistoryList, Error> {
        let query: Vec<_> = cursor.map(|cursor| ("cursor", cursor)).into_iter().collect();
        let path = format!("/v1/sandboxes/{sandbox}/history");
        json(self.request(Method::GET, &path).query(&query), LOOK).await
    }

    /// Starts a command. Safe to repeat if the request contains a command id.
    pub async fn start(&self, sandbox: &SandboxId, body: &StartCommand) -> Result<CommandStarted, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/commands"), body), ACT).await
    }

    /// Starts a command and streams its records. Dropping the stream ends the command, unless it is detached. So does
    /// a broken connection. To survive one, start the command and [`follow`](Self::follow) it. Safe to repeat if the
    /// request contains a command id.
    pub async fn run(&self, sandbox: &SandboxId, body: &StartCommand) -> Result<Records, Error> {
        let request = self.post(&format!("/v1/sandboxes/{sandbox}/commands"), body);
        Ok(Records::new(send_for_stream(request.header(ACCEPT, NDJSON)).await?, true))
    }

    /// Runs a command to its end, and returns its output as text for a language model. Dropping the call ends the
    /// command, unless it is detached. Safe to repeat if the request contains a command id.
    pub async fn run_to_end(&self, sandbox: &SandboxId, body: &RunCommand) -> Result<CommandRan, Error> {
        let limit = Duration::from_millis(body.command.timeout_ms.unwrap_or(DEFAULT_COMMAND_TIMEOUT_MS));
        json(self.post(&format!("/v1/sandboxes/{sandbox}/commands:run"), body), limit.saturating_add(ACT))
            .await
    }

    /// Streams the kept records of a command after sequence number `after`. With `follow`, continues with new records
    /// until its end. Safe to repeat.
    pub async fn logs(
        &self,
        sandbox: &SandboxId,
        command: &CommandId,
        after: u64,
        follow: bool,
    ) -> Result<Records, Error> {
        let path = format!("{}/logs?after={after}&follow={follow}", path_of(sandbox, command));
        Ok(Records::new(send_for_stream(self.request(Method::GET, &path)).await?, follow))
    }

    /// Waits until a command ends. Fails with `deadline_exceeded` after `limit`; the command keeps running. Safe to
    /// repeat. Without a limit, it repeats the request by itself.
    pub async fn wait(
        &self,
        sandbox: &SandboxId,
        command: &CommandId,
        limit: Option<Duration>,
    ) -> Result<CommandEnded, Error> {
        if let Some(limit) = limit {
            return self.wait_for(sandbox, command, limit).await;
        }
        loop {
            match self.wait_for(sandbox, command, WAIT_AT_ONCE).await {
                Err(error) if error.code() == Some(ErrorCode::DeadlineExceeded) => {}
                waited => return waited,
            }
        }
    }

    async fn wait_for(
        &self,
        sandbox: &SandboxId,
        command: &CommandId,
        limit: Duration,
    ) -> Result<CommandEnded, Error> {
        let path = format!("{}/wait?timeoutMs={}", path_of(sandbox, command), limit.as_millis());
        json(self.request(Method::GET, &path), limit.saturating_add(ACT)).await
    }

    /// Returns the state of a command. Wakes its sandbox.
    pub async fn inspect(&self, sandbox: &SandboxId, command: &CommandId) -> Result<Command, Error> {
        json(self.request(Method::GET, &path_of(sandbox, command)), ACT).await
    }

    /// Ends a command and returns when no process of it is left, or sends it the given signal. Safe to repeat without
    /// a signal.
    pub async fn kill(
        &self,
        sandbox: &SandboxId,
        command: &CommandId,
        body: &KillCommand,
    ) -> Result<CommandKilled, Error> {
        json(self.post(&format!("{}:kill", path_of(sandbox, command)), body), ACT).await
    }
}

pub(crate) fn path_of(sandbox: &SandboxId, command: &CommandId) -> String {
    format!("/v1/sandboxes/{sandbox}/commands/{command}")
}

/// Records of a command, in order. If the stream breaks off before the command ends, the last item is an error.
pub struct Records {
    body: BoxStream<'static, Result<Bytes, Error>>,
    lines: Lines,
    /// Whether the last record must be the end of the command.
    to_end: bool,
    done: bool,
}

impl Records {
    fn new(response: Response<Body>, to_end: bool) -> Self {
        let body =
            futures::stream::unfold(Box::pin(response.into_body().into_pieces()), |mut body| async move {
                let bytes = match timeout(SILENCE, body.next()).await {
                    Ok(bytes) => bytes?.map_err(broken),
                    Err(_) => Err(Error::Silent { after: SILENCE }),
                };
                Some((bytes, body))
            });
        Self { body: body.boxed(), lines: Lines::default(), to_end, done: false }
    }

    fn finish(&mut self, last: Option<Error>) -> Poll<Option<Result<Record, Error>>> {
        self.done = true;
        Poll::Ready(last.map(Err))
    }
}

impl Stream for Records {
    type Item = Result<Record, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if self.done {
                return Poll::Ready(None);
            }
            match self.lines.next() {
                Err(error) => return self.finish(Some(error)),
                Ok(Some(line)) => match serde_json::from_slice(&line) {
                    Err(error) => return self.finish(Some(Error::BadLine(error))),
                    Ok(record) => {
                        self.done = matches!(record, Record::Exit { .. });
                        return Poll::Ready(Some(Ok(record)));
                    }
                },
                Ok(None) => match std::task::ready!(self.body.as_mut().poll_next(context)) {
                    Some(Ok(bytes)) => self.lines.push(&bytes),
                    Some(Err(error)) => return self.finish(Some(error)),
                    None => {
                        let cut = self.to_end.then_some(Error::Cut);
                        return self.finish(cut);
                    }
                },
            }
        }
    }
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("done", &self.done).finish_non_exhaustive()
    }
}
