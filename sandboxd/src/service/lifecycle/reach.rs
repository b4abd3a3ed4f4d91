//! Access to a sandbox: finding it, waking it and reaching its agent.

use std::sync::Arc;

use sandbox_api::SandboxId;
use tokio::time::sleep;

use super::activity::InUseMark;
use super::order::{Running, Shared, State};
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::agent::{self, AgentHandle};
use crate::engine::Status;
use crate::model::{Refusal, Resource, Stage, limits};

/// A sandbox in use: its agent, and the shared lock that keeps its container from being replaced.
pub(in crate::service) struct InUse {
    sandbox: Arc<Sandbox>,
    agent: AgentHandle,
    /// Keeps the sandbox from being idle. Streams and waits hold it longer than the lock.
    mark: InUseMark,
    _order: Shared,
}

impl InUse {
    pub(in crate::service) fn sandbox(&self) -> &Arc<Sandbox> {
        &self.sandbox
    }

    pub(in crate::service) fn agent(&self) -> &AgentHandle {
        &self.agent
    }

    /// Returns `result`. A call that a limit of the sandbox rejected does not count as use. Otherwise a client that
    /// keeps retrying such a call would prevent parking.
    pub(in crate::service) fn count_if_accepted<T>(
        &self,
        result: Result<T, agent::Error>,
    ) -> Result<T, Error> {
        if let Err(agent::Error::Refused(Refusal::LimitReached { .. })) = &result {
            self.do_not_count();
        }
        Ok(result?)
    }

    /// Does not count this request as use.
    pub(in crate::service) fn do_not_count(&self) {
        self.mark.do_not_count();
    }

    /// Releases the lock for a long operation. The mark still keeps the sandbox from being idle.
    pub(in crate::service) fn unlock(self) -> (Arc<Sandbox>, AgentHandle, InUseMark) {
        (self.sandbox, self.agent, self.mark)
    }
}

impl Lifecycle {
    /// Returns the sandbox with this id for use. Wakes it if it is parked.
    pub(in crate::service) async fn in_use(self: &Arc<Self>, id: &SandboxId) -> Result<InUse, Error> {
        let sandbox = self.find(id)?;
        // Before its state is read, so that a task that would park it sees that it is about to be used.
        let mark = InUseMark::request(sandbox.activity());
        self.in_use_with(sandbox, mark).await
    }

    /// As [`Self::in_use`], for work that does not count as use.
    pub(in crate::service) async fn in_use_by_daemon(
        self: &Arc<Self>,
        id: &SandboxId,
    ) -> Result<InUse, Error> {
        let sandbox = self.find(id)?;
        let mark = InUseMark::request(sandbox.activity());
        mark.do_not_count();
        self.in_use_with(sandbox, mark).await
    }

    async fn in_use_with(self: &Arc<Self>, sandbox: Arc<Sandbox>, mark: InUseMark) -> Result<InUse, Error> {
        let id = sandbox.id().clone();
        let id = &id;
        for _ in 0..limits::RACE_TRIES {
            self.until_unblocked(id).await?;
            let order = sandbox.order.shared().await;
            if self.is_blocked(id) {
                // Since this waited for the lock.
                continue;
            }
            match &*order {
                State::Running(Running { agent, .. }) if agent.is_connected() => {
                    let agent = agent.clone();
                    return Ok(InUse { sandbox, agent, mark, _order: order });
                }
                State::Running(_) | State::Parked | State::Lost => {}
                State::Creating | State::Failed(_) | State::Deleting | State::Deleted => {
                    return Err(Refusal::NotFound(Resource::Sandbox).into());
                }
            }
            drop(order);
            self.wake(&sandbox).await?;
        }
        Err(Error::ConcurrentTransitions)
    }

    /// Returns the sandbox with this id in any state.
    pub(in crate::service) fn find(&self, id: &SandboxId) -> Result<Arc<Sandbox>, Error> {
        self.ownership.check_not_superseded()?;
        if let Some(sandbox) = self.registry.get(id) {
            return Ok(sandbox);
        }
        // Until the start is complete, sandboxes of the previous run may be missing from the registry.
        self.prepared()?;
        Err(Refusal::NotFound(Resource::Sandbox).into())
    }

    /// Returns the agent of a sandbox, or `None` if the sandbox is parked. Does not wake it and does not count as use.
    pub(in crate::service) async fn agent_unless_parked(
        &self,
        id: &SandboxId,
    ) -> Result<Option<AgentHandle>, Error> {
        match &*self.find(id)?.order.shared().await {
            State::Running(Running { agent, .. }) => Ok(Some(agent.clone())),
            State::Parked => Ok(None),
            _ => Err(Refusal::NotFound(Resource::Sandbox).into()),
        }
    }

    /// Whether the sandbox is being deleted or does not exist.
    pub fn is_deleted(&self, id: &SandboxId) -> bool {
        match self.registry.get(id) {
            Some(sandbox) => {
                sandbox.with_facts(|facts| facts.deleted || facts.record.stage == Stage::Deleting)
            }
            None => self.prepared().is_ok(),
        }
    }

    /// Whether the container of a sandbox has ended, after its connection broke. If so, its commands are lost. Returns
    /// false when the agent is connected again, and true when the engine reports the container's end.
    pub(in crate::service) async fn is_gone(&self, sandbox: &Sandbox, agent: &AgentHandle) -> bool {
        loop {
            // Wait first: a caller may notice the break before the connection or the engine reports it.
            sleep(limits::RECHECK / 10).await;
            if agent.is_closed() || self.registry.get(sandbox.id()).is_none() {
                return true;
            }
            match self.engine.status(sandbox.id()).await {
                Ok(Status::NeverStarted | Status::Ended | Status::Absent) => return true,
                // An unreachable engine says nothing about the container.
                Ok(Status::Running { .. }) | Err(_) => {}
                // Its commands continue with the container.
                Ok(Status::Paused { .. }) => drop(self.unpause(sandbox).await),
            }
            if agent.connected(limits::RECHECK).await.is_ok() {
                return false;
            }
        }
    }
}
