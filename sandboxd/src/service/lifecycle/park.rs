//! Parking a sandbox, which removes its container and keeps its files.

use std::pin::pin;
use std::sync::Arc;

use sandbox_api::SandboxId;
use tokio::time::timeout;
use tracing::{info, warn};

use super::order::{Exclusive, Running, State};
use super::sandbox::Sandbox;
use super::view::info_of;
use super::{Error, Lifecycle};
use crate::agent::{self, AgentHandle};
use crate::engine::Status;
use crate::model::{Refusal, Resource, Stage, limits};
use crate::seam;

impl Lifecycle {
    /// Parks a sandbox. One in which a command or a program on a terminal runs is parked only by `force`, which ends what runs. Done as
    /// well where it is parked already.
    pub async fn park(self: &Arc<Self>, id: &SandboxId, force: bool) -> Result<(), Error> {
        let sandbox = self.find(id)?;
        let lifecycle = Arc::clone(self);
        self.tasks
            .run_detached(async move {
                if !force && sandbox.activity().commands() > 0 {
                    return Err(Error::InUse);
                }
                let mut state = match force {
                    true => {
                        if let State::Running(Running { agent, .. }) = &*sandbox.order.shared().await {
                            lifecycle.history.record_if_possible(sandbox.ledger(), agent).await;
                        }
                        lifecycle.exclusive_soon(&sandbox).await?
                    }
                    false => sandbox.order.exclusive().await,
                };
                match &*state {
                    // From here on none can be started.
                    State::Running(Running { agent, .. })
                        if !force && lifecycle.has_commands(&sandbox, agent).await? =>
                    {
                        Err(Error::InUse)
                    }
                    State::Running(Running { agent, .. }) => {
                        // Of a container that has ended nobody can tell.
                        if !force && agent.is_connected() {
                            lifecycle.history.record_unrecorded(sandbox.ledger(), agent).await?;
                        }
                        lifecycle.park_held(&sandbox, &mut state).await
                    }
                    State::Parked => Ok(()),
                    State::Lost => Err(Error::Lost),
                    _ => Err(Refusal::NotFound(Resource::Sandbox).into()),
                }
            })
            .await
    }

    /// Whether a command or a program on a terminal runs in it, started by whomever; an error where nobody can say.
    async fn has_commands(&self, sandbox: &Sandbox, agent: &AgentHandle) -> Result<bool, Error> {
        if sandbox.activity().commands() > 0 {
            return Ok(true);
        }
        let status = self.engine.status(sandbox.id()).await?;
        let runs = matches!(status, Status::Running { .. } | Status::Paused { .. });
        if !runs && !agent.is_connected() {
            return Ok(false);
        }
        match info_of(agent).await {
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
            self.ownership.ensure_owned().await?;
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
        let (lifecycle, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        self.tasks
            .run_detached(async move {
                // Whoever holds it uses it.
                let Some(mut state) = sandbox.order.try_exclusive() else {
                    return Ok(false);
                };
                let State::Running(Running { agent, .. }) = &*state else {
                    return Ok(false);
                };
                if sandbox.activity().is_used() {
                    return Ok(false);
                }
                // One of a daemon before that this one was never told of.
                if agent.is_connected() && may_run_commands(agent).await {
                    sandbox.activity().touch();
                    return Ok(false);
                }
                if lifecycle.history.record_unrecorded(sandbox.ledger(), agent).await.is_err() {
                    sandbox.activity().touch();
                    return Ok(false);
                }
                lifecycle.park_held(&sandbox, &mut state).await.map(|()| true)
            })
            .await
    }

    /// Parks a sandbox that the caller holds: its container goes, its files stay.
    pub(super) async fn park_held(&self, sandbox: &Sandbox, state: &mut State) -> Result<(), Error> {
        self.ownership.ensure_owned().await?;
        self.store.set_stage(sandbox.id(), Stage::Parking).await?;
        sandbox.update(|record| record.stage = Stage::Parking);
        seam::at("park.intent");
        let disk_bytes = match &*state {
            State::Running(Running { agent, .. }) => disk_bytes_of(sandbox, agent).await,
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
        self.history.end_all(sandbox.ledger()).await;
        self.save(sandbox).await;
        self.leave_bridge(sandbox).await;
        seam::at("park.outcome");
        info!(sandbox = %sandbox.id(), "parked a sandbox");
        Ok(())
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
}

/// An agent that does not say counts as one that runs something: nothing is thrown away on a doubt.
async fn may_run_commands(agent: &AgentHandle) -> bool {
    info_of(agent).await.is_none_or(|info| info.is_busy())
}

/// Bytes that a workspace takes on its disk, if it has one and the agent answers.
async fn disk_bytes_of(sandbox: &Sandbox, agent: &AgentHandle) -> Option<u64> {
    if sandbox.look(|facts| facts.record.disk.is_none()) {
        return None;
    }
    info_of(agent).await.map(|info| info.disk_used_bytes)
}
