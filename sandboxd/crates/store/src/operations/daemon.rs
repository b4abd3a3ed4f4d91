//! Operations on what the store keeps about the daemon itself: its age, its identity and the orphans on its
//! engine.

use crate::{AuditHead, Error, Identity, Store};
use sandboxd_model::Orphan;

impl Store {
    /// The daemon's age: how long it has been running over all its starts, in milliseconds, as of the last
    /// [`Store::set_age_ms`]. Retention uses it instead of the wall clock, which can jump.
    pub async fn age_ms(&self) -> Result<u64, Error> {
        self.database.age_ms().await
    }

    /// Writes the daemon's age.
    pub async fn set_age_ms(&self, age_ms: u64) -> Result<(), Error> {
        self.age.set_ms(age_ms);
        self.database.set_age_ms(age_ms).await
    }

    /// What the last start stored.
    pub async fn identity(&self) -> Result<Identity, Error> {
        self.database.identity().await
    }

    /// Writes the identity of the instance and of its engine.
    pub async fn set_identity(&self, identity: &Identity) -> Result<(), Error> {
        self.database.set_identity(identity).await
    }

    /// Id of the remote store that has the snapshots. `None` is the directory in the state dir.
    pub async fn snapshot_store(&self) -> Result<Option<String>, Error> {
        self.database.snapshot_store().await
    }

    /// Writes the id of the store that has the snapshots.
    pub async fn set_snapshot_store(&self, store: Option<&str>) -> Result<(), Error> {
        self.database.set_snapshot_store(store).await
    }

    /// The last line of the audit record, as of the last [`Store::set_audit_head`].
    pub async fn audit_head(&self) -> Result<Option<AuditHead>, Error> {
        self.database.audit_head().await
    }

    /// Writes the last line of the audit record. It must be on the disk, because a line that is missing later is a fault.
    pub async fn set_audit_head(&self, head: &AuditHead) -> Result<(), Error> {
        self.database.set_audit_head(head).await
    }

    /// The orphans on the engine, as of the last [`Store::set_orphans`].
    pub async fn orphans(&self) -> Result<Vec<Orphan>, Error> {
        self.database.orphans().await
    }

    /// Replaces the orphans on the engine.
    pub async fn set_orphans(&self, orphans: &[Orphan]) -> Result<(), Error> {
        self.database.set_orphans(orphans).await
    }
}
