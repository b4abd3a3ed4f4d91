//! Operations on snapshots.

use sandbox_api::{SandboxId, SnapshotId};

use crate::{Error, ErrorKind, Store};
use sandboxd_model::value::KeptValue;
use sandboxd_model::{Owner, RestoreRecord, SnapshotCursor, SnapshotRecord, SnapshotState};

impl Store {
    /// All snapshots at one point in time, newest first. A collection of unused chunks needs them.
    pub async fn all_snapshots(&self) -> Result<Vec<SnapshotRecord>, Error> {
        self.database.snapshots().await
    }

    /// One snapshot.
    pub async fn snapshot(&self, id: &SnapshotId) -> Result<Option<SnapshotRecord>, Error> {
        self.database.snapshot(id).await
    }

    /// Up to `limit` snapshots that `owner` [covers](Owner::covers), newest first. With `sandbox`, only those of this
    /// sandbox. With `before`, those that follow this position.
    pub async fn snapshots_seen_by(
        &self,
        owner: &Owner,
        sandbox: Option<&SandboxId>,
        before: Option<&SnapshotCursor>,
        limit: u32,
    ) -> Result<Vec<SnapshotRecord>, Error> {
        self.database.snapshots_seen_by(owner, sandbox, before, limit).await
    }

    /// The newest snapshot of a sandbox.
    pub async fn latest_snapshot(&self, sandbox: &SandboxId) -> Result<Option<SnapshotRecord>, Error> {
        self.database.latest_snapshot_of(sandbox).await
    }

    /// Up to `limit` snapshots that expire at `now_ms` or earlier, in milliseconds since the Unix epoch. The one that expired
    /// first comes first.
    pub async fn expired_snapshots(&self, now_ms: i64, limit: u32) -> Result<Vec<SnapshotRecord>, Error> {
        self.database.expired_snapshots(now_ms, limit).await
    }

    /// Up to `limit` automatic snapshots of a sandbox besides the newest `keep`, newest first.
    pub async fn surplus_checkpoints(
        &self,
        sandbox: &SandboxId,
        keep: u32,
        limit: u32,
    ) -> Result<Vec<SnapshotRecord>, Error> {
        self.database.surplus_checkpoints(sandbox, keep, limit).await
    }

    /// Writes a new snapshot. Fails if there is one with the same id.
    pub async fn add_snapshot(&self, record: &SnapshotRecord) -> Result<(), Error> {
        self.database.insert_snapshot(record).await
    }

    /// Writes the state of a snapshot. Fails with [`ErrorKind::Absent`] if the store does not have it.
    pub async fn set_snapshot_state(&self, id: &SnapshotId, state: SnapshotState) -> Result<(), Error> {
        match self.database.set_snapshot_state(id, state).await? {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Absent, format!("the store has no snapshot {id}"))),
        }
    }

    /// Deletes a snapshot. Idempotent: succeeds if it does not exist.
    pub async fn forget_snapshot(&self, id: &SnapshotId) -> Result<(), Error> {
        self.database.delete_snapshot(id).await
    }

    /// All restores that have begun and not ended.
    pub async fn restores(&self) -> Result<Vec<RestoreRecord>, Error> {
        self.database.restores().await
    }

    /// Notes that a restore begins, before anything is changed.
    pub async fn begin_restore(&self, record: &RestoreRecord) -> Result<(), Error> {
        self.database.put_restore(record).await
    }

    /// Notes that the restore of a sandbox has ended: the sandbox has the files of one snapshot.
    pub async fn end_restore(&self, sandbox: &SandboxId) -> Result<(), Error> {
        self.database.delete_restore(sandbox).await
    }

    /// As [`Self::end_restore`], together with [`Self::replace_values`]: both are done or none.
    pub async fn end_restore_with(&self, sandbox: &SandboxId, values: &[KeptValue]) -> Result<(), Error> {
        self.database.delete_restore_with(sandbox, values).await
    }
}
