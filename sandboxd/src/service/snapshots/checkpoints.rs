//! Automatic snapshots, after commands and at intervals.
//!
//! They never delay a command: its end is reported first, and the snapshot is made when the sandbox has been quiet for a
//! moment.

use std::sync::{Arc, Weak};
use std::time::Instant;

use sandbox_api::{CommandId, SandboxId, SnapshotId};
use tokio::time::{timeout, timeout_at};
use tracing::{debug, warn};

use super::one_at_a_time::Busy;
use super::{SnapshotRequest, Snapshots};
use crate::agent::AgentHandle;
use crate::model::{Checkpoints, CommandSpec, limits};
use crate::service::lifecycle::{Act, DueCheckpoint, InUseMark, Sandbox};
use crate::service::{Error, SnapshotError};

impl Snapshots {
    /// Notes that a command has started in a sandbox.
    pub(in crate::service) fn note_start(self: &Arc<Self>, sandbox: &Arc<Sandbox>, spec: &CommandSpec) {
        self.note_running(sandbox, &spec.id, spec.read_only || spec.passive);
    }

    /// Notes that a command runs in a sandbox. The end of a harmless one leads to no checkpoint.
    pub(in crate::service) fn note_running(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        command: &CommandId,
        is_harmless: bool,
    ) {
        sandbox.checkpoints().note_running(command, is_harmless);
        if !is_harmless {
            self.note(sandbox, Act::Started);
        }
    }

    /// Notes that files of a sandbox were changed through the API.
    pub(in crate::service) fn note_files(self: &Arc<Self>, sandbox: &Arc<Sandbox>) {
        self.note(sandbox, Act::Files);
    }

    /// Notes that a command has ended, before its end is reported. Idempotent.
    pub(in crate::service) fn note_end(self: &Arc<Self>, sandbox: &Arc<Sandbox>, command: &CommandId) {
        self.note(sandbox, Act::Command(command));
        // Without checkpoints nothing was noted.
        sandbox.checkpoints().note_ended(command);
    }

    fn note(self: &Arc<Self>, sandbox: &Arc<Sandbox>, act: Act<'_>) {
        let Some(settings) = settings_of(sandbox) else { return };
        let id = match SnapshotId::random() {
            Ok(id) => id,
            Err(error) => {
                return warn!(error = &error as &dyn std::error::Error, "could not name a checkpoint");
            }
        };
        if sandbox.checkpoints().note(settings, act, Instant::now(), id) {
            let (snapshots, sandbox) = (Arc::clone(self), Arc::downgrade(sandbox));
            // Not one of the tasks that a shutdown waits for: the next command leads to the next checkpoint.
            tokio::spawn(async move {
                tokio::select! {
                    () = snapshots.tasks.closing().cancelled() => {}
                    () = snapshots.make_checkpoints(sandbox) => {}
                }
            });
        }
    }

    /// Makes the automatic snapshots of a sandbox when they are due, until there is no next one.
    async fn make_checkpoints(&self, weak: Weak<Sandbox>) {
        while let Some(sandbox) = weak.upgrade() {
            let Some(due) = sandbox.checkpoints().due(settings_of(&sandbox)) else { return };
            let now = Instant::now();
            if due > now {
                // In pieces, so that it notices when the settings change or the sandbox is deleted.
                let until = due.min(now + limits::RECONCILE_EVERY);
                let _ = timeout_at(until.into(), sandbox.checkpoints().until_ended()).await;
                continue;
            }
            self.make_next(&sandbox).await;
            sandbox.checkpoints().note_made(Instant::now());
            self.note_still_running(&sandbox);
        }
    }

    /// Makes the checkpoint that is due. If it cannot be made, it is named no more.
    async fn make_next(&self, sandbox: &Arc<Sandbox>) {
        let made = timeout(limits::EXCLUSIVE_USE, self.make_checkpoint(sandbox)).await;
        let failed: Box<dyn std::error::Error + Send + Sync> = match made {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.into(),
            Err(late) => late.into(),
        };
        self.metrics.checkpoint_failed();
        warn!(sandbox = %sandbox.id(), error = &*failed as &dyn std::error::Error, "could not make a checkpoint");
    }

    /// Makes the pending checkpoint, before a restore changes the files or the sandbox is parked. The caller has the right to
    /// make a snapshot of the sandbox.
    pub(super) async fn make_pending(&self, sandbox: &Sandbox, agent: &AgentHandle) {
        let Some(next) = PendingCheckpoint::take(sandbox) else { return };
        if let Err(error) = self.make_from(sandbox, agent, next).await {
            self.metrics.checkpoint_failed();
            warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not make a checkpoint in time");
        }
    }

    /// Notes that commands still run, which may change files until the next checkpoint.
    fn note_still_running(&self, sandbox: &Sandbox) {
        if sandbox.activity().commands() > 0
            && let (Some(settings), Ok(id)) = (settings_of(sandbox), SnapshotId::random())
        {
            // This is the task that waits for it.
            let _ = sandbox.checkpoints().note(settings, Act::Started, Instant::now(), id);
        }
    }

    async fn make_checkpoint(&self, sandbox: &Arc<Sandbox>) -> Result<(), Error> {
        // The semaphore is never closed. The permit comes first: a task that waits for it must not delay requests.
        let _permit = self.checkpoint_permits.acquire().await;
        let begun = self.begin_checkpoint(sandbox).await;
        // It is no longer due, even if this fails.
        let Some(next) = PendingCheckpoint::take(sandbox) else { return Ok(()) };
        let Some((_busy, agent)) = begun? else {
            debug!(sandbox = %sandbox.id(), "no checkpoint: the sandbox does not run any more");
            return Ok(());
        };
        self.check_room().await?;
        if self.lifecycle.is_blocked(sandbox.id()) {
            return Err(SnapshotError::Blocked.into());
        }
        let Some(settings) = settings_of(sandbox) else { return Ok(()) };
        // Prevents parking, but does not count as use.
        let mark = InUseMark::request(sandbox.activity());
        mark.do_not_count();
        self.make_from(sandbox, &agent, next).await?;
        self.delete_surplus(sandbox.id(), settings.keep()).await
    }

    /// Waits until no other snapshot of the sandbox is made. `None` if the sandbox does not run.
    async fn begin_checkpoint(&self, sandbox: &Sandbox) -> Result<Option<(Busy, AgentHandle)>, Error> {
        for _ in 0..limits::RACE_TRIES {
            // Before it begins, because a park of the sandbox waits for what has begun.
            if sandbox.running_agent().await.is_none() {
                return Ok(None);
            }
            let busy = self.busy.begin_checkpoint(sandbox.id()).await;
            if let Some(agent) = sandbox.running_agent_now() {
                return Ok(agent.is_connected().then_some((busy, agent)));
            }
        }
        Err(Error::ConcurrentTransitions)
    }

    async fn make_from(
        &self,
        sandbox: &Sandbox,
        agent: &AgentHandle,
        mut next: PendingCheckpoint<'_>,
    ) -> Result<(), Error> {
        let Some(due) = &next.due else { return Ok(()) };
        let request = SnapshotRequest::automatic(sandbox, due);
        self.storage.while_space_lasts(self.make_with(sandbox.id(), agent, request)).await?;
        next.due = None;
        Ok(())
    }

    /// Deletes the oldest automatic snapshots. One that is in use is deleted after a later checkpoint.
    pub(super) async fn delete_surplus(&self, id: &SandboxId, keep: u32) -> Result<(), Error> {
        let surplus = self.store.surplus_checkpoints(id, keep, limits::EXPIRED_SNAPSHOTS).await?;
        for record in surplus {
            match self.delete_by_daemon(&record, "surplus checkpoint").await {
                Ok(()) | Err(Error::Snapshot(SnapshotError::InUse)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A checkpoint whose id was returned. Dropping it withdraws the id.
struct PendingCheckpoint<'a> {
    sandbox: &'a Sandbox,
    due: Option<DueCheckpoint>,
}

impl<'a> PendingCheckpoint<'a> {
    fn take(sandbox: &'a Sandbox) -> Option<Self> {
        sandbox.checkpoints().take().map(|due| Self { sandbox, due: Some(due) })
    }
}

impl Drop for PendingCheckpoint<'_> {
    fn drop(&mut self) {
        if let Some(due) = &self.due {
            self.sandbox.checkpoints().forget(&due.id);
        }
    }
}

pub(super) fn settings_of(sandbox: &Sandbox) -> Option<Checkpoints> {
    sandbox.with_spec(|spec| spec.checkpoints)
}
