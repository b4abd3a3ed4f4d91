//! Removes what is kept beyond the budget, what belongs to nothing, and sandboxes that are not used any more.

use std::sync::Arc;

use tracing::{info, warn};

use super::{Repositories, own};
use crate::model::repository::{RepositoryKey, RepositoryRecord, SANDBOX_KEYS};
use crate::model::{Stage, limits};
use crate::service::lifecycle::Sandbox;
use crate::service::{Authorized, Error};

impl Repositories {
    /// Deletes the sandboxes of commands that are parked, because a new one is as fast as a wake, and snapshots that belong to
    /// no repository, because the daemon was killed in between. Called periodically.
    pub(in crate::service) async fn tidy_up(&self) -> Result<(), Error> {
        for sandbox in self.lifecycle.all().iter().filter(|sandbox| is_unused(sandbox)) {
            if let Err(error) = self.lifecycle.delete_if_parked(&Authorized::new(sandbox.id().clone())).await
            {
                let error = &error as &dyn std::error::Error;
                info!(sandbox = %sandbox.id(), error, "could not delete the sandbox of a repository yet");
            }
        }
        let Ok(_recording) = self.recording.try_write() else { return Ok(()) };
        let owner = own();
        let mut before = None;
        loop {
            let page = self.snapshots.list(&owner, None, before.as_ref(), limits::MAX_SNAPSHOT_PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            before = Some(last.cursor());
            for snapshot in page.iter().filter(|snapshot| !self.kept.has_snapshot(&snapshot.id)) {
                self.snapshots.delete(&Authorized::new(snapshot.id.clone())).await?;
            }
        }
    }

    /// Removes the least recently used repositories until the others fit the budget. Never `newest`.
    pub(super) async fn make_room(&self, newest: &RepositoryKey) {
        for record in self.kept.surplus(self.settings.kept_bytes, newest) {
            self.forget(&record).await;
        }
    }

    /// Removes a repository. If a step fails, the upkeep continues: a snapshot without a record is deleted, and a record
    /// without a snapshot is fetched again.
    pub(super) async fn forget(&self, record: &RepositoryRecord) {
        if !self.kept.remove(record) {
            return;
        }
        let forgotten = async {
            self.store.forget_repository(&record.key).await?;
            self.snapshots.delete(&Authorized::new(record.snapshot.clone())).await
        };
        if let Err(error) = forgotten.await {
            let error = &error as &dyn std::error::Error;
            warn!(repository = %record.key.origin, error, "could not remove a fetched repository yet");
        }
    }
}

fn is_unused(sandbox: &Arc<Sandbox>) -> bool {
    let is_of_repository = || sandbox.with_spec(|spec| spec.session_key.as_str().starts_with(SANDBOX_KEYS));
    sandbox.stage() == Stage::Parked && is_of_repository()
}
