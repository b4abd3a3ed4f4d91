//! Terminals with login shells.

use std::fmt;
use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures::Sink;
use futures::stream::BoxStream;
use sandbox_api::terminal::{FromTerminal, Terminal};

pub use sandbox_api::TerminalId;

use super::{Error, Result, SandboxId};

/// Terminals of a provider's sandboxes.
#[async_trait]
pub trait Terminals: Send + Sync {
    /// Opens a terminal with a login shell in the workspace. It runs until its shell ends or it is closed, with or without
    /// viewers. Not safe to repeat: each call opens one.
    async fn open(&self, sandbox: &SandboxId, size: TerminalSize) -> Result<TerminalId>;

    /// Returns the running terminals and the most recently ended ones, newest first. Wakes nothing.
    async fn list(&self, sandbox: &SandboxId) -> Result<Vec<Terminal>>;

    /// Connects to a terminal. `None` if it is no longer kept.
    async fn attach(&self, sandbox: &SandboxId, terminal: &TerminalId) -> Result<Option<AttachedTerminal>>;

    /// Ends a terminal with all its processes, and removes it. Safe to repeat.
    async fn close(&self, sandbox: &SandboxId, terminal: &TerminalId) -> Result<()>;
}

/// Size of a terminal. The provider rejects sizes that it does not support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Number of columns.
    pub cols: u32,
    /// Number of rows.
    pub rows: u32,
}

/// What comes from a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalOutput {
    /// Bytes for a terminal emulator. The kept ones come first.
    Bytes(Bytes),
    /// Its size, an input that was rejected, or its end, which is the last one.
    Message(FromTerminal),
}

/// What a viewer sends to a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TerminalInput {
    /// Typed bytes, up to 64 KiB.
    Bytes(Bytes),
    /// The size of the viewer's window.
    Resize(TerminalSize),
}

/// A connection to a terminal, which keeps running without it.
pub struct AttachedTerminal {
    /// Output, in order. It must be read to keep the connection open.
    pub output: BoxStream<'static, Result<TerminalOutput>>,
    /// Input. Sending returns when it is on its way.
    pub input: Pin<Box<dyn Sink<TerminalInput, Error = Error> + Send>>,
}

impl fmt::Debug for AttachedTerminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttachedTerminal").finish_non_exhaustive()
    }
}
