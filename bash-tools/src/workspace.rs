//! The user's view of a chat's sandbox: its files, its state and its removal.
//!
//! Reading the state neither creates nor wakes a sandbox. Accessing files wakes it, because they are only available
//! in a running sandbox.

use futures::StreamExt;
use futures::stream::BoxStream;

use crate::provider::{
    self, AttachedTerminal, Content, Denial, Download, FileList, NetworkPolicy, Provider, SandboxState,
    Status, Terminal, TerminalId, TerminalSize, Terminals,
};
use crate::session::{ChatKey, Lease, SessionState};
use crate::tools::{Error, Result, Toolkit};

/// A chat's sandbox, as its user sees it. Cheap to create for each request.
#[derive(Debug, Clone)]
pub struct Workspace {
    tools: Toolkit,
}

impl Workspace {
    /// Creates a view for the session of these tools.
    pub fn new(tools: Toolkit) -> Self {
        Self { tools }
    }

    /// Returns the session.
    pub fn key(&self) -> &ChatKey {
        self.tools.key()
    }

    /// Returns how far the app has opened the session.
    pub fn state(&self) -> SessionState {
        self.tools.sessions().state(self.key())
    }

    /// Returns the status of the sandbox, or `None` if there is none.
    pub async fn status(&self) -> Result<Option<Status>> {
        let Some(sandbox) = self.provider().find(self.key()).await? else { return Ok(None) };
        match self.provider().status(&sandbox).await {
            Ok(status) => Ok(Some(status)),
            Err(provider::Error::Gone) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns recent network denials of the sandbox. Empty if there is no sandbox, or if the provider does not
    /// report denials.
    pub async fn denials(&self) -> Result<Vec<Denial>> {
        let Some(sandbox) = self.provider().find(self.key()).await? else { return Ok(Vec::new()) };
        match self.provider().denials(&sandbox).await {
            Ok(denials) => Ok(denials.unwrap_or_default()),
            Err(provider::Error::Gone) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds a host, optionally with `:port`, to those that the sandbox may reach. Returns `None` if there is no
    /// sandbox. Wakes nothing.
    pub async fn allow_host(&self, host: &str) -> Result<Option<NetworkPolicy>> {
        let Some(sandbox) = self.provider().find(self.key()).await? else { return Ok(None) };
        match self.provider().allow_host(&sandbox, host).await {
            Ok(policy) => Ok(Some(policy)),
            Err(provider::Error::Gone) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns one page of a directory. The empty path is the workspace. Returns `None` if there is no sandbox.
    pub async fn list(&self, path: &str, cursor: Option<&str>) -> Result<Option<FileList>> {
        if !self.exists().await? {
            return Ok(None);
        }
        let list = |sandbox| async move { Ok(self.provider().list_files(&sandbox, path, cursor).await?) };
        self.tools.act(list).await.map(Some)
    }

    /// Returns a file of any length. The sandbox counts as used until its last bytes are read.
    pub async fn download(&self, path: &str) -> Result<Download> {
        if !self.exists().await? {
            return Err(provider::Error::NoFile { path: path.to_owned() }.into());
        }
        let lease = self.tools.open(|_| {}).await?;
        let Download { bytes, content } = self.provider().download(lease.sandbox(), path).await?;
        Ok(Download { bytes, content: keep(content, lease) })
    }

    /// Writes a file of `bytes` bytes from a stream and creates missing parent directories. The file appears whole or
    /// not at all.
    pub async fn upload(&self, path: &str, bytes: u64, content: Content) -> Result<()> {
        // The stream can be read only once, so a missing sandbox must be detected first.
        let lease = self.tools.open(|_| {}).await?;
        Ok(self.provider().upload(lease.sandbox(), path, bytes, content).await?)
    }

    /// Removes a file, or a directory with its content.
    pub async fn remove(&self, path: &str) -> Result<()> {
        if !self.exists().await? {
            return Err(provider::Error::NoFile { path: path.to_owned() }.into());
        }
        self.tools.act(|sandbox| async move { Ok(self.provider().remove_file(&sandbox, path).await?) }).await
    }

    /// Returns the running terminals and the most recently ended ones, newest first. Neither creates nor wakes a sandbox:
    /// only a running one has terminals.
    pub async fn terminals(&self) -> Result<Vec<Terminal>> {
        let running = self.status().await?.filter(|status| status.state == SandboxState::Running);
        let Some(Status { sandbox, .. }) = running else { return Ok(Vec::new()) };
        match self.terminals_of_provider()?.list(&sandbox).await {
            Err(provider::Error::Gone) => Ok(Vec::new()),
            list => Ok(list?),
        }
    }

    /// Opens a terminal with a login shell, and the sandbox if necessary. The terminal runs until its shell ends or it is
    /// closed.
    pub async fn open_terminal(&self, size: TerminalSize) -> Result<TerminalId> {
        let terminals = self.terminals_of_provider()?;
        self.tools.act(|sandbox| async move { Ok(terminals.open(&sandbox, size).await?) }).await
    }

    /// Connects to a terminal. Neither creates nor wakes a sandbox. The provider keeps a sandbox with a viewer running, but the app
    /// may give its place to another chat. Returns `None` if the terminal is no longer kept, as after the end of its sandbox.
    pub async fn attach_terminal(&self, terminal: &TerminalId) -> Result<Option<AttachedTerminal>> {
        let running = self.status().await?.filter(|status| status.state == SandboxState::Running);
        let Some(Status { sandbox, .. }) = running else { return Ok(None) };
        match self.terminals_of_provider()?.attach(&sandbox, terminal).await {
            Err(provider::Error::Gone) => Ok(None),
            attached => Ok(attached?),
        }
    }

    /// Ends a terminal with all its processes. Safe to repeat.
    pub async fn close_terminal(&self, terminal: &TerminalId) -> Result<()> {
        let Some(sandbox) = self.provider().find(self.key()).await? else { return Ok(()) };
        match self.terminals_of_provider()?.close(&sandbox, terminal).await {
            Err(provider::Error::Gone) => Ok(()),
            closed => Ok(closed?),
        }
    }

    fn terminals_of_provider(&self) -> Result<&dyn Terminals> {
        let missing = || provider::Error::Refused { message: "this provider has no terminals".into() };
        Ok(self.provider().terminals().ok_or_else(missing)?)
    }

    /// Parks the sandbox and keeps its files. Fails with [`provider::Error::Busy`] if it is in use.
    pub async fn park(&self) -> Result<()> {
        Ok(self.tools.sessions().park(self.key()).await?)
    }

    /// Removes the sandbox and its files. Safe to repeat.
    pub async fn delete(&self) -> Result<()> {
        Ok(self.tools.sessions().delete(self.key()).await?)
    }

    async fn exists(&self) -> Result<bool> {
        match self.state() {
            SessionState::Ready | SessionState::Opening | SessionState::Seeding { .. } => Ok(true),
            SessionState::Closed | SessionState::Failed { .. } => {
                Ok(self.provider().find(self.key()).await.map_err(Error::from)?.is_some())
            }
        }
    }

    fn provider(&self) -> &dyn Provider {
        self.tools.provider()
    }
}

fn keep<T: 'static>(content: BoxStream<'static, T>, lease: Lease) -> BoxStream<'static, T> {
    content
        .map(move |piece| {
            let _in_use = &lease;
            piece
        })
        .boxed()
}
