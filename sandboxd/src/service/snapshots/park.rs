//! Makes a snapshot of each parked sandbox in the remote store, so that its files survive the loss of this machine.
//!
//! An unavailable store does not prevent a park. The snapshot is then made when the store answers and the sandbox can be woken
//! for a moment without another one being parked for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::BoxFuture;
use sandbox_api::SnapshotId;
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::checkpoints::settings_of;
use super::{SnapshotRequest, Snapshots};
use crate::agent::{self, AgentHandle};
use crate::model::{Checkpoints, limits};
use crate::service::lifecycle::{DueCheckpoint, ParkCheckpoints, Sandbox, StoredFiles};
use crate::service::{Error, SnapshotError};

impl ParkCheckpoints for Snapshots {
    fn are_made(&self) -> bool {
        self.has_remote_store()
    }

    fn make<'a>(
        self: Arc<Self>,
        sandbox: &'a Sandbox,
        agent: &'a AgentHandle,
        limit: Duration,
    ) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            if self.parked.has_store_failed() {
                return false;
            }
            let made = Box::pin(async {
                // The semaphore is never closed. The permit comes first: a task that waits for it must not delay requests.
                let _permit = self.park_permits.acquire().await;
                let _busy = self.busy.begin_at_park(sandbox.id()).await?;
                self.make_unless_same(sandbox, agent, true).await
            });
            self.make_within(limit, sandbox, made).await
        })
    }

    fn make_early<'a>(
        self: Arc<Self>,
        sandbox: &'a Sandbox,
        agent: &'a AgentHandle,
    ) -> BoxFuture<'a, Option<bool>> {
        Box::pin(async move {
            let _permit = self.park_permits.try_acquire().ok()?;
            let _busy = self.busy.begin_checkpoint_now(sandbox.id())?;
            if self.parked.has_store_failed() {
                return Some(false);
            }
            let made = Box::pin(self.make_unless_same(sandbox, agent, false));
            Some(self.make_within(limits::IDLE_CHECKPOINT, sandbox, made).await)
        })
    }
}

impl Snapshots {
    /// Makes the snapshots that could not be made when their sandboxes were parked, one after the other, as long as there is
    /// room to wake one.
    pub(in crate::service) async fn make_missed_checkpoints(self: &Arc<Self>) {
        while self.has_remote_store()
            && !self.parked.has_store_failed()
            && let Some(sandbox) = self.parked.next_due(self.lifecycle.lacking_checkpoints())
            && self.lifecycle.has_room(&sandbox.owner().project)
        {
            // Before the sandbox is woken.
            match self.check_store().await {
                Ok(()) => {}
                Err(error) => return self.parked.note_store(is_of_store(&error)),
            }
            self.parked.note_attempt(sandbox.id());
            self.make_missed(&sandbox).await;
        }
    }

    /// Fails if the store does not answer, or has no room.
    async fn check_store(&self) -> Result<(), Error> {
        self.check_room().await?;
        self.packs.check_owner().await
    }

    /// Wakes a sandbox for its snapshot. It may be parked for another one meanwhile.
    async fn make_missed(self: &Arc<Self>, sandbox: &Arc<Sandbox>) {
        let stored = StoredFiles::none_of(sandbox);
        let _permit = self.park_permits.acquire().await;
        info!(sandbox = %sandbox.id(), "making the snapshot that was not possible when the sandbox was parked");
        let made = Box::pin(async {
            let (sandbox, agent, mark) = self.lifecycle.in_use_by_daemon(sandbox.id()).await?.unlock();
            drop(mark);
            let _busy = self.busy.begin_at_park(sandbox.id()).await?;
            self.make_unless_same(&sandbox, &agent, false).await
        });
        let stored = stored.complete(self.make_within(limits::IDLE_CHECKPOINT, sandbox, made).await);
        if let Err(error) = self.lifecycle.park_unless_used(sandbox, Some(stored)).await {
            debug!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not park a sandbox again");
        }
    }

    /// Makes a snapshot of a sandbox, unless the last one has the same files and is kept for as long as the sandbox. The caller
    /// has the right to make it, and a permit: not one of [`Snapshots::checkpoint_permits`], whose owners may wait for a park.
    async fn make_unless_same(
        &self,
        sandbox: &Sandbox,
        agent: &AgentHandle,
        pause: bool,
    ) -> Result<(), Error> {
        if !agent.is_connected() {
            return Err(agent::Error::NotConnected { waited: Duration::ZERO }.into());
        }
        if self.lifecycle.is_blocked(sandbox.id()) {
            return Err(SnapshotError::Blocked.into());
        }
        self.check_room().await?;
        // A checkpoint that is due is made in any case, because its id was returned with the end of a command.
        self.make_pending(sandbox, agent).await;
        let id = SnapshotId::random().map_err(|source| Error::Randomness { source })?;
        let mut request = SnapshotRequest::automatic(sandbox, &DueCheckpoint { id, command: None });
        request.pause = pause;
        request.ttl = Some(limits::CHECKPOINT_TTL + self.workspace_retention);
        request.reuse_if_kept_for = Some(self.workspace_retention);
        let made = Box::pin(self.make_with(sandbox.id(), agent, request));
        self.storage.while_space_lasts(made).await.map(drop)
    }

    /// Waits for a snapshot. Returns whether it was made within `limit`, and before the daemon stops.
    async fn make_within(
        self: &Arc<Self>,
        limit: Duration,
        sandbox: &Sandbox,
        made: BoxFuture<'_, Result<(), Error>>,
    ) -> bool {
        let made = tokio::select! {
            made = timeout(limit, made) => made,
            () = self.tasks.stopping().cancelled() => return false,
        };
        let failed: Box<dyn std::error::Error + Send + Sync> = match made {
            Ok(Ok(())) => {
                self.parked.note_store(false);
                self.delete_surplus_later(sandbox);
                return true;
            }
            Ok(Err(error)) => {
                if is_of_store(&error) {
                    self.parked.note_store(true);
                }
                error.into()
            }
            Err(late) => {
                // Less time may be too short for large files.
                if limit >= limits::IDLE_CHECKPOINT {
                    self.parked.note_store(true);
                }
                late.into()
            }
        };
        // The stored chunks may be unused now.
        self.was_deleted.store(true, Ordering::Relaxed);
        self.metrics.checkpoint_failed();
        let error = &*failed as &dyn std::error::Error;
        warn!(sandbox = %sandbox.id(), error, "the remote store may not have the files of a sandbox that is parked; it gets them later");
        false
    }

    fn delete_surplus_later(self: &Arc<Self>, sandbox: &Sandbox) {
        let keep = settings_of(sandbox).map_or(limits::DEFAULT_CHECKPOINTS_KEPT, Checkpoints::keep);
        let (snapshots, id) = (Arc::clone(self), sandbox.id().clone());
        // A stop does not wait for it. The next snapshot leads to the next attempt.
        tokio::spawn(async move {
            let deleted = tokio::select! {
                () = snapshots.tasks.closing().cancelled() => return,
                deleted = snapshots.delete_surplus(&id, keep) => deleted,
            };
            if let Err(error) = deleted {
                debug!(sandbox = %id, error = &error as &dyn std::error::Error, "could not delete the oldest snapshots");
            }
        });
    }
}

fn is_of_store(error: &Error) -> bool {
    matches!(
        error,
        Error::Snapshot(
            SnapshotError::StoreFailed { .. }
                | SnapshotError::StoreClosed { .. }
                | SnapshotError::NoSpace { .. }
        )
    )
}
