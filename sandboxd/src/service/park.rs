//! Parking a sandbox, which takes its container and keeps its files, and waking it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use sandbox_api::SandboxId;
use tokio::time::timeout;
use tracing::{info, warn};

use super::disk::Workspace;
use super::order::{Exclusive, Running, State};
use super::registry::Sandbox;
use super::view::told_by;
use super::{Error, Service};
use crate::agent::{self, AgentHandle};
use crate::engine::Status;
use crate::metrics::Repair;
use crate::model::{Ended, Stage, limits};
use crate::seam;

impl Service {
    /// Parks a sandbox. One in which a command or a program on a terminal runs is parked only by `force`, which ends what runs. Done as
    /// well where it is parked already.
    pub async fn park(self: &Arc<Self>, id: &SandboxId, force: bool) -> Result<(), Error> {
        let sandbox = self.find(id)?;
        let service = Arc::clone(self);
        let task = self.tasks.spawn(async move {
            if !force && sandbox.activity.commands() > 0 {
                return Err(Error::InUse);
            }
            let mut state = match force {
                true => {
                    if let State::Running(Running { agent, .. }) = &*sandbox.order.shared().await {
                        service.record_if_possible(&sandbox, agent).await;
                    }
                    service.exclusive_soon(&sandbox).await?
                }
                false => sandbox.order.exclusive().await,
            };
            match &*state {
                // From here on none can be started.
                State::Running(Running { agent, .. })
                    if !force && service.has_commands(&sandbox, agent).await? =>
                {
                    Err(Error::InUse)
                }
                State::Running(Running { agent, .. }) => {
                    // Of a container that has ended nobody can tell.
                    if !force && agent.is_connected() {
                        service.record_unrecorded(&sandbox, agent).await?;
                    }
                    service.park_held(&sandbox, &mut state).await
                }
                State::Parked => Ok(()),
                State::Lost => Err(Error::Lost),
                _ => Err(Error::NotFound { resource: "sandbox" }),
            }
        });
        task.await.map_err(|source| Error::Task { source })?
    }

    /// Whether a command or a program on a terminal runs in it, started by whomever; an error where nobody can say.
    async fn has_commands(&self, sandbox: &Sandbox, agent: &AgentHandle) -> Result<bool, Error> {
        if sandbox.activity.commands() > 0 {
            return Ok(true);
        }
        let status = self.engine.status(sandbox.id()).await?;
        let runs = matches!(status, Status::Running { .. } | Status::Paused { .. });
        if !runs && !agent.is_connected() {
            return Ok(false);
        }
        match told_by(agent).await {
            Some(info) => Ok(info.is_busy()),
            None => Err(agent::Error::Away { waited: limits::USAGE }.into()),
        }
    }

    /// Lets short requests finish, and breaks off those that take longer once the store has the intent to park: a park
    /// that is refused breaks off nothing.
    async fn exclusive_soon(&self, sandbox: &Sandbox) -> Result<Exclusive, Error> {
        let agent = match &*sandbox.order.shared().await {
            State::Running(Running { agent, .. }) => Some(agent.clone()),
            _ => None,
        };
        let mut exclusive = pin!(sandbox.order.exclusive());
        if let Ok(state) = timeout(limits::PARK_GRACE, exclusive.as_mut()).await {
            return Ok(state);
        }
        if let Some(agent) = agent {
            self.may_act().await?;
            // A delete has cut the connection already.
            if self.store.set_stage_unless_deleting(sandbox.id(), Stage::Parking).await? {
                agent.hang_up();
            }
        }
        let state = exclusive.await;
        if matches!(&*state, State::Parked | State::Lost) {
            // Somebody else came first, and the intent is not what its row should say.
            self.save(sandbox).await;
        }
        Ok(state)
    }

    /// Parks a sandbox that nobody uses; false where somebody does, or where there is nothing to park.
    pub(super) async fn park_if_idle(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<bool, Error> {
        let (service, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        let task = self.tasks.spawn(async move {
            // Whoever holds it uses it.
            let Some(mut state) = sandbox.order.try_exclusive() else {
                return Ok(false);
            };
            let State::Running(Running { agent, .. }) = &*state else {
                return Ok(false);
            };
            if sandbox.activity.is_used() {
                return Ok(false);
            }
            // One of a daemon before that this one was never told of.
            if agent.is_connected() && may_run_commands(agent).await {
                sandbox.activity.touch();
                return Ok(false);
            }
            if service.record_unrecorded(&sandbox, agent).await.is_err() {
                sandbox.activity.touch();
                return Ok(false);
            }
            service.park_held(&sandbox, &mut state).await.map(|()| true)
        });
        task.await.map_err(|source| Error::Task { source })?
    }

    /// Parks a sandbox that the caller holds: its container goes, its files stay.
    pub(super) async fn park_held(&self, sandbox: &Sandbox, state: &mut State) -> Result<(), Error> {
        self.may_act().await?;
        self.store.set_stage(sandbox.id(), Stage::Parking).await?;
        sandbox.update(|record| record.stage = Stage::Parking);
        seam::at("park.intent");
        let disk_bytes = match &*state {
            State::Running(Running { agent, .. }) => self.disk_bytes_of(sandbox, agent).await,
            _ => None,
        };
        if let Err(error) = self.engine.remove_container_of(sandbox.id()).await {
            // It may or may not be there; the next request or the next reconcile finds out.
            sandbox.update(|record| record.stage = Stage::Running);
            self.save(sandbox).await;
            return Err(error.into());
        }
        seam::at("park.act");
        if let State::Running(Running { agent, .. }) = &*state {
            agent.hang_up();
        }
        *state = State::Parked;
        if let Err(error) = self.remove_run_dir_of(sandbox.id()) {
            warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not remove a socket's directory");
        }
        let age = self.age.now_ms();
        sandbox.update(|record| {
            record.stage = Stage::Parked;
            record.parked_at_age_ms = Some(age);
            record.disk_bytes = disk_bytes.or(record.disk_bytes);
        });
        self.end_history_of(sandbox).await;
        self.save(sandbox).await;
        self.leave_bridge(sandbox).await;
        seam::at("park.outcome");
        info!(sandbox = %sandbox.id(), "parked a sandbox");
        Ok(())
    }

    /// Makes sure that a sandbox has a container whose agent answers. True where it had to be brought back.
    pub(super) async fn wake(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<bool, Error> {
        let ready = match &*sandbox.order.shared().await {
            State::Running(Running { agent, .. }) => agent.is_connected(),
            State::Parked | State::Lost => false,
            State::Creating | State::Failed(_) | State::Stuck | State::Deleted => true,
        };
        if ready {
            return Ok(false);
        }
        // Somebody else asks the engine for it already, which does not answer.
        if !sandbox.look(|facts| facts.restored) {
            return Err(Error::NotRestored);
        }
        let (service, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        let task = self.tasks.spawn(async move { service.wake_now(&sandbox).await });
        task.await.map_err(|source| Error::Task { source })?
    }

    async fn wake_now(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<bool, Error> {
        let mut state = sandbox.order.exclusive().await;
        if let State::Running(Running { agent, .. }) = &*state {
            if agent.is_connected() || self.comes_back(sandbox, agent).await? {
                return Ok(false);
            }
            self.verify_engine().await?;
            self.park_held(sandbox, &mut state).await?;
        }
        if matches!(&*state, State::Lost) {
            self.may_act().await?;
            if !self.has_workspace(sandbox).await? {
                return Err(Error::Lost);
            }
            self.find_held(sandbox, &mut state).await;
        }
        match &*state {
            State::Parked => self.wake_held(sandbox, &mut state).await.map(|()| true),
            _ => Ok(false),
        }
    }

    /// Whether the agent of a container that runs is only away for a moment.
    async fn comes_back(&self, sandbox: &Sandbox, agent: &AgentHandle) -> Result<bool, Error> {
        let began = Instant::now();
        while began.elapsed() < limits::AGENT_ABSENCE {
            // Again and again: the engine hears later than the connection that a container has ended.
            match self.engine.status(sandbox.id()).await? {
                // It is there and does not answer. That may pass, so nothing is thrown away. Somebody else may
                // have started it again, and then its first process is another one.
                status @ Status::Running { .. } if !agent.is_over() => {
                    sandbox.peer.send_replace(self.peer_of(status));
                    if agent.connected(limits::RECHECK).await.is_ok() {
                        return Ok(true);
                    }
                }
                Status::Paused { .. } if !agent.is_over() => self.let_go_on(sandbox).await?,
                _ => return Ok(false),
            }
        }
        Err(agent::Error::Away { waited: began.elapsed() }.into())
    }

    async fn wake_held(self: &Arc<Self>, sandbox: &Arc<Sandbox>, state: &mut State) -> Result<(), Error> {
        let prepared = self.prepared()?.clone();
        self.may_act().await?;
        self.allows_network(&sandbox.labels().spec.network)?;
        if !self.has_workspace(sandbox).await? {
            self.lose_held(sandbox, state).await?;
            return Err(Error::Lost);
        }
        let place = self.place().await?;
        self.store.set_stage(sandbox.id(), Stage::Waking).await?;
        sandbox.update(|record| {
            record.stage = Stage::Waking;
            record.transport = prepared.transport;
        });
        seam::at("wake.intent");
        match self.bring_up(sandbox, &prepared, Workspace::Kept).await {
            Ok(agent) => {
                seam::at("wake.act");
                sandbox.update(|record| {
                    record.stage = Stage::Running;
                    record.parked_at_age_ms = None;
                });
                let egress = self.begin_egress(sandbox, &agent);
                *state = State::Running(Running { agent, place: Some(place), egress });
                self.save(sandbox).await;
                seam::at("wake.outcome");
                info!(sandbox = %sandbox.id(), "woke a sandbox");
                Ok(())
            }
            Err(error) => {
                sandbox.update(|record| record.stage = Stage::Parked);
                self.save(sandbox).await;
                self.leave_bridge(sandbox).await;
                Err(error)
            }
        }
    }

    /// Notes that the workspace of a sandbox that the caller holds is missing. Its row stays, and nothing is removed.
    pub(super) async fn lose_held(&self, sandbox: &Sandbox, state: &mut State) -> Result<(), Error> {
        // Another engine has no workspace of ours.
        self.verify_engine().await?;
        sandbox.update(|record| {
            record.stage = Stage::Lost;
            record.parked_at_age_ms = None;
        });
        *state = State::Lost;
        self.save(sandbox).await;
        self.repaired(Repair::Workspace);
        warn!(
            sandbox = %sandbox.id(),
            session = %sandbox.labels().spec.session_key,
            "the files of a sandbox are missing on the engine; it is lost until they are back or it is deleted"
        );
        Ok(())
    }

    /// Takes back a lost sandbox whose workspace is there again.
    pub(super) async fn find_held(&self, sandbox: &Sandbox, state: &mut State) {
        let age = self.age.now_ms();
        sandbox.update(|record| {
            record.stage = Stage::Parked;
            record.parked_at_age_ms = Some(age);
        });
        *state = State::Parked;
        self.save(sandbox).await;
        info!(sandbox = %sandbox.id(), "the files of a lost sandbox are back; it is parked");
    }

    /// Writes down what a sandbox has become. Where the store cannot be written now, the next reconcile does:
    /// what is missing there heals at a start as well, because a container that runs is taken back and one
    /// that does not means a parked sandbox.
    pub(super) async fn save(&self, sandbox: &Sandbox) {
        let saved = self.store.put(&sandbox.record()).await;
        sandbox.set_unsaved(saved.is_err());
        if let Err(error) = saved {
            warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "the store could not be written; trying again later");
        }
    }

    /// Whatever of its commands has no end yet will not get another one.
    pub(super) async fn end_history_of(&self, sandbox: &Sandbox) {
        match self.store.unended(sandbox.id()).await {
            Ok(commands) => {
                for command in commands {
                    self.store.history().ended(sandbox.id(), &command.id, Ended::LOST);
                }
            }
            Err(error) => {
                warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not note the end of lost commands");
            }
        }
    }
}

/// An agent that does not say counts as one that runs something: nothing is thrown away on a doubt.
async fn may_run_commands(agent: &AgentHandle) -> bool {
    told_by(agent).await.is_none_or(|info| info.is_busy())
}
