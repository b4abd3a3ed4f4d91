//! Interrupted restores: found at the start, and finished or undone.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use sandbox_api::SandboxId;
use tracing::{info, warn};

use super::time_limit::within_limit;
use super::values::LoadedValues;
use super::{Pin, Snapshots};
use crate::agent::AgentHandle;
use crate::model::{RestoreRecord, SnapshotRecord};
use crate::service::Error;

impl Snapshots {
    /// Blocks the sandboxes whose restore was interrupted when the daemon ended, before they accept requests.
    pub(in crate::service) async fn block_interrupted(&self) -> Result<(), Error> {
        for record in self.store.restores().await? {
            let pins = [&record.snapshot, &record.checkpoint].map(|id| self.pins.pin(id));
            self.interrupted().insert(record.sandbox.clone(), pins.into_iter().flatten().collect());
            self.lifecycle.block(&record.sandbox);
        }
        Ok(())
    }

    /// Resumes interrupted restores in tasks of their own, because a sandbox may be slow. Those that fail are tried again
    /// with the next call.
    pub(in crate::service) async fn resume_interrupted(self: &Arc<Self>) -> Result<(), Error> {
        // Before the records are read: one that is interrupted after that has a record that is not among them.
        let blocked: Vec<SandboxId> = self.interrupted().keys().cloned().collect();
        let records = self.store.restores().await?;
        for id in blocked {
            if records.iter().all(|record| record.sandbox != id) && self.busy.begin_now(&id).is_some() {
                // Its end was recorded, although the store had reported an error.
                self.release(&id);
            }
        }
        for record in records {
            let snapshots = Arc::clone(self);
            drop(self.tasks.spawn(async move { snapshots.resume(&record).await }));
        }
        Ok(())
    }

    async fn resume(&self, record: &RestoreRecord) {
        // A restore that is running is not interrupted.
        let Some(_busy) = self.busy.begin_now(&record.sandbox) else { return };
        match within_limit(self.finish(record)).await {
            Ok(()) => info!(sandbox = %record.sandbox, "an interrupted restore has ended"),
            Err(error) => {
                warn!(sandbox = %record.sandbox, error = &error as &dyn std::error::Error, "an interrupted restore is not finished; it is tried again");
            }
        }
    }

    async fn finish(&self, record: &RestoreRecord) -> Result<(), Error> {
        let id = &record.sandbox;
        if !self.store.restores().await?.contains(record) {
            return Ok(());
        }
        let Some(sandbox) = self.lifecycle.registered(id) else {
            // It is deleted.
            return self.end(id).await;
        };
        let _turn = self.turn(&sandbox.owner().project).await?;
        let exclusive = self.lifecycle.exclusively(id, true).await?;
        let (agent, mut values) = (exclusive.agent(), self.values.all_of(&sandbox).await);
        // Only the goal is necessary. Without the checkpoint, everything is read again.
        let checkpoint = self.record(&record.checkpoint).await.ok();
        let finished = match self.record(&record.snapshot).await {
            Ok(target) => self.converge_with(agent, checkpoint.as_ref(), &target).await,
            Err(error) => Err(error),
        };
        match (finished, &checkpoint) {
            (Ok(Some(goal)), _) => values.begin_anyway(goal),
            // Until the end of a restore, the sandbox has the values that it had before.
            (Ok(None), _) => {}
            (Err(error), Some(checkpoint)) => {
                warn!(sandbox = %id, error = &error as &dyn std::error::Error, "an interrupted restore cannot be finished and is undone");
                self.converge(agent, Some(checkpoint), checkpoint).await?;
            }
            (Err(error), None) => return Err(error),
        }
        self.end_with(id, values).await
    }

    /// As [`Self::converge`]. Returns the values of the goal, which are read before a file is changed.
    async fn converge_with(
        &self,
        agent: &AgentHandle,
        parent: Option<&SnapshotRecord>,
        goal: &SnapshotRecord,
    ) -> Result<Option<LoadedValues>, Error> {
        let values = self.values_of_target(goal).await?;
        self.converge(agent, parent, goal).await?;
        Ok(values)
    }

    /// Serves requests to a sandbox again.
    pub(super) fn release(&self, id: &SandboxId) {
        self.interrupted().remove(id);
        self.lifecycle.unblock(id);
    }

    /// Every change of the map is complete, so a panic elsewhere leaves it valid.
    pub(super) fn interrupted(&self) -> MutexGuard<'_, HashMap<SandboxId, Vec<Pin>>> {
        self.interrupted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
