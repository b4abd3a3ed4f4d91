//! The snapshots of the backend in memory.

use async_trait::async_trait;
use sandbox_api::{SandboxId, SnapshotId};
use sandboxd_model::value::KeptValue;
use sandboxd_model::{Owner, RestoreRecord, SnapshotCursor, SnapshotRecord, SnapshotState};
use sandboxd_store::{Error, ErrorKind, SnapshotTable};

use super::{Opened, Tables, value_table};

impl Tables {
    /// The snapshots, newest first.
    fn snapshots(&self) -> Vec<SnapshotRecord> {
        let mut found: Vec<_> = self.snapshots.values().cloned().collect();
        found.sort_by_key(|record| (record.created_at_ms, record.id.clone()));
        found.reverse();
        found
    }

    /// The snapshots that follow this position, newest first.
    fn snapshots_before(&self, before: Option<&SnapshotCursor>) -> Vec<SnapshotRecord> {
        let position = |cursor: &SnapshotCursor| (cursor.created_at_ms, cursor.id.clone());
        let mut found = self.snapshots();
        found.retain(|record| before.is_none_or(|before| position(&record.cursor()) < position(before)));
        found
    }
}

#[async_trait]
impl SnapshotTable for Opened {
    async fn snapshots(&self) -> Result<Vec<SnapshotRecord>, Error> {
        self.read(Tables::snapshots)
    }

    async fn snapshot(&self, id: &SnapshotId) -> Result<Option<SnapshotRecord>, Error> {
        self.read(|tables| tables.snapshots.get(id).cloned())
    }

    async fn latest_snapshot_of(&self, sandbox: &SandboxId) -> Result<Option<SnapshotRecord>, Error> {
        let found = self.read(Tables::snapshots)?;
        Ok(found.into_iter().find(|record| record.sandbox == *sandbox))
    }

    async fn snapshots_seen_by(
        &self,
        owner: &Owner,
        sandbox: Option<&SandboxId>,
        before: Option<&SnapshotCursor>,
        limit: u32,
    ) -> Result<Vec<SnapshotRecord>, Error> {
        let mut found = self.read(|tables| tables.snapshots_before(before))?;
        found.retain(|record| owner.covers(&record.owner));
        found.retain(|record| sandbox.is_none_or(|sandbox| record.sandbox == *sandbox));
        found.truncate(limit as usize);
        Ok(found)
    }

    async fn expired_snapshots(&self, now_ms: i64, limit: u32) -> Result<Vec<SnapshotRecord>, Error> {
        let mut found = self.read(Tables::snapshots)?;
        found.retain(|record| record.expires_at_ms.is_some_and(|at_ms| at_ms <= now_ms));
        found.sort_by_key(|record| (record.expires_at_ms, record.id.clone()));
        found.truncate(limit as usize);
        Ok(found)
    }

    async fn surplus_checkpoints(
        &self,
        sandbox: &SandboxId,
        keep: u32,
        limit: u32,
    ) -> Result<Vec<SnapshotRecord>, Error> {
        let mut found = self.read(Tables::snapshots)?;
        found.retain(|record| record.sandbox == *sandbox && record.automatic);
        Ok(found.into_iter().skip(keep as usize).take(limit as usize).collect())
    }

    async fn insert_snapshot(&self, record: &SnapshotRecord) -> Result<(), Error> {
        self.write(|tables| match tables.snapshots.insert(record.id.clone(), record.clone()) {
            Some(_) => Err(Error::new(ErrorKind::Refused, "there is such a snapshot")),
            None => Ok(()),
        })
    }

    async fn set_snapshot_state(&self, id: &SnapshotId, state: SnapshotState) -> Result<bool, Error> {
        self.write(|tables| Ok(tables.snapshots.get_mut(id).map(|record| record.state = state).is_some()))
    }

    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<(), Error> {
        self.write(|tables| {
            tables.snapshots.remove(id);
            Ok(())
        })
    }

    async fn restores(&self) -> Result<Vec<RestoreRecord>, Error> {
        self.read(|tables| tables.restores.values().cloned().collect())
    }

    async fn put_restore(&self, record: &RestoreRecord) -> Result<(), Error> {
        self.write(|tables| {
            tables.restores.insert(record.sandbox.clone(), record.clone());
            Ok(())
        })
    }

    async fn delete_restore(&self, sandbox: &SandboxId) -> Result<(), Error> {
        self.write(|tables| {
            tables.restores.remove(sandbox);
            Ok(())
        })
    }

    async fn delete_restore_with(&self, sandbox: &SandboxId, values: &[KeptValue]) -> Result<(), Error> {
        self.write(|tables| {
            value_table::replace(tables, sandbox, values)?;
            tables.restores.remove(sandbox);
            Ok(())
        })
    }
}
