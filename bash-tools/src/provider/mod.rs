//! Where sandboxes are: sandboxd, or Vercel.
//!
//! A provider makes sandboxes and does single acts in them. It keeps nothing between calls and repeats nothing that may have
//! happened: that a chat has one sandbox, that it is seeded, and that a lost one is made anew is [`session`](crate::session)'s.

mod command;
mod docker;
mod error;
mod files;
mod network;
mod status;
mod vercel;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde::Serialize;

pub use command::{Command, End, EndReason, Environment, Event, Running};
pub use docker::{Docker, DockerWish};
pub use error::{Error, Result};
pub use files::{Content, Download, FileEntry, FileKind, FileList};
pub use network::{NetworkMode, NetworkPolicy};
pub use sandbox_api::network::{Denial, DenialReason};
pub use sandbox_api::sandbox::Posture;
pub use status::{Limits, SandboxState, Status, Usage};
pub use vercel::{BadCredentials, Credentials, GitSource, VERCEL_API, Vercel, VercelWish};

use crate::session::SessionKey;

/// The workspace inside every sandbox, of either provider.
pub const WORKSPACE: &str = "/vercel/sandbox/workspace";

/// A sandbox, as its provider names it. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct SandboxId(Arc<str>);

/// A sandbox that was made or found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Which one.
    pub sandbox: SandboxId,
    /// Whether there was none for the session before.
    pub is_new: bool,
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePart {
    /// From the place that was asked for, at most as many as were asked for.
    pub bytes: Bytes,
    /// Of the whole file, where the provider tells.
    pub total_bytes: Option<u64>,
    /// Of the file's content, where the provider tells: another one where it has changed.
    pub etag: Option<String>,
}

/// A place for sandboxes. All of them have a [`WORKSPACE`], which paths are relative to; an absolute path stays as it is and may
/// be refused. Every call has a deadline of its own.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// The session's sandbox, made where there is none and woken where it sleeps. Safe to repeat.
    async fn open(&self, key: &SessionKey) -> Result<Opened>;

    /// The session's sandbox, where there is one. Makes and wakes nothing.
    async fn find(&self, key: &SessionKey) -> Result<Option<SandboxId>>;

    /// Starts a command. Dropping what is answered ends it.
    async fn run(&self, sandbox: &SandboxId, command: Command) -> Result<Running>;

    /// Reads at most `max_bytes` of a file, `offset` bytes from its start. [`Error::NoFile`] where there is none. Safe to repeat.
    async fn read_file(
        &self,
        sandbox: &SandboxId,
        path: &str,
        offset: u64,
        max_bytes: usize,
    ) -> Result<FilePart>;

    /// Writes a file as a whole, with the directories that it needs. Safe to repeat.
    async fn write_file(&self, sandbox: &SandboxId, path: &str, content: Bytes) -> Result<()>;

    /// Writes a file as a whole where it still is as it was when all of it was read; [`Error::Changed`] where it is not. A
    /// provider that cannot tell looks right before it writes, and overwrites what comes in between.
    async fn replace_file(
        &self,
        sandbox: &SandboxId,
        path: &str,
        was: &FilePart,
        content: Bytes,
    ) -> Result<()> {
        let now = self.read_file(sandbox, path, 0, was.bytes.len() + 1).await?;
        if now.bytes != was.bytes {
            return Err(Error::Changed { path: path.to_owned() });
        }
        self.write_file(sandbox, path, content).await
    }

    /// A page of what is in a directory, links not followed; the empty path is the workspace. `cursor` is of the page before.
    /// [`Error::NoFile`] where there is no such directory.
    async fn list_files(&self, sandbox: &SandboxId, path: &str, cursor: Option<&str>) -> Result<FileList>;

    /// A file of any length. [`Error::NoFile`] where there is none.
    async fn download(&self, sandbox: &SandboxId, path: &str) -> Result<Download>;

    /// Writes a file of `bytes` bytes as they come, with the directories that it needs. It is there as a whole or not at all.
    async fn upload(&self, sandbox: &SandboxId, path: &str, bytes: u64, content: Content) -> Result<()>;

    /// Removes a file, or a directory with all that is beneath. [`Error::NoFile`] where there is none.
    async fn remove_file(&self, sandbox: &SandboxId, path: &str) -> Result<()>;

    /// Unpacks a tar archive in gzip into the workspace.
    async fn unpack(&self, sandbox: &SandboxId, archive: Content) -> Result<()>;

    /// A URL under which a browser reaches a port of the sandbox. Nothing needs to listen yet.
    async fn url(&self, sandbox: &SandboxId, port: u16) -> Result<String>;

    /// How the sandbox is. Wakes nothing.
    async fn status(&self, sandbox: &SandboxId) -> Result<Status>;

    /// What the sandbox was lately refused of the network, the newest first; none where the provider does not tell.
    async fn denials(&self, sandbox: &SandboxId) -> Result<Option<Vec<Denial>>> {
        let _ = sandbox;
        Ok(None)
    }

    /// Adds a host to those that the sandbox may reach, perhaps with `:port`, and answers what holds then. [`Error::Refused`] if
    /// the sandbox's mode has no list, or the provider has no policies. Wakes nothing. Safe to repeat.
    async fn allow_host(&self, sandbox: &SandboxId, host: &str) -> Result<NetworkPolicy> {
        let _ = sandbox;
        Err(Error::Refused {
            said: format!("{host} cannot be allowed: this provider has no network policies"),
        })
    }

    /// Lets the sandbox rest at once and keeps its files. [`Error::Busy`] where a command runs in it. Safe to repeat.
    async fn park(&self, sandbox: &SandboxId) -> Result<()>;

    /// Gives back what the sandbox takes and keeps its files, as far as the provider can: the next [`open`](Self::open)
    /// of the session finds them. One that somebody may still look at is left alone.
    async fn release(&self, sandbox: &SandboxId) -> Result<()>;

    /// Removes the sandbox and its files. Safe to repeat.
    async fn delete(&self, sandbox: &SandboxId) -> Result<()>;
}

impl SandboxId {
    /// As the provider writes it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for SandboxId {
    fn from(id: String) -> Self {
        Self(id.into())
    }
}

impl std::fmt::Display for SandboxId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
