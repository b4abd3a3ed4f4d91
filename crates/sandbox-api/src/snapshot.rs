//! Snapshots: the files and values of a sandbox at one time.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::sandbox::SandboxCreated;
use crate::{CommandId, SandboxId, SnapshotId};

/// Request body of `POST …/snapshots`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct MakeSnapshot {
    /// Display name, 1 to 200 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Time in milliseconds after which the snapshot is deleted, 1000 to 31536000000. Default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    /// Whether all processes of the sandbox are stopped (SIGSTOP) while their files are read, for at most 30 seconds.
    /// Afterwards all of them continue, also those that a shell had stopped. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause: Option<bool>,
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Id of the snapshot.
    pub snapshot_id: SnapshotId,
    /// Sandbox that it was made of. It may be deleted.
    pub sandbox_id: SandboxId,
    /// Session key of that sandbox at that time.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub session_key: Option<String>,
    /// Display name.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub name: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it is deleted. Null is never.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub expires_at: Option<Timestamp>,
    /// The snapshot of the same sandbox before it. It may be deleted.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub parent_id: Option<SnapshotId>,
    /// Size of its files in bytes, with the holes of sparse files.
    pub size_bytes: u64,
    /// Bytes that it added to the daemon's store, compressed. What other snapshots had already is not added again.
    pub new_bytes: u64,
    /// Number of its files.
    pub files: u64,
    /// Whether it can be restored.
    #[serde(default)]
    pub state: SnapshotState,
    /// Whether it was made because of the sandbox's `checkpoints`. Such a snapshot is deleted when newer ones take its
    /// place, or after 30 days.
    #[serde(default)]
    pub automatic: bool,
    /// The last command that had ended before an automatic snapshot was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_id: Option<CommandId>,
}

/// Whether a snapshot can be restored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum SnapshotState {
    /// No damage is known.
    #[default]
    Complete,
    /// Chunks of it are damaged or missing. Restoring it fails, unless they are in none of the files that differ.
    Damaged,
}

/// Response of `POST …/snapshots`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SnapshotMade {
    /// The snapshot.
    #[serde(flatten)]
    pub snapshot: Snapshot,
    /// Files that changed each time they were read, so their content may be a mixture. At most 100 paths, such as
    /// `workspace/log`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub torn: Vec<String>,
    /// Number of those files.
    pub torn_files: u64,
    /// Whether all processes were stopped the whole time.
    pub paused: bool,
}

/// Response of `GET …/snapshots` and of `GET /v1/snapshots`: one page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SnapshotList {
    /// Snapshots, newest first.
    pub snapshots: Vec<Snapshot>,
    /// Cursor of the next page, if there is one.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next_cursor: Option<String>,
}

/// How an entry differs between two snapshots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum ChangeKind {
    /// Only the later one has it.
    Added,
    /// Both have it, with another content, mode or target.
    Modified,
    /// Only the earlier one has it.
    Deleted,
    /// The later one has it at another path, with the same content.
    Renamed,
}

/// An entry that differs between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SnapshotChange {
    /// Path from the root of the snapshots, such as `workspace/src/main.rs`. Bytes that are not valid UTF-8 are replaced.
    pub path: String,
    /// How it differs.
    pub change: ChangeKind,
    /// Earlier path of a renamed file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// With `diff`: how the file differs, as a patch for `git apply` or `patch -p1` in the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Bytes of the patch in base64, if they are not valid UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff_base64: Option<String>,
    /// With `diff`: why there is no patch. Directories have neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff_omitted: Option<DiffOmitted>,
}

/// Why a change has no patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum DiffOmitted {
    /// A content is not text: it has a NUL byte, or a hole.
    Binary,
    /// A content has more than 1 MiB, or more than 100,000 lines from the first change to the last.
    TooLarge,
    /// It is a hard link, a named pipe or a socket, which a patch cannot express.
    Special,
    /// Only metadata differs that a patch cannot express.
    Metadata,
    /// It is not in the workspace.
    Outside,
    /// It is in a directory `.git`, which a patch must not change.
    Git,
}

/// Response of `GET /v1/snapshots/{snapshotId}/changes`: one page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SnapshotChanges {
    /// What differs, in the order of a walk: a directory comes before its entries. A file that was renamed is reported
    /// once if both names are on the same page.
    pub changes: Vec<SnapshotChange>,
    /// Cursor of the next page, if there is one.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next_cursor: Option<String>,
}

/// Request body of `POST …:restore`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RestoreSnapshot {
    /// Snapshot whose files and values the sandbox gets. It may be of another sandbox.
    pub snapshot_id: SnapshotId,
    /// Whether commands and programs on terminals are ended first. Otherwise the restore is rejected while one runs.
    /// Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force: Option<bool>,
}

/// Response of `POST …:restore`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SnapshotRestored {
    /// Snapshot of the files and values before the restore. It is kept for 7 days. Restoring it undoes this restore.
    pub checkpoint_id: SnapshotId,
    /// Number of entries that were written, or whose metadata was set.
    pub written: u64,
    /// Number of entries that were removed. What was in a directory is not counted.
    pub removed: u64,
}

/// Request body of `POST …:fork`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ForkSandbox {
    /// Session keys of the new sandboxes: 1 to 50, all different. None of these sessions may have a sandbox.
    pub session_keys: Vec<String>,
}

/// Response of `POST …:fork`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SandboxForked {
    /// The new sandboxes, in the order of the request.
    pub sandboxes: Vec<SandboxCreated>,
}

/// Request body of `POST /v1/snapshots:check`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CheckSnapshots {
    /// Whether nothing is changed. Otherwise damaged packs are moved to the quarantine. Default: false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
}

/// What is wrong with a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub enum PackProblem {
    /// It is damaged, or cannot be read by this version.
    Damaged,
    /// It does not exist any more.
    Missing,
    /// The store has failed to read it. It may be intact.
    Unread,
}

/// A pack with a fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PackFault {
    /// Name of the pack: 64 hexadecimal digits.
    pub pack: String,
    /// What is wrong with it.
    pub problem: PackProblem,
    /// What is wrong, in words.
    pub message: String,
    /// Number of its chunks that are damaged. 0 if they cannot be read at all.
    pub damaged_chunks: u64,
    /// Whether it was moved to the directory `quarantine`.
    pub quarantined: bool,
    /// Number of its chunks that were intact and stored again.
    pub intact_chunks: u64,
}

/// Response of `POST /v1/snapshots:check`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SnapshotsChecked {
    /// Whether all packs and snapshots were read and are intact.
    pub ok: bool,
    /// Whether the check has stopped before its end. Then the daemon's log has the reason, and this is what was found until
    /// then.
    #[serde(default)]
    pub incomplete: bool,
    /// Number of packs.
    pub packs: u64,
    /// Number of chunks in them.
    pub chunks: u64,
    /// Size of the packs in bytes.
    pub bytes: u64,
    /// Number of packs that are damaged or missing, or could not be read.
    pub faulty_packs: u64,
    /// The first 100 of them.
    pub faults: Vec<PackFault>,
    /// Number of snapshots.
    pub snapshots: u64,
    /// Number of snapshots that have lost chunks.
    pub damaged_snapshots: u64,
    /// The first 100 of them. Restoring one fails, unless the lost chunks are in none of the files that differ.
    pub damaged: Vec<Snapshot>,
    /// Number of other snapshots of which not all chunks could be read.
    #[serde(default)]
    pub unverified_snapshots: u64,
}
