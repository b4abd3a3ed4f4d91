//! Parking a sandbox: its container is removed, its files are kept.

use std::pin::pin;
use std::sync::Arc;

use sandbox_api::SandboxId;
use tokio::time::timeout;
use tracing::{info, warn};

use super::order::{Exclusive, Running, State};
use super::park_checkpoints::StoredFiles;
use super::sandbox::Sandbox;
use super::view::agent_info;
use super::{Error, Lifecycle};
use crate::agent::{self, AgentHandle};
use crate::engine::Status;
use crate::model::audit::Act;
use crate::model::{Refusal, Resource, Stage, limits};
use crate::seam;
use crate::service::Authorized;

impl Lifecycle {
    /// Parks a sandbox. Idempotent: succeeds if it is parked already. If a command or a program on a terminal runs, the
    /// park is rejected, unless `force` is set, which ends what runs.
    pub async fn park(self: &Arc<Self>, id: &Authorized<SandboxId>, force: bool) -> Result<(), Error> {
        let sandbox = self.find(id)?;
        let lifecycle = Arc::clone(self);
        self.tasks
            .run_detached(async move {
                match force {
                    true => lifecycle.park_by_force(&sandbox).await,
                    false => lifecycle.park_unless_busy(&sandbox).await,
                }
            })
            .await
    }

    async fn park_by_force(&self, sandbox: &Sandbox) -> Result<(), Error> {
        if let State::Running(Running { agent, .. }) = &*sandbox.order.shared().await {
            self.history.record_if_possible(sandbox.ledger(), agent).await;
        }
        let mut state = self.exclusive_after_grace(sandbox).await?;
        match &*state {
            State::Running(_) => {
                self.park_with_checkpoint(sandbox, &mut state, limits::PARK_CHECKPOINT).await
            }
            other => check_parked(other),
        }
    }

    async fn park_unless_busy(&self, sandbox: &Sandbox) -> Result<(), Error> {
        if self.shows_commands(sandbox).await {
            return Err(Error::InUse);
        }
        let mut state = sandbox.order.exclusive().await;
        let State::Running(Running { agent, .. }) = &*state else {
            return check_parked(&state);
        };
        // Under the lock no new command can start.
        if self.has_commands(sandbox, agent).await? {
            return Err(Error::InUse);
        }
        // The commands of a container that has ended cannot be recorded any more.
        if agent.is_connected() {
            self.history.record_unrecorded(sandbox.ledger(), agent).await?;
        }
        self.park_with_checkpoint(sandbox, &mut state, limits::PARK_CHECKPOINT).await
    }

    /// Whether a command or a program on a terminal runs in the sandbox, including those that this daemon does not
    /// know. Returns an error if the agent does not answer.
    pub(super) async fn has_commands(&self, sandbox: &Sandbox, agent: &AgentHandle) -> Result<bool, Error> {
        if sandbox.activity().commands() > 0 {
            return Ok(still_runs_commands(agent).await);
        }
        let status = self.engine.status(sandbox.id()).await?;
        let runs = matches!(status, Status::Running { .. } | Status::Paused { .. });
        if !runs && !agent.is_connected() {
            return Ok(false);
        }
        match agent_info(agent).await {
            Some(info) => Ok(info.is_busy(sandbox.activity().passive_commands())),
            None => Err(agent::Error::NotConnected { waited: limits::USAGE }.into()),
        }
    }

    /// As [`Self::has_commands`], without the lock, so that a caller is rejected without waiting for it. May return false
    /// although a command runs.
    pub(super) async fn shows_commands(&self, sandbox: &Sandbox) -> bool {
        if sandbox.activity().commands() == 0 {
            return false;
        }
        match sandbox.running_agent_now() {
            Some(agent) => still_runs_commands(&agent).await,
            // Another lifecycle operation is under way. The check under the lock decides.
            None => false,
        }
    }

    /// Locks the sandbox. Short requests can finish. Requests that take longer than [`limits::PARK_GRACE`] are cut off,
    /// but only after the store has the intent to park: a rejected park cuts off nothing.
    async fn exclusive_after_grace(&self, sandbox: &Sandbox) -> Result<Exclusive, Error> {
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
            // If a delete is under way, it has cut the connection already.
            if self.store.set_stage_unless_deleting(sandbox.id(), Stage::Parking).await? {
                agent.close();
            }
        }
        let state = exclusive.await;
        if matches!(&*state, State::Parked | State::Lost) {
            // Another task parked the sandbox first. Its row must not keep the intent to park.
            self.save(sandbox).await;
        }
        Ok(state)
    }

    /// Parks an idle sandbox soon, because another one needs its permit. Returns false if it is in use or does not run.
    pub(super) async fn park_if_idle(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<bool, Error> {
        self.park_unless_used(sandbox, None).await
    }

    /// Parks an idle sandbox. Returns false if it is in use or does not run, or if it was used since the remote store got its
    /// files.
    pub(in crate::service) async fn park_unless_used(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        stored: Option<StoredFiles>,
    ) -> Result<bool, Error> {
        let (lifecycle, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        self.tasks
            .run_detached(async move {
                // A task that holds the lock uses the sandbox.
                let Some(mut state) = sandbox.order.try_exclusive() else {
                    return Ok(false);
                };
                let State::Running(Running { agent, .. }) = &*state else {
                    return Ok(false);
                };
                if sandbox.activity().is_used() {
                    return Ok(false);
                }
                // An earlier daemon may have started commands that this one does not know.
                if agent.is_connected() && may_run_commands(&sandbox, agent).await {
                    sandbox.activity().touch();
                    return Ok(false);
                }
                if lifecycle.history.record_unrecorded(sandbox.ledger(), agent).await.is_err() {
                    sandbox.activity().touch();
                    return Ok(false);
                }
                lifecycle.park_unused(&sandbox, &mut state, stored).await
            })
            .await
    }

    async fn park_unused(
        &self,
        sandbox: &Sandbox,
        state: &mut State,
        stored: Option<StoredFiles>,
    ) -> Result<bool, Error> {
        let reason = if stored.is_some() { "idle" } else { "capacity" };
        let parked = match stored {
            Some(stored) if stored.are_outdated(sandbox) => return Ok(false),
            Some(stored) if !stored.are_uncertain(sandbox) => {
                self.park_as(sandbox, state, !stored.are_complete, stored.parked_at_age_ms).await
            }
            _ => self.park_with_checkpoint(sandbox, state, limits::EVICTION_CHECKPOINT).await,
        };
        self.recorder(Act::SandboxPark, sandbox, reason).ended(parked).map(|()| true)
    }

    /// Parks a sandbox: removes its container and keeps its files. The caller holds the lock.
    pub(super) async fn park_locked(&self, sandbox: &Sandbox, state: &mut State) -> Result<(), Error> {
        self.park_as(sandbox, state, true, None).await
    }

    /// As [`Self::park_locked`]. The other arguments are stored in the sandbox's record. `parked_at_age_ms` is now by default.
    pub(super) async fn park_as(
        &self,
        sandbox: &Sandbox,
        state: &mut State,
        checkpoint_pending: bool,
        parked_at_age_ms: Option<u64>,
    ) -> Result<(), Error> {
        self.ownership.ensure_owned().await?;
        self.store.set_stage(sandbox.id(), Stage::Parking).await?;
        sandbox.update(|record| record.stage = Stage::Parking);
        seam::at("park.intent");
        let disk_bytes = match &*state {
            State::Running(Running { agent, .. }) => disk_bytes_of(sandbox, agent).await,
            _ => None,
        };
        if let Err(error) = self.engine.remove_container_of(sandbox.id()).await {
            // The container may or may not exist. The next request or the next reconcile finds out.
            sandbox.update(|record| record.stage = Stage::Running);
            self.save(sandbox).await;
            return Err(error.into());
        }
        seam::at("park.act");
        if let State::Running(Running { agent, .. }) = &*state {
            agent.close();
        }
        *state = State::Parked;
        if let Err(error) = self.remove_run_dir_of(sandbox.id()) {
            warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not remove a socket's directory");
        }
        let age = parked_at_age_ms.unwrap_or_else(|| self.age.now_ms());
        sandbox.update(|record| {
            record.stage = Stage::Parked;
            record.parked_at_age_ms = Some(age);
            record.disk_bytes = disk_bytes.or(record.disk_bytes);
            record.checkpoint_pending = checkpoint_pending;
        });
        self.history.end_all(sandbox.ledger()).await;
        self.save(sandbox).await;
        self.release_bridge(sandbox).await;
        seam::at("park.outcome");
        info!(sandbox = %sandbox.id(), "sandbox parked");
        Ok(())
    }

    /// Writes a sandbox's record to the store. After an error the next reconcile retries. A start also repairs an old
    /// row: a sandbox whose container runs is restored as running, one whose container does not run is parked.
    pub(super) async fn save(&self, sandbox: &Sandbox) {
        let saved = self.store.put(&sandbox.record()).await;
        sandbox.set_unsaved(saved.is_err());
        if let Err(error) = saved {
            warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not write a sandbox to the store; retrying later");
        }
    }
}

/// The result of parking a sandbox that does not run.
fn check_parked(state: &State) -> Result<(), Error> {
    match state {
        State::Parked => Ok(()),
        State::Lost => Err(Error::Lost),
        _ => Err(Refusal::NotFound(Resource::Sandbox).into()),
    }
}

/// Whether the agent runs commands, where this daemon counts some. Its count may be late: the caller that waited for the end
/// of the last command can be faster than the task that decrements the count. True if the agent does not answer.
async fn still_runs_commands(agent: &AgentHandle) -> bool {
    // The count of passive commands may be late as well.
    agent_info(agent).await.is_none_or(|info| info.is_busy(0))
}

/// Whether the agent may run commands. True if it does not answer, so that no work is lost.
async fn may_run_commands(sandbox: &Sandbox, agent: &AgentHandle) -> bool {
    agent_info(agent).await.is_none_or(|info| info.is_busy(sandbox.activity().passive_commands()))
}

/// Space that a workspace uses on its disk, in bytes, if it has a disk and the agent answers.
async fn disk_bytes_of(sandbox: &Sandbox, agent: &AgentHandle) -> Option<u64> {
    if sandbox.with_facts(|facts| facts.record.disk.is_none()) {
        return None;
    }
    agent_info(agent).await.map(|info| info.disk_used_bytes)
}
