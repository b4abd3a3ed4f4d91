//! Commands and their streams.

use std::time::Duration;

use http::header::ACCEPT;
use http::{Method, Response};
use sandbox_api::command::{
    Command, CommandEnded, CommandKilled, CommandList, CommandRan, CommandStarted, KillCommand, Record,
    RunCommand, StartCommand,
};
use sandbox_api::history::HistoryList;
use sandbox_api::limits::DEFAULT_COMMAND_TIMEOUT_MS;
use sandbox_api::{CommandId, ErrorCode, NDJSON, SandboxId};

use crate::deadlines::{ACT, LOOK};
use crate::records::RecordStream;
use crate::request::{json, send_for_stream};
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
        Ok(records(send_for_stream(request.header(ACCEPT, NDJSON)).await?))
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
        let records = records(send_for_stream(self.request(Method::GET, &path)).await?);
        Ok(if follow { records } else { records.open() })
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
pub type Records = RecordStream<Record>;

fn records(response: Response<Body>) -> Records {
    RecordStream::new(response, |record| matches!(record, Record::Exit { .. }))
}
