//! A session's sandbox: made, found again, deleted.

use std::sync::Arc;

use sandbox_api::SandboxId;
use tokio::time::timeout;
use tracing::{info, warn};

use super::activity::InUseMark;
use super::disk::Workspace;
use super::order::{Exclusive, Running, State};
use super::prepare::Prepared;
use super::registry::{Claim, Sandbox};
use super::{Error, Service};
use crate::agent::AgentHandle;
use crate::engine::ContainerPlan;
use crate::model::network::NetworkWish;
use crate::model::{SandboxSpec, Stage, Transport, limits};
use crate::{engine, seam, store};

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

/// Settings that an existing sandbox takes over from a later create.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// How long it may be idle.
    pub idle_ttl: Option<std::time::Duration>,
    /// Ports that may be previewed.
    pub ports: Option<Vec<u16>>,
    /// What it may reach.
    pub network: Option<NetworkWish>,
}

impl Service {
    /// The sandbox of a session, made if there is none, brought back if it was parked. Answers when its agent
    /// has. One that is there takes over `changes`.
    pub async fn create_or_reconnect(
        self: &Arc<Self>,
        spec: SandboxSpec,
        changes: &Changes,
    ) -> Result<Reconnected, Error> {
        let prepared = self.prepared()?.clone();
        self.may_act().await?;
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
        let _mark = InUseMark::request(&sandbox.activity);
        let created = Reconnected {
            id: sandbox.id().clone(),
            created: true,
            woken: false,
            spec: sandbox.labels().spec,
        };
        let service = Arc::clone(self);
        let task = self.tasks.spawn(async move { service.make(&sandbox, guard, &prepared).await });
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
                let (service, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
                let undo = self.tasks.spawn(async move { service.undo_or_leave(&sandbox).await });
                let _ = timeout(limits::UNDO, undo).await;
                Err(error)
            }
        }
    }

    async fn undo_or_leave(&self, sandbox: &Sandbox) {
        if let Err(error) = self.undo(sandbox).await {
            warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "a failed sandbox could not be removed");
            *sandbox.order.exclusive().await = State::Stuck;
        }
    }

    async fn make_step_by_step(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        prepared: &Prepared,
    ) -> Result<Running, Error> {
        let place = self.place().await?;
        self.ensure_image_of(sandbox).await?;
        self.claim_disk(sandbox).await?;
        seam::at("create.disk");
        self.store.begin(&sandbox.record()).await?;
        seam::at("create.intent");
        let agent = self.bring_up(sandbox, prepared, Workspace::New).await?;
        seam::at("create.act");
        self.store.put(&sandbox.update(|record| record.stage = Stage::Running)).await?;
        seam::at("create.outcome");
        let egress = self.begin_egress(sandbox, &agent);
        Ok(Running { agent, place: Some(place), egress })
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

    /// Makes and starts the container and waits for its agent. Where that fails there is no container; the
    /// workspace is the caller's to keep or to remove.
    pub(super) async fn bring_up(
        &self,
        sandbox: &Sandbox,
        prepared: &Prepared,
        workspace: Workspace,
    ) -> Result<AgentHandle, Error> {
        sandbox.peer.send_replace(crate::agent::Peer::NotKnownYet);
        let agent = self.open_door(sandbox)?;
        let started = async {
            let attached = self.attach(sandbox).await?;
            seam::at("start.attached");
            let plan = self.plan_of(sandbox, prepared);
            if plan.network.is_some() {
                self.ensure_bridge().await?;
            }
            match workspace {
                Workspace::New => self.engine.create_and_start(&plan).await?,
                Workspace::Kept => self.engine.create_again_and_start(&plan).await?,
            }
            seam::at("start.started");
            attached.release().await?;
            self.await_agent(sandbox, &agent).await
        };
        match started.await {
            Ok(()) => Ok(agent),
            Err(error) => {
                agent.hang_up();
                if let Err(second) = self.engine.remove_container_of(sandbox.id()).await {
                    warn!(sandbox = %sandbox.id(), error = &second as &dyn std::error::Error, "a container that did not start could not be removed");
                }
                Err(error)
            }
        }
    }

    pub(super) fn plan_of(&self, sandbox: &Sandbox, prepared: &Prepared) -> ContainerPlan {
        let labels = sandbox.labels();
        let run_dir = match labels.transport {
            Transport::Socket => Some(self.run_dir_of(sandbox.id()).to_string_lossy().into_owned()),
            Transport::Engine => None,
        };
        ContainerPlan {
            image: labels.spec.image.clone().unwrap_or_else(|| prepared.image.clone()),
            agent_volume: prepared.agent_volume.clone(),
            agent_secret: self.instance.agent_secret(sandbox.id()),
            disk_device: self.device_of(labels.disk.as_ref()),
            run_dir,
            network: labels.spec.network.is_open().then(|| self.bridge_name()),
            has_ca_bundle: self.setup.egress.ca_bundle.is_some(),
            labels,
        }
    }

    /// `None` where the sandbox turned out to be gone.
    async fn reconnect(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        changes: &Changes,
    ) -> Result<Option<Reconnected>, Error> {
        let _mark = InUseMark::request(&sandbox.activity);
        // Before it is woken, because its next container is made of it.
        if let State::Parked = &*sandbox.order.shared().await {
            self.apply(sandbox, changes).await?;
        }
        let woken = match self.wake(sandbox).await {
            Err(Error::NotFound { .. }) => false,
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

    /// Makes a sandbox that is there follow what a later caller wishes. Where the store cannot be written, that is an
    /// error, the change holds for now, and its row follows as soon as it can: a caller that tries again must not be
    /// told that all is well while it does not.
    pub(super) async fn apply(&self, sandbox: &Sandbox, changes: &Changes) -> Result<(), Error> {
        let before = sandbox.labels().spec;
        let idle_ttl = changes.idle_ttl.unwrap_or(before.idle_ttl);
        let ports = changes.ports.clone().unwrap_or_else(|| before.ports.clone());
        let wish = changes.network.as_ref();
        let network = wish.map_or_else(|| before.network.clone(), |wish| before.network.clone().with(wish));
        let is_same = (idle_ttl, &ports, &network) == (before.idle_ttl, &before.ports, &before.network);
        let names_any = changes.idle_ttl.is_some() || changes.ports.is_some() || wish.is_some();
        if is_same && !(names_any && sandbox.look(|facts| facts.unsaved)) {
            return Ok(());
        }
        self.allows_change(sandbox, &network)?;
        let record = sandbox.update(|record| {
            record.spec.idle_ttl = idle_ttl;
            record.spec.ports = ports;
            if let Some(wish) = wish {
                // Somebody else may have changed the rest of it just now.
                record.spec.network = record.spec.network.clone().with(wish);
                sandbox.egress.set_policy(record.spec.network.clone());
            }
        });
        self.follow_policy(sandbox);
        let saved = self.store.put(&record).await;
        sandbox.set_unsaved(saved.is_err());
        Ok(saved?)
    }

    /// Deletes a sandbox with everything it has; done as well where there is none.
    pub async fn delete(self: &Arc<Self>, id: &SandboxId) -> Result<(), Error> {
        let Some(sandbox) = self.registry.get(id) else {
            self.prepared()?;
            return Ok(());
        };
        let service = Arc::clone(self);
        let task = self.tasks.spawn(async move { service.delete_now(&sandbox).await });
        task.await.map_err(|source| Error::Task { source })?
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
        self.may_act().await?;
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
        self.unpublish_all(sandbox.id()).await?;
        self.take_down(sandbox).await?;
        seam::at("delete.act");
        self.store.remove(sandbox.id()).await?;
        seam::at("delete.outcome");
        *state = State::Deleted;
        self.registry.remove(sandbox);
        self.leave_bridge(sandbox).await;
        self.end_links_of(sandbox.id()).await;
        info!(sandbox = %sandbox.id(), "deleted a sandbox");
        Ok(())
    }

    /// Removes container, volume, disk and socket.
    pub(super) async fn take_down(&self, sandbox: &Sandbox) -> Result<(), Error> {
        let removed = self.engine.remove(sandbox.id()).await;
        seam::at("remove.volume");
        match removed {
            Ok(()) => match self.give_up_disk(sandbox).await {
                // The daemon that has disks again sweeps it.
                Err(error @ Error::NoDisks) => {
                    warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "a deleted sandbox's disk stays");
                }
                other => other?,
            },
            // The engine may have the disk mounted, too. Nobody else can use it; each sweep tries again.
            Err(error @ engine::Error::Miscounted { .. }) => {
                let disk = self.give_up_disk(sandbox).await;
                self.expect_removal(sandbox.id()).await;
                warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, disk_is_gone = disk.is_ok(), "a deleted volume stays until the engine is restarted");
            }
            Err(error) => return Err(error.into()),
        }
        self.remove_run_dir_of(sandbox.id())
    }
}
