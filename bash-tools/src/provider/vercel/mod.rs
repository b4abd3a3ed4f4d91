//! Sandboxes of Vercel, through its REST API.
//!
//! A session's sandbox is found by its name, so an app that starts anew finds what it had. Vercel stops each machine when its time
//! is over, whoever works in it; the next use wakes the sandbox, and where [`VercelWish::persistent`] says so, its files are there.
//!
//! What would surprise: Vercel answers 410 for a machine that has stopped, and then nothing was done; closing the connection of
//! a command does not end it; and a file can be read only from its start.

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
mod sandbox;
mod wire;
mod wish;

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
use crate::session::SessionKey;

/// Where Vercel's API is.
pub const VERCEL_API: &str = "https://vercel.com/api";

/// A sandbox's home, which the workspace is in.
const HOME: &str = "/vercel/sandbox";

/// What sandboxes are to be like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VercelWish {
    /// `node22`, `node24`, `node26` or `python3.13`; Vercel has the list.
    pub runtime: String,
    /// 1 to 8, each with 2048 MB of memory.
    pub vcpus: u64,
    /// How long a machine lives, 30 s to 5 h; Vercel's plans have bounds of their own.
    pub timeout: Duration,
    /// That may be previewed, up to 4.
    pub ports: Vec<u16>,
    /// Whether files outlive the machine. Where they do not, [`Provider::release`] and the end of the machine's time lose them.
    pub persistent: bool,
    /// A repository that new sandboxes have in their workspace.
    pub source: Option<GitSource>,
}

/// A repository that Vercel can fetch without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSource {
    /// Over https.
    pub url: String,
    /// A branch, a tag or a commit; the repository's own choice where there is none.
    pub revision: Option<String>,
    /// How many commits; all where there is none.
    pub depth: Option<u32>,
}

/// Sandboxes of one project at Vercel. Two apps that share a project share the sandboxes of equal session keys. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Vercel {
    api: Arc<Api>,
    wish: Arc<VercelWish>,
    /// The session that each sandbox had when last heard of.
    sessions: Arc<Mutex<HashMap<SandboxId, Arc<str>>>>,
}

impl Vercel {
    /// At `base`, which is [`VERCEL_API`] but for tests. Nothing is sent yet.
    pub fn new(base: &str, credentials: Credentials, wish: VercelWish) -> Result<Self> {
        let api = Arc::new(Api::new(base, credentials)?);
        Ok(Self { api, wish: Arc::new(wish), sessions: Arc::default() })
    }
}

#[async_trait]
impl Provider for Vercel {
    async fn open(&self, key: &SessionKey) -> Result<Opened> {
        Ok(self.find_or_create(key).await?)
    }

    async fn find(&self, key: &SessionKey) -> Result<Option<SandboxId>> {
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
            said: format!("port {port} of the sandbox cannot be reached: it was made without it"),
        })
    }

    async fn status(&self, sandbox: &SandboxId) -> Result<Status> {
        Ok(self.status_of(sandbox).await?)
    }

    async fn park(&self, sandbox: &SandboxId) -> Result<()> {
        self.release(sandbox).await
    }

    /// Stops the machine. Its files stay where the wish is for persistent ones, and are lost where it is not.
    async fn release(&self, sandbox: &SandboxId) -> Result<()> {
        Ok(self.stop(sandbox).await?)
    }

    async fn delete(&self, sandbox: &SandboxId) -> Result<()> {
        Ok(self.delete_same(sandbox).await?)
    }
}
