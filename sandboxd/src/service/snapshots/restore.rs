//! Restores: the files and values of a sandbox become those of a snapshot, in place.
//!
//! Before anything is changed, a snapshot of the present files and values is made, the *checkpoint*, and the intent is recorded. If
//! the restore is interrupted, the files may be a mixture. Then the sandbox serves no request until [`super::resume`] has
//! finished or undone the restore. Both start from the files as they are then. The values are replaced in the same
//! transaction that records the end, so they are never a mixture.

use std::sync::Arc;
use std::time::Instant;

use futures::stream::BoxStream;
use sandbox_api::{SandboxId, SnapshotId};
use tracing::warn;

use super::seed::upload_error;
use super::time_limit::within_limit;
use super::values::{AllValues, LoadedValues, values_of};
use super::{Pin, SnapshotOptions, SnapshotRequest, Snapshots, root_of, steps};
use crate::agent::AgentHandle;
use crate::model::snapshot::{RestoreStep, Restored};
use crate::model::{RestoreRecord, SnapshotRecord, SnapshotState, limits};
use crate::seam;
use crate::service::Authorized;
use crate::service::lifecycle::Sandbox;
use crate::service::{Error, SnapshotError};

/// Result of a restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoreDone {
    /// The snapshot that was made before. Its restore undoes this one.
    pub checkpoint: SnapshotId,
    /// Number of entries that were written and removed.
    pub restored: Restored,
}

impl Snapshots {
    /// Turns the files and values of a sandbox into those of a snapshot. If a command or a program on a terminal runs, this
    /// fails, unless `force` is set, which ends what runs.
    pub async fn restore(
        self: &Arc<Self>,
        id: &Authorized<SandboxId>,
        snapshot: &Authorized<SnapshotId>,
        force: bool,
    ) -> Result<RestoreDone, Error> {
        let (snapshots, id, snapshot) = (Arc::clone(self), id.clone(), snapshot.clone());
        self.tasks.run_detached(async move { snapshots.restore_now(&id, &snapshot, force).await }).await
    }

    async fn restore_now(
        &self,
        id: &SandboxId,
        snapshot: &SnapshotId,
        force: bool,
    ) -> Result<RestoreDone, Error> {
        let (target, _pin) = self.pinned(snapshot).await?;
        let _busy = self.busy.begin(id).await?;
        let _turn = self.turn(&self.lifecycle.find(id)?.owner().project).await?;
        self.storage.check_space(values_of(&target)?.map_or(0, |values| values.size)).await?;
        let began = Instant::now();
        let exclusive = self.lifecycle.exclusively(id, force).await?;
        if self.lifecycle.is_blocked(id) {
            return Err(SnapshotError::Blocked.into());
        }
        let sandbox = self.lifecycle.find(id)?;
        self.make_pending(&sandbox, exclusive.agent()).await;
        let restored = self.checkpoint_and_restore(&sandbox, exclusive.agent(), &target);
        let done = within_limit(self.storage.while_space_lasts(restored)).await?;
        sandbox.checkpoints().set_latest(Some(target.id.clone()));
        self.metrics.restored(began.elapsed());
        Ok(done)
    }

    async fn checkpoint_and_restore(
        &self,
        sandbox: &Sandbox,
        agent: &AgentHandle,
        target: &SnapshotRecord,
    ) -> Result<RestoreDone, Error> {
        let id = sandbox.id();
        // Before the checkpoint, which has all changes that were made until then.
        let mut values = self.values.all_of(sandbox).await;
        let (checkpoint, pin) = self.checkpoint(id, agent, target).await?;
        seam::at("restore.checkpoint");
        // Planned before the intent: if the snapshot cannot be read, nothing was changed.
        let steps = self.plan(id, &checkpoint, target).await?;
        if checkpoint.values != target.values
            && let Some(goal) = self.values_of_target(target).await?
        {
            values.begin(goal).await?;
        }
        if let Err(error) = self.begin(id, target, &checkpoint, pin).await {
            values.keep().await;
            return Err(error);
        }
        seam::at("restore.intent");
        let restored = agent.restore(steps).await.map_err(upload_error);
        seam::at("restore.act");
        match restored {
            Ok(restored) => {
                self.end_with(id, values).await?;
                seam::at("restore.outcome");
                Ok(RestoreDone { checkpoint: checkpoint.id, restored })
            }
            Err(error) => {
                warn!(sandbox = %id, error = &error as &dyn std::error::Error, "a restore has failed and is undone");
                self.converge(agent, Some(&checkpoint), &checkpoint).await?;
                values.keep().await;
                self.end(id).await?;
                Err(error)
            }
        }
    }

    /// The values that a sandbox gets with the files of a snapshot. `None` keeps what it has.
    pub(super) async fn values_of_target(
        &self,
        target: &SnapshotRecord,
    ) -> Result<Option<LoadedValues>, Error> {
        match values_of(target)? {
            Some(content) => Ok(Some(self.values.load(self.packs.packs().await?, &content).await?)),
            None => Ok(None),
        }
    }

    /// Makes a snapshot of the present files and values, and pins it.
    async fn checkpoint(
        &self,
        id: &SandboxId,
        agent: &AgentHandle,
        target: &SnapshotRecord,
    ) -> Result<(SnapshotRecord, Pin), Error> {
        let options = SnapshotOptions {
            name: Some(format!("before the restore of {}", target.id)),
            ttl: Some(limits::RESTORE_CHECKPOINT_TTL),
            pause: false,
        };
        let request = SnapshotRequest::new(&*self.lifecycle.find(id)?, options)?;
        let (checkpoint, _) = self.make_with(id, agent, request).await?;
        self.pinned(&checkpoint.id).await
    }

    /// The steps from the present files, which the checkpoint has, to those of the target. If data is lost, the error says
    /// which of the two needs it.
    async fn plan(
        &self,
        id: &SandboxId,
        checkpoint: &SnapshotRecord,
        target: &SnapshotRecord,
    ) -> Result<BoxStream<'static, Result<RestoreStep, Error>>, Error> {
        let packs = self.packs.packs().await?;
        let (present, goal) = (root_of(checkpoint)?, root_of(target)?);
        match steps::steps(packs, Some(&present), &goal).await {
            Err(Error::Snapshot(SnapshotError::Damaged { source }))
                if steps::steps(packs, None, &goal).await.is_ok() =>
            {
                // Data that has not changed since the last snapshot is lost. The next one is not based on it.
                self.store.set_snapshot_state(&checkpoint.id, SnapshotState::Damaged).await?;
                Err(self.present_damaged(id, source).await)
            }
            steps => steps,
        }
    }

    /// Records the intent. From here on the sandbox serves no request until the end.
    async fn begin(
        &self,
        id: &SandboxId,
        target: &SnapshotRecord,
        checkpoint: &SnapshotRecord,
        pin: Pin,
    ) -> Result<(), Error> {
        let record = RestoreRecord {
            sandbox: id.clone(),
            snapshot: target.id.clone(),
            checkpoint: checkpoint.id.clone(),
        };
        let pins = self.pins.pin(&target.id).into_iter().chain([pin]).collect();
        self.lifecycle.block(id);
        self.interrupted().insert(id.clone(), pins);
        let begun = self.store.begin_restore(&record).await;
        if begun.is_err() {
            // It may be recorded nevertheless. If this fails too, the sandbox stays blocked and is resumed.
            self.end(id).await?;
        }
        Ok(begun?)
    }

    /// Gives the sandbox its values, and notes that it has its files.
    pub(super) async fn end_with(&self, id: &SandboxId, values: AllValues<'_>) -> Result<(), Error> {
        match values.goal() {
            // If this fails, it is tried again with the files. Nothing else can be done: it may be recorded nevertheless.
            Some(goal) => self.store.end_restore_with(id, goal).await?,
            None => self.store.end_restore(id).await?,
        }
        values.replaced();
        self.release(id);
        Ok(())
    }

    /// Notes that the sandbox has the files of one snapshot, and the values that it had.
    pub(super) async fn end(&self, id: &SandboxId) -> Result<(), Error> {
        self.store.end_restore(id).await?;
        self.release(id);
        Ok(())
    }

    /// Turns whatever files there are into those of `goal`. What `parent` has is not sent.
    pub(super) async fn converge(
        &self,
        agent: &AgentHandle,
        parent: Option<&SnapshotRecord>,
        goal: &SnapshotRecord,
    ) -> Result<Restored, Error> {
        let temporary = SnapshotId::random().map_err(|source| Error::Randomness { source })?;
        let whole = parent.filter(|parent| parent.state != SnapshotState::Damaged);
        // It protects the chunks of the present files, which no snapshot has.
        let (present, _) = self.receive_present(agent, &temporary, whole, false, None).await?;
        let packs = self.packs.packs().await?;
        let steps = steps::steps(packs, Some(&present.made.root), &root_of(goal)?).await?;
        agent.restore(steps).await.map_err(upload_error)
    }
}
