//! A session's sandbox: created, or found again.

use std::sync::Arc;

use sandbox_api::SandboxId;
use tokio::time::timeout;
use tracing::info;

use super::activity::InUseMark;
use super::container::Workspace;
use super::order::{Exclusive, Running, State};
use super::prepare::Prepared;
use super::registry::Claim;
use super::sandbox::Sandbox;
use super::{Changes, Error, Lifecycle};
use crate::model::{Refusal, SandboxSpec, Stage, limits};
use crate::seam;

/// The sandbox a session has now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconnected {
    /// Its id.
    pub id: SandboxId,
    /// It was made for this call.
    pub created: bool,
    /// It had been parked, or its container had ended, and it was started again.
    pub woken: bool,
    /// What it is made from, which may differ from what was asked for now.
    pub spec: SandboxSpec,
}

impl Lifecycle {
    /// The sandbox of a session, made if there is none, brought back if it was parked. Answers when its agent
    /// has. One that is there takes over `changes`.
    pub async fn create_or_reconnect(
        self: &Arc<Self>,
        spec: SandboxSpec,
        changes: &Changes,
    ) -> Result<Reconnected, Error> {
        let prepared = self.prepared()?.clone();
        self.ownership.ensure_owned().await?;
        self.allows_network(&spec.network)?;
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
        Err(Error::Unsettled)
    }

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
        let task = self.tasks.spawn(async move { lifecycle.make(&sandbox, guard, &prepared).await });
        match task.await {
            Ok(Ok(())) => Ok(created),
            Ok(Err(error)) => Err(Error::CreateFailed(error)),
            Err(source) => Err(Error::Task { source }),
        }
    }

    async fn make(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        mut state: Exclusive,
        prepared: &Prepared,
    ) -> Result<(), Arc<Error>> {
        match self.make_step_by_step(sandbox, prepared).await {
            Ok(running) => {
                *state = State::Running(running);
                info!(sandbox = %sandbox.id(), "made a sandbox");
                Ok(())
            }
            Err(error) => {
                let error = Arc::new(error);
                *state = State::Failed(Arc::clone(&error));
                // From here on nobody touches it but its removal, so nobody has to wait for that for long.
                drop(state);
                let (lifecycle, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
                let undo = self.tasks.spawn(async move { lifecycle.undo_or_leave(&sandbox).await });
                let _ = timeout(limits::UNDO, undo).await;
                Err(error)
            }
        }
    }

    async fn make_step_by_step(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        prepared: &Prepared,
    ) -> Result<Running, Error> {
        let permit = self.run_permit().await?;
        self.ensure_image_of(sandbox).await?;
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

    /// `None` where the sandbox turned out to be gone.
    async fn reconnect(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        changes: &Changes,
    ) -> Result<Option<Reconnected>, Error> {
        let _mark = InUseMark::request(sandbox.activity());
        // Before it is woken, because its next container is made of it.
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
            State::Stuck => {
                drop(state);
                self.delete(sandbox.id()).await?;
                Ok(None)
            }
            State::Parked | State::Creating | State::Deleted => Ok(None),
        }
    }
}
