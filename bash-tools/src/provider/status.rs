//! How a sandbox is.

use jiff::Timestamp;
use sandbox_api::sandbox::Posture;
use serde::Serialize;

use super::{NetworkPolicy, SandboxId};

/// How a sandbox is, as far as its provider tells.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Which one.
    #[serde(rename = "sandboxId")]
    pub sandbox: SandboxId,
    /// Where it is in its life.
    pub state: SandboxState,
    /// What it was made of.
    pub image: Option<String>,
    /// What it may take.
    pub limits: Limits,
    /// What it takes, where it runs.
    pub usage: Option<Usage>,
    /// Commands that run in it.
    pub running_commands: Option<u32>,
    /// When it was last used.
    pub last_active_at: Option<Timestamp>,
    /// When it rests, or rests no more and is deleted, if nobody uses it until then.
    pub expires_at: Option<Timestamp>,
    /// What it may reach.
    pub network: Option<NetworkPolicy>,
    /// The hardening that was really applied.
    pub posture: Option<Posture>,
}

/// Where a sandbox is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxState {
    /// It runs.
    Running,
    /// It rests, with its files.
    Parked,
    /// It is being made or woken.
    Opening,
    /// It is about to be gone.
    Ending,
    /// Its files are missing on the machine; it can only be deleted until they are back.
    Lost,
}

/// What a sandbox may take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Of memory.
    pub memory_bytes: Option<u64>,
    /// Processors.
    pub vcpus: Option<u64>,
    /// Of its workspace.
    pub disk_bytes: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
}

/// What a sandbox takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Of memory.
    pub memory_bytes: u64,
    /// Of its workspace.
    pub disk_bytes: Option<u64>,
    /// Processes and threads.
    pub pids: u64,
}
