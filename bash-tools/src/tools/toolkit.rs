//! The tools of one chat.

use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;

use super::bash::{self, Pace, Starting};
use super::input::{
    BashInput, FileContent, ReadFileInput, SandboxUrl, SandboxUrlInput, WriteFileInput, Written,
};
use super::output::{BashOutput, OutputLimits};
use super::{Error, Result, read};
use crate::provider::{self, Command, Provider, Running, SandboxId};
use crate::session::{Lease, SessionKey, SessionState, Sessions};

/// What the tools of a chat may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLimits {
    /// Of one command, from its start on.
    pub timeout: Duration,
    /// Of one command's output.
    pub output: OutputLimits,
    /// Ports that may be shown, up to 4.
    pub ports: Vec<u16>,
    /// Least time between two values of a command; [`FLUSH_PAUSE`](super::FLUSH_PAUSE) is a good one where each value goes over a line.
    pub pause: Duration,
}

/// The tools of one chat. Cheap to make for each request: nothing is opened before a tool is called.
#[derive(Debug, Clone)]
pub struct Toolkit {
    sessions: Sessions,
    key: SessionKey,
    limits: ToolLimits,
}

impl Toolkit {
    /// For the chat of a session.
    pub fn new(sessions: Sessions, key: SessionKey, limits: ToolLimits) -> Self {
        Self { sessions, key, limits }
    }

    /// Whose tools they are.
    pub fn key(&self) -> &SessionKey {
        &self.key
    }

    /// What they may take.
    pub fn limits(&self) -> &ToolLimits {
        &self.limits
    }

    /// Opens the chat's sandbox beforehand; `tell` hears how far that is. As long as what is answered lives, the sandbox is in use.
    pub async fn open(&self, tell: impl Fn(&SessionState)) -> Result<Lease> {
        Ok(self.sessions.lease_and_tell(&self.key, tell).await?)
    }

    /// Runs a command and tells what is known of it, again and again, until it has ended. `cancel` ends the command and is told as
    /// the last value; dropping the stream ends it, too. The time for opening the sandbox is not the command's.
    pub fn bash(
        &self,
        input: BashInput,
        cancel: CancellationToken,
    ) -> impl Stream<Item = Result<BashOutput>> + Send + 'static {
        bash::stream(self.start(&input.command), self.pace(), self.limits.output, cancel)
    }

    /// Runs a command to its end and answers the beginnings of its output, each with a notice where that is not all.
    pub async fn bash_whole(&self, input: BashInput, cancel: CancellationToken) -> Result<BashOutput> {
        bash::whole(self.start(&input.command), self.limits.timeout, self.limits.output, cancel).await
    }

    /// Reads lines of a text file, as many as fit into an answer.
    pub async fn read_file(&self, input: ReadFileInput) -> Result<FileContent> {
        Ok(FileContent { content: self.excerpt(&input).await?.into() })
    }

    pub(super) async fn excerpt(&self, input: &ReadFileInput) -> Result<read::Excerpt> {
        let lines = read::Lines::new(input, self.max_file_chars())?;
        self.act(|sandbox| lines.read(self.provider(), sandbox, &input.path)).await
    }

    /// Writes a file as a whole.
    pub async fn write_file(&self, input: WriteFileInput) -> Result<Written> {
        let WriteFileInput { path, content } = input;
        let content = Bytes::from(content);
        let write = |sandbox| {
            let (path, content) = (&path, content.clone());
            async move { Ok(self.provider().write_file(&sandbox, path, content).await?) }
        };
        self.act(write).await?;
        Ok(Written { success: true })
    }

    /// A URL for the person's browser. Whether something listens there is not looked at: previews wait for it.
    pub async fn sandbox_url(&self, input: SandboxUrlInput) -> Result<SandboxUrl> {
        let SandboxUrlInput { port } = input;
        if !self.limits.ports.contains(&port) {
            let listed: Vec<String> = self.limits.ports.iter().map(u16::to_string).collect();
            let listed = if listed.is_empty() { "none are".to_owned() } else { listed.join(", ") };
            return Err(Error::PortNotListed { port, listed });
        }
        let url = self.act(|sandbox| async move { Ok(self.provider().url(&sandbox, port).await?) }).await?;
        Ok(SandboxUrl { url })
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// The longest text of a file that is answered.
    pub(super) fn max_file_chars(&self) -> usize {
        self.limits.output.max_stdout_chars.max(self.limits.output.max_stderr_chars)
    }

    pub(crate) fn provider(&self) -> &dyn Provider {
        &**self.sessions.provider()
    }

    /// Does something in the chat's sandbox, and once more in a new one where that was lost.
    pub(crate) async fn act<T, A>(&self, act: impl Fn(SandboxId) -> A) -> Result<T>
    where
        A: Future<Output = Result<T>>,
    {
        let lease = self.sessions.lease(&self.key).await?;
        match act(lease.sandbox().clone()).await {
            Err(Error::Provider(provider::Error::Gone)) => {
                let lease = self.replace(lease).await?;
                act(lease.sandbox().clone()).await
            }
            acted => acted,
        }
    }

    async fn replace(&self, lost: Lease) -> Result<Lease> {
        self.sessions.forget(&self.key, lost.sandbox());
        drop(lost);
        Ok(self.sessions.lease(&self.key).await?)
    }

    pub(super) fn pace(&self) -> Pace {
        Pace { timeout: self.limits.timeout, pause: self.limits.pause }
    }

    fn start(&self, command: &str) -> Starting {
        self.start_script(bash::script(command))
    }

    /// A script as it is, in the chat's sandbox.
    pub(super) fn start_script(&self, script: String) -> Starting {
        let tools = self.clone();
        let command = Command::new(script, self.limits.timeout);
        Box::pin(async move {
            let provider = tools.sessions.provider();
            let lease = tools.sessions.lease(&tools.key).await?;
            match provider.run(lease.sandbox(), command.clone()).await {
                // It was not started, so it is started once.
                Err(provider::Error::Gone) => {
                    let lease = tools.replace(lease).await?;
                    let running = provider.run(lease.sandbox(), command).await?;
                    Ok(keep(running, lease))
                }
                running => Ok(keep(running?, lease)),
            }
        })
    }
}

/// The command, in a session that makes no room as long as it runs.
fn keep(running: Running, lease: Lease) -> Running {
    let events = running.map(move |event| {
        let _in_use = &lease;
        event
    });
    Running::new(events.boxed())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chat apps call tools from tasks of their own.
    #[expect(dead_code, reason = "it is enough that it compiles")]
    fn every_answer_can_be_awaited_in_a_task(tools: Toolkit) {
        fn in_a_task(_: impl Send) {}
        let path = String::new;
        in_a_task(tools.read_file(ReadFileInput::default()));
        in_a_task(tools.write_file(WriteFileInput { path: path(), content: path() }));
        in_a_task(tools.sandbox_url(SandboxUrlInput { port: 1 }));
        in_a_task(tools.bash(BashInput { command: path() }, CancellationToken::new()));
    }
}
