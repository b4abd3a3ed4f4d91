//! Removes what is kept beyond the budget, and what belongs to nothing.

use std::sync::Arc;

use tracing::warn;

use super::{KeptSet, Packages, all_of};
use crate::model::packages::PackageSetKey;
use crate::service::{Authorized, Error};

impl Packages {
    /// Deletes snapshots that another one has replaced, or that could not be deleted before. Called periodically.
    pub(in crate::service) async fn tidy_up(&self) -> Result<(), Error> {
        let Ok(_recording) = self.recording.try_write() else { return Ok(()) };
        for record in all_of(&self.snapshots).await? {
            if !self.kept.has_snapshot(&record.id) {
                self.snapshots.delete(&Authorized::new(record.id)).await?;
            }
        }
        Ok(())
    }

    /// Removes the least recently used sets until the others fit the budget. Never `newest`.
    pub(super) async fn make_room(self: &Arc<Self>, newest: &PackageSetKey) {
        for set in self.kept.surplus(self.settings.kept_bytes, newest) {
            self.forget(&set).await;
        }
    }

    /// Removes a set. If its snapshot cannot be deleted now, the upkeep does it.
    pub(super) async fn forget(&self, set: &KeptSet) {
        if !self.kept.remove(set) {
            return;
        }
        if let Err(error) = self.snapshots.delete(&Authorized::new(set.snapshot.clone())).await {
            let error = &error as &dyn std::error::Error;
            warn!(key = %set.key, error, "could not remove a set of packages yet");
        }
    }
}
