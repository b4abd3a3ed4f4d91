//! A session's sandbox: created, or found and woken.

use std::sync::Arc;

use sandbox_api::SandboxId;
use tokio::time::timeout;
use tracing::{info, warn};

use super::activity::InUseMark;
use super::container::Workspace;
use super::order::{Exclusive, Running, State};
use super::readiness::Prepared;
use super::registry::Claim;
use super::sandbox::Sandbox;
use super::{Beginning, Changes, Error, Lifecycle, Seed};
use crate::model::{Refusal, SandboxSpec, Stage, limits};
use crate::seam;
use crate::service::Authorized;
use crate::service::quotas::Denied;

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
    /// The engine's id of its image.
    pub image_id: Option<String>,
}

impl Reconnected {
    fn new(sandbox: &Sandbox, created: bool, woken: bool) -> Self {
        let (id, spec, image_id) = (sandbox.id().clone(), sandbox.labels().spec, sandbox.image_id());
        Self { id, created, woken, spec, image_id }
    }
}

impl Lifecycle {
    /// Returns the sandbox of a session. Creates it if there is none, and wakes it if it is parked. Returns after its
    /// agent has answered. `changes` apply to a sandbox that existed before.
    pub async fn create_or_reconnect(
        self: &Arc<Self>,
        spec: SandboxSpec,
        changes: &Changes,
    ) -> Result<Reconnected, Error> {
        self.create_or_reconnect_with(spec, changes, Beginning::default()).await
    }

    /// Like [`Self::create_or_reconnect`]. `beginning` applies to a new sandbox.
    pub(in crate::service) async fn create_or_reconnect_with(
        self: &Arc<Self>,
        spec: SandboxSpec,
        changes: &Changes,
        beginning: Beginning,
    ) -> Result<Reconnected, Error> {
        let prepared = self.prepared()?.clone();
        self.ownership.ensure_owned().await?;
        self.check_network(&spec.network)?;
        let mut may_take = beginning.fits_started()
            && self.storage.had_room()
            && self.fits_note(&spec, prepared.transport)?;
        for _ in 0..limits::RACE_TRIES {
            let charge = |spec: &SandboxSpec, of_owner| {
                self.quotas.check_spec(spec).map_err(Denied::Quota)?;
                self.quotas.check_subject(&spec.owner, of_owner).map_err(Denied::Quota)?;
                self.quotas.sandbox(&spec.owner.project, spec.resources)
            };
            let take = |spec: &SandboxSpec| may_take.then(|| self.pool.take(spec, &prepared.image)).flatten();
            match self.registry.claim(spec.clone(), prepared.transport, charge, take)? {
                Claim::New(sandbox, guard) => {
                    return self.create(sandbox, guard, prepared, beginning).await;
                }
                Claim::Started(sandbox, guard, started) => {
                    match self.give(Arc::clone(&sandbox), guard, *started).await {
                        Ok(()) => return Ok(Reconnected::new(&sandbox, true, false)),
                        Err(error) => {
                            warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not use a sandbox that waited; starting another one");
                            may_take = false;
                        }
                    }
                }
                Claim::NoUserId if self.make_room_in_pool().await => {}
                Claim::NoUserId | Claim::Full => self.delete_oldest_parked(&spec.owner).await?,
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
        beginning: Beginning,
    ) -> Result<Reconnected, Error> {
        let Beginning { seed, is_tentative } = beginning;
        if is_tentative {
            sandbox.update(|record| record.is_tentative = true);
            self.block(sandbox.id());
        }
        let _mark = InUseMark::request(sandbox.activity());
        let (lifecycle, created) = (Arc::clone(self), Arc::clone(&sandbox));
        let task = self.tasks.spawn(async move {
            lifecycle.create_or_undo(&created, guard, &prepared, seed.as_deref()).await
        });
        match task.await {
            Ok(Ok(())) => Ok(Reconnected::new(&sandbox, true, false)),
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
        seed: Option<&dyn Seed>,
    ) -> Result<(), Arc<Error>> {
        match self.create_steps(sandbox, prepared, seed).await {
            Ok(running) => {
                *state = State::Running(running);
                info!(sandbox = %sandbox.id(), "sandbox created");
                Ok(())
            }
            Err(error) => {
                let error = Arc::new(error);
                *state = State::Failed(Arc::clone(&error));
                self.unblock(sandbox.id());
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
        seed: Option<&dyn Seed>,
    ) -> Result<Running, Error> {
        // First, because it may take minutes, in which others can run.
        let base = match seed.and_then(Seed::base) {
            Some(source) => self.base_below(sandbox, source).await,
            None => None,
        };
        let permit = self.acquire_run_permit(sandbox).await?;
        self.ensure_requested_image(sandbox).await?;
        let is_over_base = self.claim_disk(sandbox, base.as_ref()).await?;
        seam::at("create.disk");
        self.store.begin(&sandbox.record()).await?;
        seam::at("create.intent");
        let agent = self.bring_up(sandbox, prepared, Workspace::New).await?;
        seam::at("create.act");
        if let Some(seed) = seed.filter(|_| !is_over_base) {
            seed.fill(&agent).await?;
            seam::at("seed.act");
        }
        if let Some(seed) = seed {
            seed.keep_values(sandbox).await?;
            seam::at("seed.values");
        }
        self.store.put(&sandbox.update(|record| record.stage = Stage::Running)).await?;
        seam::at("create.outcome");
        let egress = self.begin_egress(sandbox, &agent);
        Ok(Running { agent, permit, egress })
    }

    /// Serves requests to tentative sandboxes. Until then, they are removed at the next start. After an error that may be
    /// so or not, so the caller [removes](Self::remove_tentative) them.
    pub(in crate::service) async fn confirm(&self, ids: &[SandboxId]) -> Result<(), Error> {
        self.store.confirm(ids).await?;
        for id in ids {
            if let Some(sandbox) = self.registry.get(id) {
                sandbox.update(|record| record.is_tentative = false);
            }
            self.unblock(id);
        }
        Ok(())
    }

    /// Deletes a tentative sandbox. One that cannot be deleted now is kept for its session.
    pub(in crate::service) async fn remove_tentative(self: &Arc<Self>, id: &SandboxId) -> Result<(), Error> {
        let removed = self.delete(&Authorized::new(id.clone())).await;
        match removed {
            Ok(()) => self.unblock(id),
            // Used from here on, so the next start must not remove it.
            Err(_) => self.confirm(std::slice::from_ref(id)).await?,
        }
        removed
    }

    /// Returns `None` if the sandbox does not exist any more, so that the caller tries again.
    async fn reconnect(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        changes: &Changes,
    ) -> Result<Option<Reconnected>, Error> {
        self.until_unblocked(sandbox.id()).await?;
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
        if self.is_blocked(sandbox.id()) {
            // Since this waited for the lock.
            return Ok(None);
        }
        match &*state {
            State::Running(_) => {
                self.apply(sandbox, changes).await?;
                Ok(Some(Reconnected::new(sandbox, false, woken)))
            }
            State::Lost => Err(Error::Lost),
            State::Failed(error) => Err(Error::CreateFailed(Arc::clone(error))),
            State::Deleting => {
                drop(state);
                self.delete(&Authorized::new(sandbox.id().clone())).await?;
                Ok(None)
            }
            State::Parked | State::Creating | State::Deleted => Ok(None),
        }
    }
}
