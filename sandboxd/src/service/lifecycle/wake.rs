//! Waking a parked sandbox, and what becomes of one whose files are missing.

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
use crate::model::{Stage, limits};
use crate::seam;

impl Lifecycle {
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
        let (lifecycle, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        self.tasks.run_detached(async move { lifecycle.wake_now(&sandbox).await }).await
    }

    async fn wake_now(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<bool, Error> {
        let mut state = sandbox.order.exclusive().await;
        if let State::Running(Running { agent, .. }) = &*state {
            if agent.is_connected() || self.comes_back(sandbox, agent).await? {
                return Ok(false);
            }
            self.ownership.verify().await?;
            self.park_held(sandbox, &mut state).await?;
        }
        if matches!(&*state, State::Lost) {
            self.ownership.ensure_owned().await?;
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
        self.ownership.ensure_owned().await?;
        self.allows_network(&sandbox.labels().spec.network)?;
        if !self.has_workspace(sandbox).await? {
            self.lose_held(sandbox, state).await?;
            return Err(Error::Lost);
        }
        let permit = self.run_permit().await?;
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
                });
                let egress = self.egress.begin(sandbox.outbound(), &agent);
                *state = State::Running(Running { agent, permit: Some(permit), egress });
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
        self.ownership.verify().await?;
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
}
