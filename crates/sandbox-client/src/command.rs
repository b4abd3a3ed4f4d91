//! Commands and their streams.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::stream::BoxStream;
use reqwest::Method;
use reqwest::header::ACCEPT;
use sandbox_api::command::{
    Command, CommandEnded, CommandKilled, CommandList, CommandStarted, KillCommand, Record, StartCommand,
};
use sandbox_api::{CommandId, NDJSON, SandboxId};

use crate::lines::Lines;
use crate::{ACT, Client, Error, LOOK, UNLIMITED, json, send};

impl Client {
    /// The newest commands of a sandbox, the newest first. Does not wake it.
    pub async fn commands(&self, sandbox: &SandboxId, limit: u32) -> Result<CommandList, Error> {
        let path = format!("/v1/sandboxes/{sandbox}/commands");
        json(self.request(Method::GET, &path).query(&[("limit", limit)]), LOOK).await
    }

    /// Starts a command. Safe to repeat where the wish names the command's id.
    pub async fn start(&self, sandbox: &SandboxId, wish: &StartCommand) -> Result<CommandStarted, Error> {
        json(self.post(&format!("/v1/sandboxes/{sandbox}/commands"), wish), ACT).await
    }

    /// Starts a command and streams it. Dropping the stream ends the command unless it is detached.
    pub async fn run(&self, sandbox: &SandboxId, wish: &StartCommand) -> Result<Records, Error> {
        let request = self.post(&format!("/v1/sandboxes/{sandbox}/commands"), wish);
        Ok(Records::new(send(request.header(ACCEPT, NDJSON), UNLIMITED).await?, true))
    }

    /// Streams what is kept of a command after record `after`, and with `follow` what comes until its end.
    pub async fn logs(
        &self,
        sandbox: &SandboxId,
        command: &CommandId,
        after: u64,
        follow: bool,
    ) -> Result<Records, Error> {
        let path = format!("{}/logs?after={after}&follow={follow}", path_of(sandbox, command));
        Ok(Records::new(send(self.request(Method::GET, &path), UNLIMITED).await?, follow))
    }

    /// Waits for a command's end; fails with `deadline_exceeded` after `limit`, and the command goes on.
    pub async fn wait(
        &self,
        sandbox: &SandboxId,
        command: &CommandId,
        limit: Option<Duration>,
    ) -> Result<CommandEnded, Error> {
        let query = limit.map_or(String::new(), |limit| format!("?timeoutMs={}", limit.as_millis()));
        let request = self.request(Method::GET, &format!("{}/wait{query}", path_of(sandbox, command)));
        json(request, UNLIMITED).await
    }

    /// What is known of a command. Wakes its sandbox.
    pub async fn inspect(&self, sandbox: &SandboxId, command: &CommandId) -> Result<Command, Error> {
        json(self.request(Method::GET, &path_of(sandbox, command)), ACT).await
    }

    /// Ends a command and answers when nothing of it is left, or sends it the signal that is named. Safe
    /// to repeat without a signal.
    pub async fn kill(
        &self,
        sandbox: &SandboxId,
        command: &CommandId,
        wish: &KillCommand,
    ) -> Result<CommandKilled, Error> {
        json(self.post(&format!("{}:kill", path_of(sandbox, command)), wish), ACT).await
    }
}

fn path_of(sandbox: &SandboxId, command: &CommandId) -> String {
    format!("/v1/sandboxes/{sandbox}/commands/{command}")
}

/// A command's records, in order. A stream that breaks off before the command's end says so.
pub struct Records {
    body: BoxStream<'static, reqwest::Result<Bytes>>,
    lines: Lines,
    /// Whether the last record must be the command's end.
    to_end: bool,
    done: bool,
}

impl Records {
    fn new(response: reqwest::Response, to_end: bool) -> Self {
        Self { body: Box::pin(response.bytes_stream()), lines: Lines::default(), to_end, done: false }
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
                    Some(Err(error)) => return self.finish(Some(Error::Broken(error))),
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
