//! Deleting a sandbox with everything it has.

use std::sync::Arc;

use sandbox_api::SandboxId;
use tracing::{info, warn};

use super::order::{Running, State};
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::model::Stage;
use crate::{seam, store};

impl Lifecycle {
    /// Deletes a sandbox with everything it has; done as well where there is none.
    pub async fn delete(self: &Arc<Self>, id: &SandboxId) -> Result<(), Error> {
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
            // First, because a delete that is refused lets nobody go.
            self.intend_to_delete(sandbox).await?;
            is_intended = true;
            // Set before the connection is cut, so that callers learn the reason.
            sandbox.set_deleted(true);
            // Whoever uses it now is let go at once instead of being waited for.
            agent.hang_up();
        }
        sandbox.set_deleted(true);
        let mut state = sandbox.order.exclusive().await;
        if matches!(*state, State::Failed(_) | State::Deleted) {
            return Ok(());
        }
        let done = self.delete_held(sandbox, &mut state).await;
        if matches!(*state, State::Running(_)) {
            // Nobody may find the intent in its row later.
            self.save(sandbox).await;
            if is_intended && sandbox.look(|facts| facts.unsaved) {
                // The next start would follow it, so nobody may use the sandbox meanwhile.
                sandbox.update(|record| record.stage = Stage::Deleting);
                *state = State::Stuck;
            }
        }
        // One that could not be deleted and is used again is there.
        sandbox.set_deleted(matches!(*state, State::Stuck | State::Deleted));
        done
    }

    /// Writes down that a sandbox is about to be deleted. Nothing of it is touched where this fails.
    async fn intend_to_delete(&self, sandbox: &Sandbox) -> Result<(), Error> {
        self.ownership.ensure_owned().await?;
        match self.store.set_stage(sandbox.id(), Stage::Deleting).await {
            // Its create failed before there was a row.
            Ok(()) | Err(store::Error::Absent { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes a sandbox that the caller holds.
    pub(super) async fn delete_held(&self, sandbox: &Sandbox, state: &mut State) -> Result<(), Error> {
        self.intend_to_delete(sandbox).await?;
        sandbox.update(|record| record.stage = Stage::Deleting);
        seam::at("delete.intent");
        // A place it has is free from now on, whatever becomes of the rest.
        *state = State::Stuck;
        let attachments = self.attachments();
        if let Some(attachments) = &attachments {
            attachments.before_delete(sandbox.id()).await?;
        }
        self.take_down(sandbox).await?;
        seam::at("delete.act");
        self.store.remove(sandbox.id()).await?;
        seam::at("delete.outcome");
        *state = State::Deleted;
        self.registry.remove(sandbox);
        self.leave_bridge(sandbox).await;
        if let Some(attachments) = &attachments {
            attachments.after_delete(sandbox.id()).await;
        }
        info!(sandbox = %sandbox.id(), "deleted a sandbox");
        Ok(())
    }

    pub(super) async fn undo_or_leave(&self, sandbox: &Sandbox) {
        if let Err(error) = self.undo(sandbox).await {
            warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "a failed sandbox could not be removed");
            *sandbox.order.exclusive().await = State::Stuck;
        }
    }

    /// Removes what a failed create left.
    pub(super) async fn undo(&self, sandbox: &Sandbox) -> Result<(), Error> {
        sandbox.update(|record| record.stage = Stage::Deleting);
        self.take_down(sandbox).await?;
        self.store.remove(sandbox.id()).await?;
        self.registry.remove(sandbox);
        self.leave_bridge(sandbox).await;
        Ok(())
    }

    /// Deletes a sandbox if it is parked and nobody is about to use it; done as well where there is none.
    pub async fn delete_if_parked(self: &Arc<Self>, id: &SandboxId) -> Result<(), Error> {
        let Some(sandbox) = self.registry.get(id) else {
            self.prepared()?;
            return Ok(());
        };
        // What runs need not be waited for.
        if matches!(sandbox.stage(), Stage::Creating | Stage::Running | Stage::Waking) {
            return Err(Error::NotParked);
        }
        let lifecycle = Arc::clone(self);
        self.tasks
            .run_detached(async move {
                // Whoever only looks at it may hold it for a moment; whoever will use it has marked it.
                let mut state = sandbox.order.exclusive().await;
                match &*state {
                    State::Deleted => Ok(()),
                    State::Parked if !sandbox.activity().is_used() => {
                        lifecycle.delete_held(&sandbox, &mut state).await
                    }
                    _ => Err(Error::NotParked),
                }
            })
            .await
    }

    /// Deletes a sandbox if it is still parked, nobody is about to use it, and `still` holds; whether it did.
    pub(super) async fn delete_parked(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        still: impl Fn(&Self) -> bool,
    ) -> Result<bool, Error> {
        let Some(mut state) = sandbox.order.try_exclusive() else {
            return Ok(false);
        };
        let parked = matches!(&*state, State::Parked);
        if !parked || sandbox.activity().is_used() || !still(self) {
            return Ok(false);
        }
        self.delete_held(sandbox, &mut state).await.map(|()| true)
    }
}
