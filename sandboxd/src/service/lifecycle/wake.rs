//! Waking a parked sandbox, and sandboxes that are lost because their files are missing.
//!
//! A lost sandbox keeps its row. Its files may return, for example when the engine's disk is mounted again.

use std::sync::Arc;
use std::time::Instant;

use tracing::{info, warn};

use super::container::Workspace;
use super::order::{Running, State};
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::agent::{self, AgentHandle};
use crate::engine::Status;
use crate::metrics::Repair;
use crate::model::audit::Act;
use crate::model::{Stage, limits};
use crate::seam;

impl Lifecycle {
    /// Ensures that a sandbox has a container whose agent answers. Returns whether it was woken for that.
    pub(super) async fn wake(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<bool, Error> {
        let ready = match &*sandbox.order.shared().await {
            State::Running(Running { agent, .. }) => agent.is_connected(),
            State::Parked | State::Lost => false,
            State::Creating | State::Failed(_) | State::Deleting | State::Deleted => true,
        };
        if ready {
            return Ok(false);
        }
        // A background task already waits for the engine, which does not answer.
        if !sandbox.with_facts(|facts| facts.restored) {
            return Err(Error::NotRestored);
        }
        let (lifecycle, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        self.tasks.run_detached(async move { lifecycle.wake_now(&sandbox).await }).await
    }

    async fn wake_now(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<bool, Error> {
        let mut state = sandbox.order.exclusive().await;
        if let State::Running(Running { agent, .. }) = &*state {
            if agent.is_connected() || self.await_reconnect(sandbox, agent).await? {
                return Ok(false);
            }
            self.ownership.verify().await?;
            self.park_locked(sandbox, &mut state).await?;
        }
        if matches!(&*state, State::Lost) {
            self.ownership.ensure_owned().await?;
            if !self.has_workspace(sandbox).await? {
                return Err(Error::Lost);
            }
            self.mark_found(sandbox, &mut state).await;
        }
        match &*state {
            State::Parked => {
                let woken = self.wake_locked(sandbox, &mut state).await;
                // A read can wake a sandbox, and works without the record.
                self.recorder(Act::SandboxWake, sandbox, "request").ended(woken).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Waits for the agent of a running container to connect again. Returns false if the container has ended, and an
    /// error after [`limits::AGENT_ABSENCE`].
    async fn await_reconnect(&self, sandbox: &Sandbox, agent: &AgentHandle) -> Result<bool, Error> {
        let began = Instant::now();
        while began.elapsed() < limits::AGENT_ABSENCE {
            // Repeatedly, because the engine notices the end of a container later than the connection does.
            match self.engine.status(sandbox.id()).await? {
                // It runs and does not answer. That may be temporary, so the container is kept. It may have been
                // restarted from outside; then its first process is another one.
                status @ Status::Running { .. } if !agent.is_closed() => {
                    sandbox.peer.send_replace(self.peer_of(status));
                    if agent.connected(limits::RECHECK).await.is_ok() {
                        return Ok(true);
                    }
                }
                Status::Paused { .. } if !agent.is_closed() => self.unpause(sandbox).await?,
                _ => return Ok(false),
            }
        }
        Err(agent::Error::NotConnected { waited: began.elapsed() }.into())
    }

    async fn wake_locked(self: &Arc<Self>, sandbox: &Arc<Sandbox>, state: &mut State) -> Result<(), Error> {
        let prepared = self.prepared()?.clone();
        self.ownership.ensure_owned().await?;
        self.check_network(&sandbox.labels().spec.network)?;
        if !self.has_workspace(sandbox).await? {
            self.mark_lost(sandbox, state).await?;
            return Err(Error::Lost);
        }
        self.pool.note_use();
        let permit = self.acquire_run_permit(sandbox).await?;
        self.store.set_stage(sandbox.id(), Stage::Waking).await?;
        sandbox.update(|record| {
            record.stage = Stage::Waking;
            record.transport = prepared.transport;
        });
        seam::at("wake.intent");
        match self.bring_up(sandbox, &prepared, Workspace::Existing).await {
            Ok(agent) => {
                seam::at("wake.act");
                sandbox.update(|record| {
                    record.stage = Stage::Running;
                    record.parked_at_age_ms = None;
                    record.checkpoint_pending = false;
                });
                let egress = self.begin_egress(sandbox, &agent);
                *state = State::Running(Running { agent, permit, egress });
                self.save(sandbox).await;
                seam::at("wake.outcome");
                info!(sandbox = %sandbox.id(), "sandbox woken");
                Ok(())
            }
            Err(error) => {
                sandbox.update(|record| record.stage = Stage::Parked);
                self.save(sandbox).await;
                self.release_bridge(sandbox).await;
                Err(error)
            }
        }
    }

    /// Records that the workspace of a sandbox is missing. Its row stays, and nothing is removed. The caller holds the
    /// lock.
    pub(super) async fn mark_lost(&self, sandbox: &Sandbox, state: &mut State) -> Result<(), Error> {
        // On another engine, every workspace is missing.
        self.ownership.verify().await?;
        sandbox.update(|record| {
            record.stage = Stage::Lost;
            record.parked_at_age_ms = None;
        });
        *state = State::Lost;
        self.save(sandbox).await;
        self.count_repair(Repair::Workspace);
        warn!(
            sandbox = %sandbox.id(),
            session = %sandbox.labels().spec.session_key,
            "sandbox lost: its files are missing on the engine; it stays lost until they are back or it is deleted"
        );
        Ok(())
    }

    /// Marks a lost sandbox as parked, because its workspace exists again. The caller holds the lock.
    pub(super) async fn mark_found(&self, sandbox: &Sandbox, state: &mut State) {
        let age = self.age.now_ms();
        sandbox.update(|record| {
            record.stage = Stage::Parked;
            record.parked_at_age_ms = Some(age);
            record.checkpoint_pending = true;
        });
        *state = State::Parked;
        self.save(sandbox).await;
        info!(sandbox = %sandbox.id(), "lost sandbox parked: its files are back");
    }
}
