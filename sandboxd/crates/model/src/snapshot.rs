//! Snapshots: as an agent makes and restores them, and as the store keeps them.

use bytes::Bytes;
use sandbox_api::{CommandId, SandboxId, SessionKey, SnapshotId};
use snapshot_format::plan::Step;
use snapshot_format::{Content, Hash};

use crate::{Owner, limits};

/// Whether a snapshot can have this name: 1 to [`limits::MAX_SNAPSHOT_NAME`] characters, none of them a control character.
pub fn is_name(name: &str) -> bool {
    (1..=limits::MAX_SNAPSHOT_NAME).contains(&name.chars().count()) && !name.chars().any(char::is_control)
}

/// A chunk as an agent has sent it. It is not verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentChunk {
    /// Its name.
    pub hash: Hash,
    /// Size in bytes, before compression.
    pub length: u32,
    /// Its bytes, compressed.
    pub data: Bytes,
}

/// A snapshot that an agent has sent completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeSnapshot {
    /// The root directory.
    pub root: Content,
    /// Number of files.
    pub files: u64,
    /// Number of directories.
    pub directories: u64,
    /// Size of all files in bytes, with their holes.
    pub bytes: u64,
    /// The first of the files that changed each time they were read. Paths from the root.
    pub torn: Vec<String>,
    /// Number of those files.
    pub torn_files: u64,
    /// Whether all processes were stopped the whole time.
    pub paused: bool,
}

/// A step of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreStep {
    /// First: what the other steps need at least.
    Needs {
        /// Bytes of the files that are written.
        bytes: u64,
        /// Number of files, directories and links that are written.
        entries: u64,
    },
    /// A change in the current directory. After a file come its bytes.
    Change(Step),
    /// The next bytes of the file.
    Data(Bytes),
    /// The next bytes of the file are this many zeros that it does not store.
    Hole(u64),
}

/// Result of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// Number of entries written, or whose metadata was set.
    pub written: u64,
    /// Number of entries removed.
    pub removed: u64,
}

/// Whether a snapshot is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotState {
    /// All of its chunks are stored.
    Complete,
    /// Its chunks are stored on this machine, and not all of them in the remote store yet.
    PendingUpload,
    /// A check has found that chunks of it are missing or damaged.
    Damaged,
}

impl SnapshotState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Complete, Self::PendingUpload, Self::Damaged];

    /// The name in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::PendingUpload => "pending_upload",
            Self::Damaged => "damaged",
        }
    }

    /// Reads a name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// A snapshot of a sandbox's workspace. It may outlive the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRecord {
    /// Its id.
    pub id: SnapshotId,
    /// The sandbox.
    pub sandbox: SandboxId,
    /// Whom it belongs to.
    pub owner: Owner,
    /// Session key of the sandbox when the snapshot was made.
    pub session_key: Option<SessionKey>,
    /// Name that a client has given it.
    pub name: Option<String>,
    /// Time when it was made, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Time from which it may be deleted, in milliseconds since the Unix epoch. `None` is never.
    pub expires_at_ms: Option<i64>,
    /// The encoded content of its root directory.
    pub root: Vec<u8>,
    /// The encoded content of the [values](snapshot_format::values) of the sandbox. `None` if it does not have them, because an
    /// older version made it. That is not the same as a sandbox without values.
    pub values: Option<Vec<u8>>,
    /// The snapshot that it was compared with. It may be deleted since.
    pub parent: Option<SnapshotId>,
    /// Size of its files in bytes.
    pub size_bytes: u64,
    /// Size in bytes of the chunks that it added to the store, compressed.
    pub new_bytes: u64,
    /// Number of its files.
    pub files: u64,
    /// Whether it is complete.
    pub state: SnapshotState,
    /// Whether it was made because of the sandbox's [`Checkpoints`](crate::Checkpoints).
    pub automatic: bool,
    /// The last command that had ended before an automatic snapshot was made.
    pub command: Option<CommandId>,
}

/// A restore that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreRecord {
    /// The sandbox.
    pub sandbox: SandboxId,
    /// The snapshot whose files it gets.
    pub snapshot: SnapshotId,
    /// The snapshot that was made when the restore began.
    pub checkpoint: SnapshotId,
}

/// Position in the list of a sandbox's snapshots: that of the snapshot with these values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotCursor {
    /// Its creation, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Its id.
    pub id: SnapshotId,
}

impl SnapshotRecord {
    /// Its position in the list of its sandbox's snapshots.
    pub fn cursor(&self) -> SnapshotCursor {
        SnapshotCursor { created_at_ms: self.created_at_ms, id: self.id.clone() }
    }
}
