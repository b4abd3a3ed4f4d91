//! Sandboxes of Vercel, through its REST API.
//!
//! A session's sandbox is found by its name, so a restarted app finds its sandboxes. Vercel stops each machine when
//! its lifetime is over, even during use. The next use wakes the sandbox. Its files are kept if
//! [`VercelOptions::persistent`] is set.
//!
//! Particularities: Vercel responds with 410 for a stopped machine, and nothing was done then. Closing the connection
//! of a command does not end it. A file can only be read from its start.

mod alive;
mod api;
mod call;
mod command;
mod credentials;
mod directory;
mod fault;
mod files;
mod lines;
mod listen;
mod name;
mod request;
mod sandbox;
mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

pub use credentials::{BadCredentials, Credentials};

use self::api::Api;
use super::{
    Command, Content, Download, Error, FileList, FilePart, Opened, Provider, Result, Running, SandboxId,
    Status,
};
use crate::chat_key::ChatKey;

/// Base URL of Vercel's API.
pub const VERCEL_API: &str = "https://vercel.com/api";

/// Home directory of a sandbox, which contains the workspace.
const HOME: &str = "/vercel/sandbox";

/// Options of new sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VercelOptions {
    /// `node22`, `node24`, `node26` or `python3.13`. Vercel documents the current list.
    pub runtime: String,
    /// Number of processors, 1 to 8, each with 2048 MB of memory.
    pub vcpus: u64,
    /// Lifetime of a machine, 30 s to 5 h. Vercel's plans have limits of their own.
    pub timeout: Duration,
    /// Ports that previews may expose, up to 4.
    pub ports: Vec<u16>,
    /// Whether files outlive the machine. Without it, [`Provider::release`] and the end of the machine's lifetime
    /// lose them.
    pub persistent: bool,
    /// Repository in the workspace of new sandboxes.
    pub source: Option<GitSource>,
}

/// A repository that Vercel can fetch without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSource {
    /// URL with https.
    pub url: String,
    /// Branch, tag or commit. `None` is the repository's default.
    pub revision: Option<String>,
    /// Number of commits. `None` means all.
    pub depth: Option<u32>,
}

/// Sandboxes of one project at Vercel. Two apps in one project share the sandboxes of equal session keys. Cheap to
/// clone.
#[derive(Debug, Clone)]
pub struct Vercel {
    api: Arc<Api>,
    options: Arc<VercelOptions>,
    /// Last known session of each sandbox.
    sessions: Arc<Mutex<HashMap<SandboxId, Arc<str>>>>,
}

impl Vercel {
    /// Creates a provider at `base`, which is [`VERCEL_API`] outside of tests. Sends nothing yet.
    pub fn new(base: &str, credentials: Credentials, options: VercelOptions) -> Result<Self> {
        let api = Arc::new(Api::new(base, credentials)?);
        Ok(Self { api, options: Arc::new(options), sessions: Arc::default() })
    }
}

#[async_trait]
impl Provider for Vercel {
    async fn open(&self, key: &ChatKey) -> Result<Opened> {
        Ok(self.find_or_create(key).await?)
    }

    async fn find(&self, key: &ChatKey) -> Result<Option<SandboxId>> {
        Ok(self.find_by_key(key).await?)
    }

    async fn run(&self, sandbox: &SandboxId, command: Command) -> Result<Running> {
        self.run_script(sandbox, command).await
    }

    async fn read_file(
        &self,
        sandbox: &SandboxId,
        path: &str,
        offset: u64,
        max_bytes: usize,
    ) -> Result<FilePart> {
        self.read_part(sandbox, path, offset, max_bytes).await
    }

    async fn write_file(&self, sandbox: &SandboxId, path: &str, content: Bytes) -> Result<()> {
        self.write_whole(sandbox, path, content).await
    }

    async fn list_files(&self, sandbox: &SandboxId, path: &str, cursor: Option<&str>) -> Result<FileList> {
        self.list_page(sandbox, path, cursor).await
    }

    async fn download(&self, sandbox: &SandboxId, path: &str) -> Result<Download> {
        self.open_file(sandbox, path).await
    }

    async fn upload(&self, sandbox: &SandboxId, path: &str, bytes: u64, content: Content) -> Result<()> {
        self.write_stream(sandbox, path, bytes, content).await
    }

    async fn remove_file(&self, sandbox: &SandboxId, path: &str) -> Result<()> {
        self.remove_all(sandbox, path).await
    }

    async fn unpack(&self, sandbox: &SandboxId, archive: Content) -> Result<()> {
        self.unpack_stream(sandbox, archive).await
    }

    async fn url(&self, sandbox: &SandboxId, port: u16) -> Result<String> {
        let (_, found) = self.wake(sandbox).await?;
        let route = found.routes.into_iter().find(|route| route.port == port);
        route.map(|route| route.url).ok_or_else(|| Error::Refused {
            message: format!("port {port} of the sandbox cannot be reached: the port was not declared when the sandbox was created"),
        })
    }

    async fn status(&self, sandbox: &SandboxId) -> Result<Status> {
        Ok(self.status_of(sandbox).await?)
    }

    async fn park(&self, sandbox: &SandboxId) -> Result<()> {
        self.release(sandbox).await
    }

    /// Stops the machine. Its files are kept if they are persistent, and lost otherwise.
    async fn release(&self, sandbox: &SandboxId) -> Result<()> {
        Ok(self.stop(sandbox).await?)
    }

    async fn delete(&self, sandbox: &SandboxId) -> Result<()> {
        Ok(self.delete_same(sandbox).await?)
    }
}
