//! A chat's sandbox as its person sees it: its files, how it is, and its end.
//!
//! To look makes no sandbox and wakes none. Files are woken for, because they cannot be seen otherwise.

use futures::StreamExt;
use futures::stream::BoxStream;

use crate::provider::{self, Content, Denial, Download, FileList, NetworkPolicy, Provider, Status};
use crate::session::{Lease, SessionKey, SessionState};
use crate::tools::{Error, Result, Toolkit};

/// A chat's sandbox, for its person. Cheap to make for each request.
#[derive(Debug, Clone)]
pub struct Workspace {
    tools: Toolkit,
}

impl Workspace {
    /// Of whoever has these tools.
    pub fn new(tools: Toolkit) -> Self {
        Self { tools }
    }

    /// Whose it is.
    pub fn key(&self) -> &SessionKey {
        self.tools.key()
    }

    /// How far the app is with it.
    pub fn state(&self) -> SessionState {
        self.tools.sessions().state(self.key())
    }

    /// How its sandbox is; none where there is none.
    pub async fn status(&self) -> Result<Option<Status>> {
        let Some(sandbox) = self.provider().find(self.key()).await? else { return Ok(None) };
        match self.provider().status(&sandbox).await {
            Ok(status) => Ok(Some(status)),
            Err(provider::Error::Gone) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What its sandbox was lately refused of the network; nothing where there is no sandbox, or its provider does not tell.
    pub async fn denials(&self) -> Result<Vec<Denial>> {
        let Some(sandbox) = self.provider().find(self.key()).await? else { return Ok(Vec::new()) };
        match self.provider().denials(&sandbox).await {
            Ok(denials) => Ok(denials.unwrap_or_default()),
            Err(provider::Error::Gone) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds a host to those that its sandbox may reach, perhaps with `:port`. None where there is no sandbox. Wakes nothing.
    pub async fn allow_host(&self, host: &str) -> Result<Option<NetworkPolicy>> {
        let Some(sandbox) = self.provider().find(self.key()).await? else { return Ok(None) };
        match self.provider().allow_host(&sandbox, host).await {
            Ok(policy) => Ok(Some(policy)),
            Err(provider::Error::Gone) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A page of what is in a directory; the empty path is the workspace. None where there is no sandbox.
    pub async fn list(&self, path: &str, cursor: Option<&str>) -> Result<Option<FileList>> {
        if !self.is_there().await? {
            return Ok(None);
        }
        let list = |sandbox| async move { Ok(self.provider().list_files(&sandbox, path, cursor).await?) };
        self.tools.act(list).await.map(Some)
    }

    /// A file of any length. The sandbox is in use until its last piece.
    pub async fn download(&self, path: &str) -> Result<Download> {
        if !self.is_there().await? {
            return Err(provider::Error::NoFile { path: path.to_owned() }.into());
        }
        let lease = self.tools.open(|_| {}).await?;
        let Download { bytes, content } = self.provider().download(lease.sandbox(), path).await?;
        Ok(Download { bytes, content: keep(content, lease) })
    }

    /// Writes a file of `bytes` bytes as they come, with the directories that it needs. It is there as a whole or not at all.
    pub async fn upload(&self, path: &str, bytes: u64, content: Content) -> Result<()> {
        // It comes once, so a sandbox that is gone is found out before.
        let lease = self.tools.open(|_| {}).await?;
        Ok(self.provider().upload(lease.sandbox(), path, bytes, content).await?)
    }

    /// Removes a file, or a directory with all that is beneath.
    pub async fn remove(&self, path: &str) -> Result<()> {
        if !self.is_there().await? {
            return Err(provider::Error::NoFile { path: path.to_owned() }.into());
        }
        self.tools.act(|sandbox| async move { Ok(self.provider().remove_file(&sandbox, path).await?) }).await
    }

    /// Lets the sandbox rest, with its files. Fails with [`provider::Error::Busy`] where it is in use.
    pub async fn park(&self) -> Result<()> {
        Ok(self.tools.sessions().park(self.key()).await?)
    }

    /// Removes the sandbox with its files. Safe to repeat.
    pub async fn delete(&self) -> Result<()> {
        Ok(self.tools.sessions().delete(self.key()).await?)
    }

    async fn is_there(&self) -> Result<bool> {
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
