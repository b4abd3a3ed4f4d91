//! What the store keeps of a sandbox and of a command.

use std::time::Duration;

use sandbox_api::sandbox::SandboxState;
use sandbox_api::{CommandId, SandboxId};

use super::command::{CommandStatus, Started};
use super::{Disk, Ended, RequestDigest, SandboxSpec, Transport, UidSlot};

/// What is being done with a sandbox, or was done last. Those that are on their way were cut off where they
/// are found at a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Being made for the first time; nobody was told of it yet.
    Creating,
    /// It has a container.
    Running,
    /// Its container is being removed.
    Parking,
    /// It has its workspace and no container.
    Parked,
    /// Its container is being made again.
    Waking,
    /// All of it is being removed.
    Deleting,
    /// Its workspace is missing on the engine. Its row is kept until the workspace is back or somebody deletes it.
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

    /// Its name in the store.
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

    /// What a sandbox in this stage is to its users. One on its way is what it was, until it is what it will
    /// be; of one that is being removed nothing can be used any more, and something is still there.
    pub fn state(self) -> SandboxState {
        match self {
            Self::Creating => SandboxState::Creating,
            Self::Running | Self::Parking => SandboxState::Running,
            Self::Parked | Self::Waking => SandboxState::Parked,
            Self::Deleting => SandboxState::Failed,
            Self::Lost => SandboxState::Lost,
        }
    }

    /// The stages of a sandbox that is this to its users.
    pub fn of_state(state: SandboxState) -> Vec<Self> {
        Self::ALL.into_iter().filter(|stage| stage.state() == state).collect()
    }

    /// Reads a name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.as_str() == text)
    }
}

/// A sandbox as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxRecord {
    /// Its id.
    pub id: SandboxId,
    /// Its user id's slot.
    pub slot: UidSlot,
    /// How its agent is reached.
    pub transport: Transport,
    /// What it is made from.
    pub spec: SandboxSpec,
    /// Its workspace's file system; `None` is a plain volume without a quota.
    pub disk: Option<Disk>,
    /// What is being done with it.
    pub stage: Stage,
    /// Milliseconds since the Unix epoch, for people.
    pub created_at_ms: i64,
    /// Milliseconds since the Unix epoch, for people.
    pub last_active_ms: i64,
    /// The daemon's age when it was parked, in milliseconds.
    pub parked_at_age_ms: Option<u64>,
    /// What its workspace takes, as of when it was parked.
    pub disk_bytes: Option<u64>,
}

/// A command as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRecord {
    /// Where it ran.
    pub sandbox: SandboxId,
    /// Its id.
    pub id: CommandId,
    /// Program and arguments, or `bash -c` and the script; together at most
    /// [`limits::MAX_RECORDED_PROGRAM_BYTES`](super::limits::MAX_RECORDED_PROGRAM_BYTES), cut where they are longer.
    pub argv: Vec<String>,
    /// As it was asked for; empty is the workspace.
    pub cwd: String,
    /// Whether it goes on without its reader.
    pub detached: bool,
    /// Its limit in milliseconds.
    pub timeout_ms: u64,
    /// Milliseconds since the Unix epoch.
    pub started_at_ms: i64,
    /// Identifies the request that started it, if its caller chose the id.
    pub digest: Option<RequestDigest>,
    /// How it ended, once that is known.
    pub ended: Option<Ended>,
}

/// As it was written down; what it wrote is only known with its end.
impl From<CommandRecord> for CommandStatus {
    fn from(record: CommandRecord) -> Self {
        let written = record.ended.unwrap_or(Ended::LOST);
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
