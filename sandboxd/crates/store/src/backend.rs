//! The trait of a database that the store uses.
//!
//! A backend is one type that implements [`Backend`] and the traits of its tables. The traits say what each
//! operation promises, in terms of the model. How it is done, and how the data survives a fault, is the backend's own
//! matter. The tests in `tests/store/contract` run against every backend.

use std::collections::HashMap;
use std::fmt::Debug;

use async_trait::async_trait;
use sandbox_api::{CommandId, LinkId, SandboxId, SnapshotId, TokenId};
use sandboxd_model::context::ContextEntry;
use sandboxd_model::mcp::McpServerRecord;
use sandboxd_model::preview::{LinkEnd, LinkRecord};
use sandboxd_model::repository::{RepositoryKey, RepositoryRecord};
use sandboxd_model::value::{KeptValue, ValueInfo, ValueKey, ValueTotals};
use sandboxd_model::{
    CommandRecord, Ended, Orphan, Owner, ProjectName, ProjectQuotas, ProjectRecord, RestoreRecord,
    RevokedSubject, SandboxRecord, SnapshotCursor, SnapshotRecord, SnapshotState, Stage, TokenRecord,
    UsageRecord,
};

use super::Error;

/// A database that is open.
///
/// Each write is one transaction: all of it is stored or none of it. It is durable when it returns. A call that cannot
/// be done fails within a time limit. Calls work again once the cause of a failure has gone.
///
/// Writes marked "urgent" must be possible on a full disk if the backend can arrange it, because sandboxes cannot be
/// deleted without them.
#[async_trait]
pub trait Backend:
    SandboxTable
    + CommandTable
    + LinkTable
    + McpServerTable
    + SnapshotTable
    + ProjectTable
    + QuotaTable
    + ValueTable
    + RepositoryTable
    + DaemonTable
    + Debug
    + Send
    + Sync
{
    /// Whether the database can be written right now.
    async fn check(&self) -> Result<(), Error>;

    /// Does the periodic work that the database needs for its durability. Logs what fails.
    async fn maintain(&self);

    /// Closes the database within a time limit. Later calls fail with an error that is not
    /// [unavailable](Error::is_unavailable).
    async fn close(&self);
}

/// Operations on sandboxes.
#[async_trait]
pub trait SandboxTable {
    /// All sandboxes, oldest first.
    async fn sandboxes(&self) -> Result<Vec<SandboxRecord>, Error>;

    /// Adds a sandbox. Fails with [`ErrorKind::Taken`](crate::ErrorKind::Taken) if another sandbox has its id or slot, or its
    /// session key and owner.
    async fn insert_sandbox(&self, record: &SandboxRecord) -> Result<(), Error>;

    /// Adds a sandbox, or replaces the one with the same id and keeps its commands. Fails with
    /// [`ErrorKind::Taken`](crate::ErrorKind::Taken) if another sandbox has its slot, or its session key and owner. Urgent.
    async fn put_sandbox(&self, record: &SandboxRecord) -> Result<(), Error>;

    /// Returns whether there is such a sandbox. Urgent.
    async fn set_stage(&self, id: &SandboxId, stage: Stage) -> Result<bool, Error>;

    /// Returns whether there is such a sandbox in a stage other than `unless`. Changes nothing otherwise. Urgent.
    async fn set_stage_unless(&self, id: &SandboxId, stage: Stage, unless: Stage) -> Result<bool, Error>;

    /// Ends that these sandboxes are tentative, all of them or none. Skips sandboxes that do not exist. Urgent.
    async fn confirm_sandboxes(&self, ids: &[SandboxId]) -> Result<(), Error>;

    /// Removes a sandbox and its commands. Succeeds if the sandbox does not exist. Urgent.
    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), Error>;

    /// Puts all sandboxes, and notes that the database [is loaded](DaemonTable::is_loaded).
    async fn load_sandboxes(&self, records: &[SandboxRecord]) -> Result<(), Error>;

    /// Writes when sandboxes were last used, in milliseconds since the Unix epoch. Skips sandboxes that do not exist.
    async fn touch_sandboxes(&self, seen: &[(SandboxId, i64)]) -> Result<(), Error>;
}

/// Operations on the history of commands. A command belongs to a sandbox, and its id is unique there.
#[async_trait]
pub trait CommandTable {
    /// Up to `limit` commands of a sandbox, the last started first.
    async fn newest_commands(&self, sandbox: &SandboxId, limit: u32) -> Result<Vec<CommandRecord>, Error>;

    /// One command of a sandbox.
    async fn command(&self, sandbox: &SandboxId, id: &CommandId) -> Result<Option<CommandRecord>, Error>;

    /// The commands of a sandbox without an end, the first started first.
    async fn unended_commands(&self, sandbox: &SandboxId) -> Result<Vec<CommandRecord>, Error>;

    /// Which of these commands of a sandbox are stored.
    async fn written_commands(
        &self,
        sandbox: &SandboxId,
        ids: &[CommandId],
    ) -> Result<HashMap<CommandId, Written>, Error>;

    /// Deletes the commands whose end was written before this age of the daemon, and those beyond the newest
    /// `kept` of each sandbox. Commands without an end are kept up to twice that number. Returns how many were
    /// deleted.
    async fn trim_commands(&self, before_age_ms: u64, kept: usize) -> Result<u64, Error>;

    /// Up to `limit` commands of a sandbox that have ended, the last one that ended first. With `before`, those before this
    /// number. They are not changed later, and kept when the command is deleted.
    async fn ended_commands(
        &self,
        sandbox: &SandboxId,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<EndedCommand>, Error>;

    /// Deletes all but the newest `kept` of the ended commands of each sandbox. Returns how many were deleted.
    async fn trim_ended(&self, kept: usize) -> Result<u64, Error>;

    /// Writes changes in their order. `age_ms` is the daemon's age. Skips sandboxes that do not exist.
    async fn write_history(&self, changes: &[Change], age_ms: u64) -> Result<(), Error>;
}

/// Operations on links to previews. A link may outlive its sandbox.
#[async_trait]
pub trait LinkTable {
    /// All links, oldest first.
    async fn links(&self) -> Result<Vec<LinkRecord>, Error>;

    /// Adds a link. Fails if there is one with the same id.
    async fn insert_link(&self, link: &LinkRecord) -> Result<(), Error>;

    /// Writes why and when links ended. Skips links that have ended before or do not exist. Urgent.
    async fn end_links(&self, links: &[LinkId], end: LinkEnd, at_ms: i64) -> Result<(), Error>;

    /// Deletes links. Skips links that do not exist.
    async fn delete_links(&self, links: &[LinkId]) -> Result<(), Error>;
}

/// Operations on the values that clients keep with a sandbox. They are removed with it.
#[async_trait]
pub trait ValueTable {
    /// One value.
    async fn value(&self, sandbox: &SandboxId, key: &ValueKey) -> Result<Option<KeptValue>, Error>;

    /// Up to `limit` values of a sandbox whose keys begin with `prefix` and follow `after`, in the order of their keys.
    async fn value_infos(
        &self,
        sandbox: &SandboxId,
        prefix: &str,
        after: Option<&ValueKey>,
        limit: u32,
    ) -> Result<Vec<ValueInfo>, Error>;

    /// All values of a sandbox at one point in time, in the order of their keys.
    async fn values(&self, sandbox: &SandboxId) -> Result<Vec<KeptValue>, Error>;

    /// The totals of each sandbox that has values.
    async fn value_totals(&self) -> Result<Vec<(SandboxId, ValueTotals)>, Error>;

    /// The totals of one sandbox.
    async fn value_totals_of(&self, sandbox: &SandboxId) -> Result<ValueTotals, Error>;

    /// Adds or replaces a value. Fails if the sandbox does not exist.
    async fn put_value(&self, sandbox: &SandboxId, value: &KeptValue) -> Result<(), Error>;

    /// Replaces all values of a sandbox, which have different keys. Fails if the sandbox does not exist. May take as long as
    /// [`limits::REPLACE_VALUES`](sandboxd_model::limits::REPLACE_VALUES).
    async fn replace_values(&self, sandbox: &SandboxId, values: &[KeptValue]) -> Result<(), Error>;

    /// Deletes a value. Succeeds if there is none. Urgent.
    async fn delete_value(&self, sandbox: &SandboxId, key: &ValueKey) -> Result<(), Error>;
}

/// Operations on projects and their tokens.
#[async_trait]
pub trait ProjectTable {
    /// All projects, in the order of their names.
    async fn projects(&self) -> Result<Vec<ProjectRecord>, Error>;

    /// Adds a project. One with the same name stays as it is.
    async fn add_project(&self, project: &ProjectRecord) -> Result<(), Error>;

    /// All tokens, in the order of their ids.
    async fn tokens(&self) -> Result<Vec<TokenRecord>, Error>;

    /// Adds a token. Fails if there is one with the same id, or the project is missing.
    async fn insert_token(&self, token: &TokenRecord) -> Result<(), Error>;

    /// Deletes a token. Succeeds if it does not exist. Urgent.
    async fn delete_token(&self, id: &TokenId) -> Result<(), Error>;

    /// Writes when tokens were last used, in milliseconds since the Unix epoch. Skips tokens that do not exist.
    async fn touch_tokens(&self, used: &[(TokenId, i64)]) -> Result<(), Error>;

    /// The subjects whose tokens were revoked.
    async fn revoked_subjects(&self) -> Result<Vec<RevokedSubject>, Error>;

    /// Adds a revoked subject, or replaces the one with the same project and subject. Fails if the project is missing. Urgent.
    async fn put_revoked_subject(&self, revoked: &RevokedSubject) -> Result<(), Error>;
}

/// Operations on the quotas of projects, and on what projects have used. Days are numbered since the Unix epoch, in UTC.
#[async_trait]
pub trait QuotaTable {
    /// The quotas of all projects that have some, in the order of the projects' names.
    async fn quotas(&self) -> Result<Vec<(ProjectName, ProjectQuotas)>, Error>;

    /// Replaces the quotas of a project. Fails if the project is missing.
    async fn put_quotas(&self, project: &ProjectName, quotas: &ProjectQuotas) -> Result<(), Error>;

    /// What all projects have used on this day and later ones, in the order of projects and days.
    async fn usage_since(&self, day: i32) -> Result<Vec<UsageRecord>, Error>;

    /// What a project has used on each of the last `limit` days on which it was used, the newest first.
    async fn usage_of(&self, project: &ProjectName, limit: u32) -> Result<Vec<UsageRecord>, Error>;

    /// Writes what projects have used. Where there is a number already, the larger one stays. Skips projects that do not
    /// exist.
    async fn put_usage(&self, records: &[UsageRecord]) -> Result<(), Error>;

    /// Deletes what was used before a day.
    async fn delete_usage_before(&self, day: i32) -> Result<(), Error>;
}

/// Operations on wrapped servers. A server is found by its sandbox and its name.
#[async_trait]
pub trait McpServerTable {
    /// All servers, in order of their sandboxes and names.
    async fn mcp_servers(&self) -> Result<Vec<McpServerRecord>, Error>;

    /// Adds a server, or replaces the one with the same sandbox and name.
    async fn put_mcp_server(&self, server: &McpServerRecord) -> Result<(), Error>;

    /// Deletes a server. Succeeds if it does not exist. Urgent.
    async fn delete_mcp_server(&self, sandbox: &SandboxId, name: &str) -> Result<(), Error>;
}

/// Operations on snapshots. A snapshot may outlive its sandbox.
#[async_trait]
pub trait SnapshotTable {
    /// All snapshots at one point in time, newest first.
    async fn snapshots(&self) -> Result<Vec<SnapshotRecord>, Error>;

    /// One snapshot.
    async fn snapshot(&self, id: &SnapshotId) -> Result<Option<SnapshotRecord>, Error>;

    /// The newest snapshot of a sandbox. Of those of the same time, the one with the greatest id.
    async fn latest_snapshot_of(&self, sandbox: &SandboxId) -> Result<Option<SnapshotRecord>, Error>;

    /// Up to `limit` snapshots that `owner` [covers](Owner::covers), newest first. Those of the same time are in reverse
    /// order of their ids. With `sandbox`, only those of this sandbox. With `before`, those that follow this position,
    /// whether or not its snapshot still exists.
    async fn snapshots_seen_by(
        &self,
        owner: &Owner,
        sandbox: Option<&SandboxId>,
        before: Option<&SnapshotCursor>,
        limit: u32,
    ) -> Result<Vec<SnapshotRecord>, Error>;

    /// Up to `limit` snapshots that expire at `now_ms` or earlier. The one that expired first comes first.
    async fn expired_snapshots(&self, now_ms: i64, limit: u32) -> Result<Vec<SnapshotRecord>, Error>;

    /// Up to `limit` automatic snapshots of a sandbox besides the newest `keep`, newest first.
    async fn surplus_checkpoints(
        &self,
        sandbox: &SandboxId,
        keep: u32,
        limit: u32,
    ) -> Result<Vec<SnapshotRecord>, Error>;

    /// Adds a snapshot. Fails if there is one with the same id.
    async fn insert_snapshot(&self, record: &SnapshotRecord) -> Result<(), Error>;

    /// Returns whether there is such a snapshot.
    async fn set_snapshot_state(&self, id: &SnapshotId, state: SnapshotState) -> Result<bool, Error>;

    /// Deletes a snapshot. Succeeds if it does not exist. Urgent.
    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<(), Error>;

    /// All restores that have begun.
    async fn restores(&self) -> Result<Vec<RestoreRecord>, Error>;

    /// Notes that a restore begins. Replaces an earlier one of the sandbox.
    async fn put_restore(&self, record: &RestoreRecord) -> Result<(), Error>;

    /// Notes that the restore of a sandbox has ended. Succeeds if there is none. Urgent.
    async fn delete_restore(&self, sandbox: &SandboxId) -> Result<(), Error>;

    /// As [`Self::delete_restore`], together with [`ValueTable::replace_values`]. Not urgent.
    async fn delete_restore_with(&self, sandbox: &SandboxId, values: &[KeptValue]) -> Result<(), Error>;
}

/// Operations on what is stored about the daemon itself.
#[async_trait]
pub trait DaemonTable {
    /// Whether [`SandboxTable::load_sandboxes`] ever succeeded.
    async fn is_loaded(&self) -> Result<bool, Error>;

    /// The daemon's age in milliseconds. 0 in a new database.
    async fn age_ms(&self) -> Result<u64, Error>;

    /// Writes the daemon's age.
    async fn set_age_ms(&self, age_ms: u64) -> Result<(), Error>;

    /// What the last start stored. The default in a new database.
    async fn identity(&self) -> Result<Identity, Error>;

    /// Writes the identity. Urgent.
    async fn set_identity(&self, identity: &Identity) -> Result<(), Error>;

    /// Id of the remote store that has the snapshots. `None` is the directory in the state dir.
    async fn snapshot_store(&self) -> Result<Option<String>, Error>;

    /// Writes the id of the store that has the snapshots.
    async fn set_snapshot_store(&self, store: Option<&str>) -> Result<(), Error>;

    /// The last line of the audit record that was written here. `None` in a new database.
    async fn audit_head(&self) -> Result<Option<AuditHead>, Error>;

    /// Writes the last line of the audit record.
    async fn set_audit_head(&self, head: &AuditHead) -> Result<(), Error>;

    /// The orphans on the engine, ordered by kind and name.
    async fn orphans(&self) -> Result<Vec<Orphan>, Error>;

    /// Replaces the orphans on the engine.
    async fn set_orphans(&self, orphans: &[Orphan]) -> Result<(), Error>;
}

/// A change of the history.
#[derive(Debug)]
pub enum Change {
    /// A command started. If the record has an end, the command has ended too.
    ///
    /// A command with the same id stays as it is, unless it started at another time. Then a caller has used the id
    /// again, and the command becomes the newest one.
    Started(CommandRecord),
    /// A command ended. Has no effect if its start is not stored.
    Ended(SandboxId, CommandId, Ended),
    /// A run or a call of a tool ended. The record has an end. It is not among the commands.
    InContext(CommandRecord, ContextEntry),
}

/// A command with its end, as it was first written.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedCommand {
    /// Number in the order of the ends, from 1 for each sandbox.
    pub number: u64,
    /// The command. It has an end.
    pub command: CommandRecord,
    /// Set if this is not a command, but happened in a context.
    pub in_context: Option<ContextEntry>,
}

/// How much of a command is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Milliseconds since the Unix epoch.
    pub started_at_ms: i64,
    /// Whether its end is stored too.
    pub has_ended: bool,
}

/// The last line of the audit record, as far as it is on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditHead {
    /// Its sequence number, from 1.
    pub seq: u64,
    /// Its MAC, in hexadecimal digits.
    pub mac: String,
}

/// What the last start stored. Everything is `None` in a database of an older version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The id of the instance whose key the state dir had.
    pub instance: Option<String>,
    /// The engine's own id.
    pub engine: Option<String>,
    /// The random word of the engine's marker.
    pub marker: Option<String>,
    /// The random words of the last start, and of the one that was about to follow it.
    pub epoch: Option<String>,
    /// The number of the last start.
    pub epoch_number: u64,
}

/// Operations on fetched repositories.
#[async_trait]
pub trait RepositoryTable {
    /// All repositories.
    async fn repositories(&self) -> Result<Vec<RepositoryRecord>, Error>;

    /// Adds a repository, or replaces the one with the same key.
    async fn put_repository(&self, repository: &RepositoryRecord) -> Result<(), Error>;

    /// Deletes a repository. Succeeds if it does not exist. Urgent.
    async fn delete_repository(&self, key: &RepositoryKey) -> Result<(), Error>;
}
