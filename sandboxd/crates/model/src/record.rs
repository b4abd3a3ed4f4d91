//! Sandboxes and commands as the store keeps them.

use std::time::Duration;

use sandbox_api::sandbox::SandboxState;
use sandbox_api::{CommandId, SandboxId};

use super::command::{CommandStatus, Started};
use super::{Disk, Ended, RequestDigest, SandboxSpec, Transport, UidSlot};

/// Stage in the lifecycle of a sandbox. If the daemon finds a transitional stage when it starts, the operation was
/// interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Being created. No client knows of it yet.
    Creating,
    /// It has a container.
    Running,
    /// Its container is being removed.
    Parking,
    /// It has its workspace and no container.
    Parked,
    /// Its container is being created again.
    Waking,
    /// Everything of it is being removed.
    Deleting,
    /// Its workspace is missing on the engine. The row is kept until the workspace is back or a client deletes the
    /// sandbox.
    Lost,
}

impl Stage {
    /// All stages.
    pub const ALL: [Self; 7] = [
        Self::Creating,
        Self::Running,
        Self::Parking,
        Self::Parked,
        Self::Waking,
        Self::Deleting,
        Self::Lost,
    ];

    /// The name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Running => "running",
            Self::Parking => "parking",
            Self::Parked => "parked",
            Self::Waking => "waking",
            Self::Deleting => "deleting",
            Self::Lost => "lost",
        }
    }

    /// The state that clients see. A transition shows the previous state until it is complete. A sandbox that is
    /// being deleted is shown as failed: it cannot be used any more, but parts of it still exist.
    pub fn state(self) -> SandboxState {
        match self {
            Self::Creating => SandboxState::Creating,
            Self::Running | Self::Parking => SandboxState::Running,
            Self::Parked | Self::Waking => SandboxState::Parked,
            Self::Deleting => SandboxState::Failed,
            Self::Lost => SandboxState::Lost,
        }
    }

    /// The stages that clients see as this state.
    pub fn of_state(state: SandboxState) -> Vec<Self> {
        Self::ALL.into_iter().filter(|stage| stage.state() == state).collect()
    }

    /// Parses the name in the store.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.as_str() == text)
    }
}

/// A sandbox in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxRecord {
    /// Id of the sandbox.
    pub id: SandboxId,
    /// Slot of its user id.
    pub slot: UidSlot,
    /// How the daemon connects to its agent.
    pub transport: Transport,
    /// Specification of the sandbox.
    pub spec: SandboxSpec,
    /// Disk of the workspace. `None` means a plain volume without a quota.
    pub disk: Option<Disk>,
    /// Stage of the sandbox.
    pub stage: Stage,
    /// Milliseconds since the Unix epoch. Only for display.
    pub created_at_ms: i64,
    /// Milliseconds since the Unix epoch. Only for display.
    pub last_active_ms: i64,
    /// The daemon's age when it was parked, in milliseconds.
    pub parked_at_age_ms: Option<u64>,
    /// Size of the workspace when the sandbox was parked.
    pub disk_bytes: Option<u64>,
    /// Whether it is parked and the remote store of snapshots may not have its last files.
    pub checkpoint_pending: bool,
    /// Whether it is one of several of which all are created or none, and not all are created yet. No client has received
    /// its id.
    pub is_tentative: bool,
}

/// A command in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRecord {
    /// Sandbox that the command ran in.
    pub sandbox: SandboxId,
    /// Id of the command.
    pub id: CommandId,
    /// Program and arguments, or `bash -c` and the script. Cut to
    /// [`limits::MAX_RECORDED_PROGRAM_BYTES`](super::limits::MAX_RECORDED_PROGRAM_BYTES) in total.
    pub argv: Vec<String>,
    /// Working directory as requested. Empty means the workspace.
    pub cwd: String,
    /// Whether the command continues when the caller of its stream disconnects.
    pub detached: bool,
    /// Whether the command does not keep its sandbox in use. False if only its agent knows it.
    pub passive: bool,
    /// Time limit in milliseconds.
    pub timeout_ms: u64,
    /// Milliseconds since the Unix epoch.
    pub started_at_ms: i64,
    /// Identifies the request that started the command, if the caller chose the id.
    pub digest: Option<RequestDigest>,
    /// How the command ended, once that is known.
    pub ended: Option<Ended>,
}

/// The stored state. The number of written bytes is known only after the end.
impl From<CommandRecord> for CommandStatus {
    fn from(record: CommandRecord) -> Self {
        let written = record.ended.clone().unwrap_or(Ended::LOST);
        Self {
            argv: record.argv,
            cwd: record.cwd,
            started: Started {
                at_ms: record.started_at_ms,
                timeout: Duration::from_millis(record.timeout_ms),
                detached: record.detached,
            },
            stdout_bytes: written.stdout_bytes,
            stderr_bytes: written.stderr_bytes,
            dropped_bytes: written.dropped_bytes,
            ended: record.ended,
        }
    }
}
