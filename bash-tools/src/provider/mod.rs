//! Sandbox providers: sandboxd and Vercel.
//!
//! A provider creates sandboxes and performs single operations in them. It keeps no state between calls and repeats
//! nothing that may already have happened. [`session`](crate::session) ensures that a chat has one seeded sandbox and
//! that a lost one is replaced.

mod command;
mod docker;
mod error;
mod files;
mod interpreters;
mod network;
mod repository;
mod sandbox_id;
mod status;
mod terminals;
mod vercel;

use async_trait::async_trait;
use bytes::Bytes;

pub use command::{Command, End, EndReason, Environment, Event, Running};
pub use docker::{Docker, DockerOptions};
pub use error::{Error, Result};
pub use files::{Content, Download, FileEntry, FileKind, FileList};
pub use interpreters::{CodeEnd, CodeEvent, InterpreterId, Interpreters, RunningCode};
pub use network::{NetworkMode, NetworkPolicy};
pub use repository::Repository;
pub use sandbox_api::network::{Denial, DenialReason};
pub use sandbox_api::sandbox::Posture;
pub use sandbox_api::terminal::{FromTerminal, Terminal, ToTerminal};
pub use sandbox_api::{CommandId, SnapshotId as CheckpointId};
pub use sandbox_id::SandboxId;
pub use status::{Limits, SandboxState, Status, Usage};
pub use terminals::{AttachedTerminal, TerminalId, TerminalInput, TerminalOutput, TerminalSize, Terminals};
pub use vercel::{BadCredentials, Credentials, GitSource, VERCEL_API, Vercel, VercelOptions};

use crate::chat_key::ChatKey;

/// Path of the workspace in every sandbox, of either provider.
pub const WORKSPACE: &str = "/vercel/sandbox/workspace";

/// A sandbox that was created or found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Id of the sandbox.
    pub sandbox: SandboxId,
    /// Whether the sandbox was created for the session.
    pub is_new: bool,
}

/// Result of opening a session with the files of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpenedWith {
    /// The session has a sandbox. If it is new, it has the files. Its `HEAD` is detached.
    Opened {
        /// The sandbox.
        opened: Opened,
        /// The branch of the files, if the sandbox is new: the one that the revision names, or the default one. `None` if the
        /// revision is something else.
        branch: Option<String>,
    },
    /// The repository has no such branch, tag or commit. Nothing was created.
    NoRevision,
    /// The provider cannot give the files. Nothing was created.
    Unavailable {
        /// Why, human-readable.
        message: String,
    },
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePart {
    /// Bytes from the requested position, at most as many as requested.
    pub bytes: Bytes,
    /// Size of the whole file, if the provider reports it.
    pub total_bytes: Option<u64>,
    /// Etag of the file's content, if the provider reports it. It changes with the content.
    pub etag: Option<String>,
}

/// A provider of sandboxes. Each has a [`WORKSPACE`], which paths are relative to. An absolute path is passed on
/// unchanged and may be rejected. Every call has a deadline.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// Returns the session's sandbox: created if there is none, woken if it is parked. Safe to repeat.
    async fn open(&self, key: &ChatKey) -> Result<Opened>;

    /// Returns the session's sandbox like [`open`](Self::open). A new one begins with the files of a repository, if the
    /// provider has them. Safe to repeat.
    async fn open_with(&self, key: &ChatKey, repository: &Repository) -> Result<OpenedWith> {
        let _ = (key, repository);
        Ok(OpenedWith::Unavailable { message: "this provider has no repositories".into() })
    }

    /// Returns the interpreters, if the provider has them.
    fn interpreters(&self) -> Option<&dyn Interpreters> {
        None
    }

    /// Returns the terminals, if the provider has them.
    fn terminals(&self) -> Option<&dyn Terminals> {
        None
    }

    /// Returns the session's sandbox, if there is one. Neither creates nor wakes it.
    async fn find(&self, key: &ChatKey) -> Result<Option<SandboxId>>;

    /// Starts a command. Dropping the result ends the command, unless it is kept. Safe to repeat for a kept one, which is the
    /// same command then. A provider that keeps no commands ignores the id.
    async fn run(&self, sandbox: &SandboxId, command: Command) -> Result<Running>;

    /// Follows a command that was started as a kept one, from its first output, also when it has ended. Dropping the result
    /// does not end it. `None` if the sandbox does not have the command, because it never started or is no longer kept.
    /// Safe to repeat.
    async fn follow(&self, sandbox: &SandboxId, command: &CommandId) -> Result<Option<Running>> {
        let _ = (sandbox, command);
        Ok(None)
    }

    /// Reads at most `max_bytes` of a file, starting at `offset`. Fails with [`Error::NoFile`] if it does not exist.
    /// Safe to repeat.
    async fn read_file(
        &self,
        sandbox: &SandboxId,
        path: &str,
        offset: u64,
        max_bytes: usize,
    ) -> Result<FilePart>;

    /// Writes a whole file and creates missing parent directories. Safe to repeat.
    async fn write_file(&self, sandbox: &SandboxId, path: &str, content: Bytes) -> Result<()>;

    /// Writes a whole file if it has not changed since it was read, and fails with [`Error::Changed`] otherwise. A
    /// provider without such a condition compares right before the write, and overwrites a change made in between.
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

    /// Returns one page of a directory, without following links. The empty path is the workspace. `cursor` comes from
    /// the previous page. Fails with [`Error::NoFile`] if the directory does not exist.
    async fn list_files(&self, sandbox: &SandboxId, path: &str, cursor: Option<&str>) -> Result<FileList>;

    /// Returns a file of any length. Fails with [`Error::NoFile`] if it does not exist.
    async fn download(&self, sandbox: &SandboxId, path: &str) -> Result<Download>;

    /// Writes a file of `bytes` bytes from a stream and creates missing parent directories. The file appears whole or
    /// not at all.
    async fn upload(&self, sandbox: &SandboxId, path: &str, bytes: u64, content: Content) -> Result<()>;

    /// Removes a file, or a directory with its content. Fails with [`Error::NoFile`] if it does not exist.
    async fn remove_file(&self, sandbox: &SandboxId, path: &str) -> Result<()>;

    /// Unpacks a gzip-compressed tar archive into the workspace.
    async fn unpack(&self, sandbox: &SandboxId, archive: Content) -> Result<()>;

    /// Returns a URL by which a browser reaches a port of the sandbox. The port need not listen yet.
    async fn url(&self, sandbox: &SandboxId, port: u16) -> Result<String>;

    /// Returns the status of the sandbox. Wakes nothing.
    async fn status(&self, sandbox: &SandboxId) -> Result<Status>;

    /// Returns recent network denials of the sandbox, newest first. `None` if the provider does not report them.
    async fn denials(&self, sandbox: &SandboxId) -> Result<Option<Vec<Denial>>> {
        let _ = sandbox;
        Ok(None)
    }

    /// Adds a host, optionally with `:port`, to those that the sandbox may reach, and returns the new policy. Fails
    /// with [`Error::Refused`] if the sandbox's mode has no list, or the provider has no policies. Wakes nothing.
    /// Safe to repeat.
    async fn allow_host(&self, sandbox: &SandboxId, host: &str) -> Result<NetworkPolicy> {
        let _ = sandbox;
        Err(Error::Refused {
            message: format!("{host} cannot be allowed: this provider has no network policies"),
        })
    }

    /// Returns the checkpoint after everything that has ended in the sandbox. It exists, or is made in a moment. `None` if
    /// the provider makes none, or nothing has changed yet. Wakes nothing.
    async fn checkpoint(&self, sandbox: &SandboxId) -> Result<Option<CheckpointId>> {
        let _ = sandbox;
        Ok(None)
    }

    /// Turns the files of the sandbox into those of a checkpoint. Fails with [`Error::Refused`] while a command runs, if
    /// there is no such checkpoint, or if the provider has none.
    async fn restore(&self, sandbox: &SandboxId, checkpoint: &CheckpointId) -> Result<()> {
        let _ = (sandbox, checkpoint);
        Err(Error::no_checkpoints())
    }

    /// Creates the session's sandbox with the files of a checkpoint. Fails with [`Error::Refused`] if the session has a
    /// sandbox, there is no such checkpoint, or the provider has none.
    async fn branch(&self, key: &ChatKey, checkpoint: &CheckpointId) -> Result<SandboxId> {
        let _ = (key, checkpoint);
        Err(Error::no_checkpoints())
    }

    /// Parks the sandbox at once and keeps its files. Fails with [`Error::Busy`] while a command runs. Safe to
    /// repeat.
    async fn park(&self, sandbox: &SandboxId) -> Result<()>;

    /// Releases the sandbox's resources and keeps its files, as far as the provider can. The next
    /// [`open`](Self::open) of the session finds them. A sandbox that may still be viewed is left running.
    async fn release(&self, sandbox: &SandboxId) -> Result<()>;

    /// Removes the sandbox and its files. Safe to repeat.
    async fn delete(&self, sandbox: &SandboxId) -> Result<()>;
}
