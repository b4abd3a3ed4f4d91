//! Deleting a sandbox with its container, its files and its row.
//!
//! The store gets the intent first. A delete that fails or is cut off is completed by a later reconcile or by the next
//! start.

use std::sync::Arc;

use sandbox_api::SandboxId;
use tracing::{info, warn};

use super::order::{Running, State};
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::model::Stage;
use crate::model::audit::Act;
use crate::service::Authorized;
use crate::{seam, store};

impl Lifecycle {
    /// Deletes a sandbox with all its files. Idempotent: succeeds if the sandbox does not exist.
    pub async fn delete(self: &Arc<Self>, id: &Authorized<SandboxId>) -> Result<(), Error> {
        let Some(sandbox) = self.registry.get(id) else {
            self.prepared()?;
            return Ok(());
        };
        let lifecycle = Arc::clone(self);
        self.tasks.run_detached(async move { lifecycle.delete_now(&sandbox).await }).await
    }

    async fn delete_now(&self, sandbox: &Sandbox) -> Result<(), Error> {
        let mut is_intended = false;
        if let State::Running(Running { agent, .. }) = &*sandbox.order.shared().await {
            // First, because a rejected delete must not cut off any request.
            self.record_delete_intent(sandbox).await?;
            is_intended = true;
            // Before the connection is cut, so that the requests fail with the reason.
            sandbox.set_deleted(true);
            // Ends the requests that use the sandbox, instead of waiting for them.
            agent.close();
        }
        sandbox.set_deleted(true);
        let mut state = sandbox.order.exclusive().await;
        if matches!(*state, State::Failed(_) | State::Deleted) {
            return Ok(());
        }
        let done = self.delete_locked(sandbox, &mut state).await;
        if matches!(*state, State::Running(_)) {
            // The delete failed and the sandbox is still usable, so its row must not keep the intent.
            self.save(sandbox).await;
            if is_intended && sandbox.with_facts(|facts| facts.unsaved) {
                // The row keeps the intent, and the next start would delete the sandbox. So it must not be used until
                // then.
                sandbox.update(|record| record.stage = Stage::Deleting);
                *state = State::Deleting;
            }
        }
        // A sandbox of which nothing was removed is usable again.
        sandbox.set_deleted(matches!(*state, State::Deleting | State::Deleted));
        done
    }

    /// Writes to the store that a sandbox is about to be deleted. If this fails, the sandbox stays as it is.
    async fn record_delete_intent(&self, sandbox: &Sandbox) -> Result<(), Error> {
        self.ownership.ensure_owned().await?;
        match self.store.set_stage(sandbox.id(), Stage::Deleting).await {
            Ok(()) => Ok(()),
            // Its create failed before there was a row.
            Err(error) if error.kind() == store::ErrorKind::Absent => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes a sandbox. The caller holds the lock.
    pub(super) async fn delete_locked(&self, sandbox: &Sandbox, state: &mut State) -> Result<(), Error> {
        self.record_delete_intent(sandbox).await?;
        sandbox.update(|record| record.stage = Stage::Deleting);
        seam::at("delete.intent");
        // This drops its run permit, whether the rest succeeds or not.
        *state = State::Deleting;
        let attachments = self.attachments();
        if let Some(attachments) = &attachments {
            attachments.before_delete(sandbox.id()).await?;
        }
        self.tear_down(sandbox).await?;
        seam::at("delete.act");
        self.store.remove(sandbox.id()).await?;
        seam::at("delete.outcome");
        *state = State::Deleted;
        self.registry.remove(sandbox);
        sandbox.outbound().close_denials();
        self.release_bridge(sandbox).await;
        if let Some(attachments) = &attachments {
            attachments.after_delete(sandbox.id()).await;
        }
        info!(sandbox = %sandbox.id(), "sandbox deleted");
        Ok(())
    }

    /// Removes what a failed create left. After an error the sandbox is marked as deleting, so that a reconcile
    /// retries.
    pub(super) async fn undo_failed_create(&self, sandbox: &Sandbox) {
        if let Err(error) = self.undo_create(sandbox).await {
            warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not remove what a failed create left; retrying later");
            *sandbox.order.exclusive().await = State::Deleting;
        }
    }

    /// Removes what a failed create left.
    pub(super) async fn undo_create(&self, sandbox: &Sandbox) -> Result<(), Error> {
        sandbox.update(|record| record.stage = Stage::Deleting);
        self.tear_down(sandbox).await?;
        self.store.remove(sandbox.id()).await?;
        self.registry.remove(sandbox);
        sandbox.outbound().close_denials();
        self.release_bridge(sandbox).await;
        Ok(())
    }

    /// Deletes a sandbox if it is parked and no request is about to use it. Idempotent: succeeds if it does not exist.
    pub async fn delete_if_parked(self: &Arc<Self>, id: &Authorized<SandboxId>) -> Result<(), Error> {
        let Some(sandbox) = self.registry.get(id) else {
            self.prepared()?;
            return Ok(());
        };
        // Without waiting for the lock of a sandbox that runs.
        if matches!(sandbox.stage(), Stage::Creating | Stage::Running | Stage::Waking) {
            return Err(Error::NotParked);
        }
        let lifecycle = Arc::clone(self);
        self.tasks
            .run_detached(async move {
                // A task that only reads the state may hold the lock briefly. A request that will use the sandbox has
                // marked it as used.
                let mut state = sandbox.order.exclusive().await;
                match &*state {
                    State::Deleted => Ok(()),
                    State::Parked if !sandbox.activity().is_used() => {
                        lifecycle.delete_locked(&sandbox, &mut state).await
                    }
                    _ => Err(Error::NotParked),
                }
            })
            .await
    }

    /// Deletes a sandbox if it is still parked, no request is about to use it, and `is_due` still holds. Returns
    /// whether it was deleted. `reason` is for the audit record.
    pub(super) async fn delete_parked(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        reason: &'static str,
        is_due: impl Fn(&Self) -> bool,
    ) -> Result<bool, Error> {
        let Some(mut state) = sandbox.order.try_exclusive() else {
            return Ok(false);
        };
        let parked = matches!(&*state, State::Parked);
        if !parked || sandbox.activity().is_used() || !is_due(self) {
            return Ok(false);
        }
        let recorder = self.recorder(Act::SandboxDelete, sandbox, reason);
        recorder.begin().await?;
        recorder.ended(self.delete_locked(sandbox, &mut state).await).map(|()| true)
    }
}
