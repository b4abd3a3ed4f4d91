//! A session's sandbox: created, or found and woken.

use std::sync::Arc;

use sandbox_api::SandboxId;
use tokio::time::timeout;
use tracing::info;

use super::activity::InUseMark;
use super::container::Workspace;
use super::order::{Exclusive, Running, State};
use super::readiness::Prepared;
use super::registry::Claim;
use super::sandbox::Sandbox;
use super::{Changes, Error, Lifecycle};
use crate::model::{Refusal, SandboxSpec, Stage, limits};
use crate::seam;

/// The sandbox that a session has now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconnected {
    /// Its id.
    pub id: SandboxId,
    /// It was created by this call.
    pub created: bool,
    /// This call woke it: it was parked, or its container had ended.
    pub woken: bool,
    /// Its current spec, which may differ from the spec of this call.
    pub spec: SandboxSpec,
}

impl Lifecycle {
    /// Returns the sandbox of a session. Creates it if there is none, and wakes it if it is parked. Returns after its
    /// agent has answered. `changes` apply to a sandbox that existed before.
    pub async fn create_or_reconnect(
        self: &Arc<Self>,
        spec: SandboxSpec,
        changes: &Changes,
    ) -> Result<Reconnected, Error> {
        let prepared = self.prepared()?.clone();
        self.ownership.ensure_owned().await?;
        self.check_network(&spec.network)?;
        for _ in 0..limits::RACE_TRIES {
            match self.registry.claim(spec.clone(), prepared.transport)? {
                Claim::New(sandbox, guard) => return self.create(sandbox, guard, prepared).await,
                Claim::NoUserId => self.delete_oldest_parked().await?,
                Claim::Existing(sandbox) => {
                    if let Some(found) = self.reconnect(&sandbox, changes).await? {
                        return Ok(found);
                    }
                }
            }
        }
        Err(Error::ConcurrentTransitions)
    }

    /// Creates a sandbox in a tracked task, which finishes even if the client disconnects.
    async fn create(
        self: &Arc<Self>,
        sandbox: Arc<Sandbox>,
        guard: Exclusive,
        prepared: Prepared,
    ) -> Result<Reconnected, Error> {
        let _mark = InUseMark::request(sandbox.activity());
        let created = Reconnected {
            id: sandbox.id().clone(),
            created: true,
            woken: false,
            spec: sandbox.labels().spec,
        };
        let lifecycle = Arc::clone(self);
        let task =
            self.tasks.spawn(async move { lifecycle.create_or_undo(&sandbox, guard, &prepared).await });
        match task.await {
            Ok(Ok(())) => Ok(created),
            Ok(Err(error)) => Err(Error::CreateFailed(error)),
            Err(source) => Err(Error::Task { source }),
        }
    }

    /// Creates a sandbox, or removes what a failed create left.
    async fn create_or_undo(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        mut state: Exclusive,
        prepared: &Prepared,
    ) -> Result<(), Arc<Error>> {
        match self.create_steps(sandbox, prepared).await {
            Ok(running) => {
                *state = State::Running(running);
                info!(sandbox = %sandbox.id(), "sandbox created");
                Ok(())
            }
            Err(error) => {
                let error = Arc::new(error);
                *state = State::Failed(Arc::clone(&error));
                // From here on only this task changes it, so callers need not wait long for the removal.
                drop(state);
                let (lifecycle, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
                let undo = self.tasks.spawn(async move { lifecycle.undo_failed_create(&sandbox).await });
                let _ = timeout(limits::UNDO_CREATE, undo).await;
                Err(error)
            }
        }
    }

    /// The steps of a create. After an error the caller removes what they left.
    async fn create_steps(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        prepared: &Prepared,
    ) -> Result<Running, Error> {
        let permit = self.acquire_run_permit().await?;
        self.ensure_requested_image(sandbox).await?;
        self.claim_disk(sandbox).await?;
        seam::at("create.disk");
        self.store.begin(&sandbox.record()).await?;
        seam::at("create.intent");
        let agent = self.bring_up(sandbox, prepared, Workspace::New).await?;
        seam::at("create.act");
        self.store.put(&sandbox.update(|record| record.stage = Stage::Running)).await?;
        seam::at("create.outcome");
        let egress = self.egress.begin(sandbox.outbound(), &agent);
        Ok(Running { agent, permit: Some(permit), egress })
    }

    /// Returns `None` if the sandbox does not exist any more, so that the caller tries again.
    async fn reconnect(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        changes: &Changes,
    ) -> Result<Option<Reconnected>, Error> {
        let _mark = InUseMark::request(sandbox.activity());
        // Before the wake, because the next container is created from the changed spec.
        if let State::Parked = &*sandbox.order.shared().await {
            self.apply(sandbox, changes).await?;
        }
        let woken = match self.wake(sandbox).await {
            Err(Error::Refused(Refusal::NotFound(_))) => false,
            other => other?,
        };
        let state = sandbox.order.shared().await;
        match &*state {
            State::Running(_) => {
                self.apply(sandbox, changes).await?;
                let id = sandbox.id().clone();
                Ok(Some(Reconnected { id, created: false, woken, spec: sandbox.labels().spec }))
            }
            State::Lost => Err(Error::Lost),
            State::Failed(error) => Err(Error::CreateFailed(Arc::clone(error))),
            State::Deleting => {
                drop(state);
                self.delete(sandbox.id()).await?;
                Ok(None)
            }
            State::Parked | State::Creating | State::Deleted => Ok(None),
        }
    }
}
