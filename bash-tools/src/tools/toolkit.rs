//! The tools of one chat.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::Either;
use futures::stream::{self, Stream, StreamExt};
use output_text::Keep;
use tokio_util::sync::CancellationToken;

use super::bash::{self, Lifetime, Starting};
use super::output::Parts;
use super::pace::Pace;
use super::{
    BashInput, BashOutput, CommandHooks, Error, FileContent, OutputLimits, Python, PythonOutput,
    ReadFileInput, Result, SandboxUrl, SandboxUrlInput, WriteFileInput, Written, hooks, read,
};
use crate::provider::{self, CheckpointId, Command, CommandId, Provider, SandboxId};
use crate::session::{ChatKey, Lease, SessionState, Sessions};

/// Limits of a chat's tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolLimits {
    /// Time limit of a command, from its start.
    pub timeout: Duration,
    /// Limits of a command's output.
    pub output: OutputLimits,
    /// Ports that may be exposed, up to 4.
    pub ports: Vec<u16>,
    /// Minimum time between two values of a command. [`FLUSH_PAUSE`](super::FLUSH_PAUSE) suits values that are sent
    /// over a network.
    pub pause: Duration,
}

/// The tools of one chat. Cheap to create for each request. Nothing is opened before a tool is called.
#[derive(Debug, Clone)]
pub struct Toolkit {
    sessions: Sessions,
    key: ChatKey,
    limits: ToolLimits,
    hooks: Option<Arc<dyn CommandHooks>>,
    python: Option<Python>,
    /// Id of the command of the next call of `bash`.
    kept_as: Option<CommandId>,
}

impl Toolkit {
    /// Creates the tools for the chat of a session.
    pub fn new(sessions: Sessions, key: ChatKey, limits: ToolLimits) -> Self {
        Self { sessions, key, limits, hooks: None, python: None, kept_as: None }
    }

    /// Sets the hooks around the commands of the model.
    pub fn with_hooks(mut self, hooks: Arc<dyn CommandHooks>) -> Self {
        self.hooks = Some(hooks);
        self
    }

    /// Adds the tool `python`. All toolkits of an app need clones of the same one.
    pub fn with_python(mut self, python: Python) -> Self {
        self.python = Some(python);
        self
    }

    /// Returns the tools for one call. If it is one of [`bash`](Self::bash), its command is kept under this id: it does not
    /// end with the stream or with this app, only at its own end, at its time limit or when it is cancelled.
    /// [`follow`](Self::follow) continues the call. The command of a provider that keeps none ends with the stream.
    pub fn keeping(&self, id: CommandId) -> Self {
        Self { kept_as: Some(id), ..self.clone() }
    }

    pub(super) fn python_of_app(&self) -> Option<&Python> {
        self.python.as_ref()
    }

    /// Returns the session.
    pub fn key(&self) -> &ChatKey {
        &self.key
    }

    /// Returns the limits.
    pub fn limits(&self) -> &ToolLimits {
        &self.limits
    }

    /// Opens the chat's sandbox in advance. `report` receives the progress. The sandbox is in use while the result
    /// exists.
    pub async fn open(&self, report: impl Fn(&SessionState)) -> Result<Lease> {
        Ok(self.sessions.lease_with_progress(&self.key, report).await?)
    }

    /// Runs a command and streams its state until it has ended. `cancel` ends the command, and the last value reports
    /// that. Dropping the stream ends it too. The time limit does not include opening the sandbox.
    pub fn bash(
        &self,
        input: BashInput,
        cancel: CancellationToken,
    ) -> impl Stream<Item = Result<BashOutput>> + Send + 'static {
        let tools = self.clone();
        match Parts::requested(input.output, Keep::Tail, self.limits.output) {
            Ok(parts) => {
                let is_requested = Arc::new(AtomicBool::new(false));
                let lifetime = match self.kept_as {
                    Some(_) => Lifetime::Kept { is_requested: Arc::clone(&is_requested) },
                    None => Lifetime::Stream,
                };
                let starting = self.start(input.command, self.kept_as.clone(), is_requested);
                let outputs = bash::stream(starting, lifetime, self.pace(), parts, cancel);
                Either::Left(outputs.map(move |output| Ok(tools.shown(output?))))
            }
            Err(invalid) => Either::Right(stream::once(async { Err(invalid.into()) })),
        }
    }

    /// Continues a call of `bash` of another instance of this app, whose command was [kept](Self::keeping): streams its state
    /// from its first output until it has ended. Starts nothing. `input` is that of the call.
    ///
    /// # Errors
    /// [`Error::NoCommand`] if the command never started, or its sandbox or its record was lost.
    pub fn follow(
        &self,
        id: CommandId,
        input: BashInput,
        cancel: CancellationToken,
    ) -> impl Stream<Item = Result<BashOutput>> + Send + 'static {
        let tools = self.clone();
        match Parts::requested(input.output, Keep::Tail, self.limits.output) {
            Ok(parts) => {
                let starting = self.find_kept(id);
                let lifetime = Lifetime::Kept { is_requested: Arc::new(AtomicBool::new(true)) };
                let outputs = bash::stream(starting, lifetime, self.pace(), parts, cancel);
                Either::Left(outputs.map(move |output| Ok(tools.shown(output?))))
            }
            Err(invalid) => Either::Right(stream::once(async { Err(invalid.into()) })),
        }
    }

    /// Runs a command to its end and returns the beginning of its output, or the part that the call requests, with notices
    /// where it is incomplete.
    pub async fn bash_whole(&self, input: BashInput, cancel: CancellationToken) -> Result<BashOutput> {
        let parts = Parts::requested(input.output, Keep::Head, self.limits.output)?;
        let output =
            bash::whole(self.start(input.command, None, Arc::default()), self.limits.timeout, parts, cancel)
                .await?;
        Ok(self.shown(output))
    }

    /// Reads lines of a text file, as many as fit into a result.
    pub async fn read_file(&self, input: ReadFileInput) -> Result<FileContent> {
        Ok(FileContent { content: self.excerpt(&input).await?.into() })
    }

    pub(super) async fn excerpt(&self, input: &ReadFileInput) -> Result<read::Excerpt> {
        let lines = read::Lines::new(input, self.max_file_chars())?;
        self.act(|sandbox| lines.read(self.provider(), sandbox, &input.path)).await
    }

    /// Writes a whole file.
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

    /// Returns a URL for the user's browser. It is not checked whether the port listens, because previews wait for
    /// it.
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

    /// Returns the checkpoint after the last command or change of files, which [`restore`](Self::restore) and
    /// [`branch`](Self::branch) take. An app calls this after a tool call, and keeps the id with the message. The checkpoint
    /// exists, or is made in a moment. `None` if checkpoints are not enabled, nothing has changed since sandboxd started, or
    /// the chat has no sandbox. Opens nothing.
    pub async fn checkpoint(&self) -> Result<Option<CheckpointId>> {
        match self.provider().find(&self.key).await? {
            None => Ok(None),
            Some(sandbox) => Ok(self.provider().checkpoint(&sandbox).await?),
        }
    }

    /// Undoes what has changed since a checkpoint: the chat's files become those of the checkpoint, which may be of another
    /// chat. Fails while a command runs.
    pub async fn restore(&self, checkpoint: &CheckpointId) -> Result<()> {
        self.act(|sandbox| async move { Ok(self.provider().restore(&sandbox, checkpoint).await?) }).await
    }

    /// Creates the sandbox of another chat, which has none, with the files of a checkpoint. The tools of that chat then
    /// continue from there.
    pub async fn branch(&self, chat: &ChatKey, checkpoint: &CheckpointId) -> Result<()> {
        self.provider().branch(chat, checkpoint).await?;
        Ok(())
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Maximum length of a file's text in a result.
    pub(super) fn max_file_chars(&self) -> usize {
        self.limits.output.max_stdout_chars.max(self.limits.output.max_stderr_chars)
    }

    pub(crate) fn provider(&self) -> &dyn Provider {
        &**self.sessions.provider()
    }

    /// Runs an operation in the chat's sandbox, and once more in a new one if the sandbox was lost.
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

    pub(super) async fn replace(&self, lost: Lease) -> Result<Lease> {
        self.sessions.forget(&self.key, lost.sandbox());
        drop(lost);
        Ok(self.sessions.lease(&self.key).await?)
    }

    pub(super) fn pace(&self) -> Pace {
        Pace { timeout: self.limits.timeout, pause: self.limits.pause }
    }

    /// Runs a command of the model, or what the hooks make of it.
    /// Sets `is_requested` right before the provider is asked to start it.
    fn start(&self, command: String, kept_as: Option<CommandId>, is_requested: Arc<AtomicBool>) -> Starting {
        let tools = self.clone();
        Box::pin(async move {
            let command = tools.allowed(command).await?;
            let command = Command { kept_as, ..Command::new(bash::script(&command), tools.limits.timeout) };
            tools.start_command(command, is_requested).await
        })
    }

    fn find_kept(&self, id: CommandId) -> Starting {
        let tools = self.clone();
        Box::pin(async move {
            let lease = tools.sessions.lease(&tools.key).await?;
            match tools.provider().follow(lease.sandbox(), &id).await {
                Ok(Some(running)) => Ok(running.holding(lease)),
                Ok(None) | Err(provider::Error::Gone) => Err(Error::NoCommand),
                Err(error) => Err(error.into()),
            }
        })
    }

    /// Returns the command to run in place of the model's.
    pub(super) async fn allowed(&self, command: String) -> Result<String> {
        match &self.hooks {
            None => Ok(command),
            Some(hooks) => hooks.before(&self.key, command).await.map_err(|reason| Error::Refused { reason }),
        }
    }

    /// Returns the value to show in place of a command's output.
    pub(super) fn shown(&self, output: BashOutput) -> BashOutput {
        match &self.hooks {
            None => output,
            Some(hooks) => hooks::shown(&**hooks, &self.key, output),
        }
    }

    /// Returns the code to run in place of the model's.
    pub(super) async fn allowed_code(&self, code: String) -> Result<String> {
        match &self.hooks {
            None => Ok(code),
            Some(hooks) => {
                hooks.before_code(&self.key, code).await.map_err(|reason| Error::Refused { reason })
            }
        }
    }

    /// Returns the value to show in place of the output of code.
    pub(super) fn code_shown(&self, output: PythonOutput) -> PythonOutput {
        match &self.hooks {
            None => output,
            Some(hooks) => hooks::code_shown(&**hooks, &self.key, output),
        }
    }

    /// Runs a script unchanged in the chat's sandbox.
    pub(super) fn start_script(&self, script: String) -> Starting {
        self.start_command(Command::new(script, self.limits.timeout), Arc::default())
    }

    fn start_command(&self, command: Command, is_requested: Arc<AtomicBool>) -> Starting {
        let tools = self.clone();
        Box::pin(async move {
            let provider = tools.sessions.provider();
            let lease = tools.sessions.lease(&tools.key).await?;
            is_requested.store(true, Ordering::Release);
            match provider.run(lease.sandbox(), command.clone()).await {
                // The command was not started, so it is started once in the new sandbox.
                Err(provider::Error::Gone) => {
                    let lease = tools.replace(lease).await?;
                    let running = provider.run(lease.sandbox(), command).await?;
                    Ok(running.holding(lease))
                }
                running => Ok(running?.holding(lease)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chat apps call tools from their own tasks.
    #[expect(dead_code, reason = "this only needs to compile")]
    fn every_result_can_be_awaited_in_a_task(tools: Toolkit) {
        fn in_a_task(_: impl Send) {}
        let path = String::new;
        in_a_task(tools.read_file(ReadFileInput::default()));
        in_a_task(tools.write_file(WriteFileInput { path: path(), content: path() }));
        in_a_task(tools.sandbox_url(SandboxUrlInput { port: 1 }));
        in_a_task(tools.bash(BashInput::default(), CancellationToken::new()));
        in_a_task(tools.python_whole(crate::tools::PythonInput::default(), CancellationToken::new()));
    }
}
