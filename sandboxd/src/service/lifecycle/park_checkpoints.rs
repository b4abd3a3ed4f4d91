//! The snapshot of a sandbox that is about to be parked, in a remote store.
//!
//! The component `snapshots` makes it and implements the trait. An idle sandbox gets its snapshot before it is locked, so that
//! no request waits for the store. If it cannot be made in time, the sandbox is parked without it, and its row records that.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::order::{Running, State};
use super::sandbox::Sandbox;
use super::{Error, Lifecycle, ParkCheckpoints};
use crate::model::{SandboxRecord, Stage, limits};
use crate::seam;

/// State of a sandbox's files in the remote store, as of the sandbox's last use.
#[derive(Debug, Clone, Copy)]
pub(in crate::service) struct StoredFiles {
    last_used_wall_ms: i64,
    pub(super) parked_at_age_ms: Option<u64>,
    pub(super) are_complete: bool,
    /// Whether passive commands ran, which may change files without a use.
    had_passive_commands: bool,
}

impl StoredFiles {
    /// Nothing yet, of the files that the sandbox has now.
    pub(in crate::service) fn none_of(sandbox: &Sandbox) -> Self {
        Self {
            last_used_wall_ms: sandbox.activity().last_used_wall_ms(),
            parked_at_age_ms: sandbox.with_facts(|facts| facts.record.parked_at_age_ms),
            are_complete: false,
            had_passive_commands: sandbox.activity().passive_commands() > 0,
        }
    }

    /// Sets whether they are complete.
    pub(in crate::service) fn complete(self, are_complete: bool) -> Self {
        Self { are_complete, ..self }
    }

    /// Whether the sandbox was used since.
    pub(super) fn are_outdated(self, sandbox: &Sandbox) -> bool {
        sandbox.activity().last_used_wall_ms() != self.last_used_wall_ms
    }

    /// Whether files may have changed without a use.
    pub(super) fn are_uncertain(self, sandbox: &Sandbox) -> bool {
        self.had_passive_commands || sandbox.activity().passive_commands() > 0
    }
}

impl Lifecycle {
    /// Sets the component that makes the snapshots. Later calls have no effect.
    pub(in crate::service) fn set_park_checkpoints(&self, checkpoints: Weak<dyn ParkCheckpoints>) {
        let _ = self.park_checkpoints.set(checkpoints);
    }

    fn park_checkpoints(&self) -> Option<Arc<dyn ParkCheckpoints>> {
        self.park_checkpoints.get()?.upgrade().filter(|checkpoints| checkpoints.are_made())
    }

    /// Time for a park for which another sandbox waits.
    pub(super) fn eviction_wait(&self) -> Duration {
        match self.park_checkpoints() {
            Some(_) => limits::EVICTION_WAIT + limits::EVICTION_CHECKPOINT,
            None => limits::EVICTION_WAIT,
        }
    }

    /// Whether a sandbox is parked, and the remote store, if there is one, may not have its last files.
    pub(super) fn lacks_checkpoint(&self, record: &SandboxRecord) -> bool {
        let is_pending = record.stage == Stage::Parked && record.checkpoint_pending;
        is_pending && self.park_checkpoints().is_some()
    }

    /// The parked sandboxes whose last files the remote store may not have.
    pub(in crate::service) fn lacking_checkpoints(&self) -> Vec<Arc<Sandbox>> {
        let all = self.registry.all().into_iter();
        all.filter(|sandbox| sandbox.with_facts(|facts| self.lacks_checkpoint(&facts.record))).collect()
    }

    /// Notes that the remote store was replaced. The new one has the files of no sandbox.
    pub(in crate::service) async fn note_new_store(&self) {
        for sandbox in self.registry.all() {
            // A sandbox that is about to be woken gets its snapshot at its next park.
            let Some(state) = sandbox.order.try_exclusive() else { continue };
            if matches!(&*state, State::Parked) {
                sandbox.update(|record| record.checkpoint_pending = true);
                self.save(&sandbox).await;
            }
        }
    }

    /// Parks a sandbox that has been idle for too long. Its snapshot is made first. Returns false if it is used meanwhile, or
    /// if a snapshot of it is made already.
    pub(super) async fn park_idle(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<bool, Error> {
        let stored = StoredFiles::none_of(sandbox);
        let (Some(checkpoints), Some(agent)) = (self.park_checkpoints(), sandbox.running_agent_now()) else {
            return self.park_unless_used(sandbox, Some(stored)).await;
        };
        match checkpoints.make_early(sandbox, &agent).await {
            // A stop has interrupted the snapshot. The sandbox keeps running without the daemon.
            Some(false) if self.tasks.is_stopping() => Ok(false),
            Some(are_complete) => self.park_unless_used(sandbox, Some(stored.complete(are_complete))).await,
            None => Ok(false),
        }
    }

    /// Makes the snapshot of a sandbox within `limit`, and parks it. The caller holds the lock.
    pub(super) async fn park_with_checkpoint(
        &self,
        sandbox: &Sandbox,
        state: &mut State,
        limit: Duration,
    ) -> Result<(), Error> {
        self.ownership.ensure_owned().await?;
        let is_stored = match (&*state, self.park_checkpoints()) {
            (State::Running(Running { agent, .. }), Some(checkpoints)) => {
                checkpoints.make(sandbox, agent, limit).await
            }
            _ => false,
        };
        seam::at("park.checkpoint");
        self.park_as(sandbox, state, !is_stored, None).await
    }
}
