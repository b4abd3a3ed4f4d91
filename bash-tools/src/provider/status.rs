//! Status of a sandbox.

use jiff::Timestamp;
use sandbox_api::sandbox::Posture;
use serde::Serialize;

use super::network::NetworkPolicy;
use super::sandbox_id::SandboxId;

/// Status of a sandbox, as far as its provider reports it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Id of the sandbox.
    #[serde(rename = "sandboxId")]
    pub sandbox: SandboxId,
    /// Lifecycle state.
    pub state: SandboxState,
    /// Image or runtime of the sandbox.
    pub image: Option<String>,
    /// Resource limits.
    pub limits: Limits,
    /// Resource usage, if the sandbox runs.
    pub usage: Option<Usage>,
    /// Number of running commands.
    pub running_commands: Option<u32>,
    /// Time of last use.
    pub last_active_at: Option<Timestamp>,
    /// When the sandbox is parked, or a parked one is deleted, if it is not used before.
    pub expires_at: Option<Timestamp>,
    /// Network policy.
    pub network: Option<NetworkPolicy>,
    /// Hardening that was applied.
    pub posture: Option<Posture>,
}

/// Lifecycle state of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxState {
    /// The sandbox runs.
    Running,
    /// The sandbox is parked and has its files.
    Parked,
    /// The sandbox is being created or woken.
    Opening,
    /// The sandbox is being removed.
    Ending,
    /// The sandbox's files are missing on the machine. Until they are back, it can only be deleted.
    Lost,
}

/// Resource limits of a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Memory.
    pub memory_bytes: Option<u64>,
    /// Number of processors.
    pub vcpus: Option<u64>,
    /// Size of the workspace.
    pub disk_bytes: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
}

/// Resource usage of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Memory.
    pub memory_bytes: u64,
    /// Disk space of the workspace.
    pub disk_bytes: Option<u64>,
    /// Processes and threads.
    pub pids: u64,
}
