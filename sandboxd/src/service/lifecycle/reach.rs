//! Reaching the agent of a sandbox.

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

/// A sandbox that can be used: its agent, and the promise that it is not replaced meanwhile.
pub(in crate::service) struct InUse {
    sandbox: Arc<Sandbox>,
    agent: AgentHandle,
    /// Keeps the sandbox from being idle. A stream or a wait keeps it longer than the lock.
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

    /// A call that a limit of the sandbox refused is no use of the sandbox: one that is tried again and again must not
    /// keep it from being parked.
    pub(in crate::service) fn unless_refused<T>(&self, result: Result<T, agent::Error>) -> Result<T, Error> {
        if let Err(agent::Error::Refused(Refusal::LimitReached { .. })) = &result {
            self.mark.discount();
        }
        Ok(result?)
    }

    /// Gives up the promise and keeps the sandbox from being idle, for what may take long.
    pub(in crate::service) fn let_go(self) -> (Arc<Sandbox>, AgentHandle, InUseMark) {
        (self.sandbox, self.agent, self.mark)
    }
}

impl Lifecycle {
    /// The sandbox with this id, ready to be used; brought back where it was parked.
    pub(in crate::service) async fn in_use(self: &Arc<Self>, id: &SandboxId) -> Result<InUse, Error> {
        let sandbox = self.find(id)?;
        // Before the look at its state, so that whoever would park it sees that somebody is coming.
        let mark = InUseMark::request(sandbox.activity());
        for _ in 0..limits::RACE_TRIES {
            let order = sandbox.order.shared().await;
            match &*order {
                State::Running(Running { agent, .. }) if agent.is_connected() => {
                    let agent = agent.clone();
                    return Ok(InUse { sandbox, agent, mark, _order: order });
                }
                State::Running(_) | State::Parked | State::Lost => {}
                State::Creating | State::Failed(_) | State::Stuck | State::Deleted => {
                    return Err(Refusal::NotFound(Resource::Sandbox).into());
                }
            }
            drop(order);
            self.wake(&sandbox).await?;
        }
        Err(Error::Unsettled)
    }

    /// The sandbox with this id, whatever its state.
    pub(in crate::service) fn find(&self, id: &SandboxId) -> Result<Arc<Sandbox>, Error> {
        self.ownership.check_not_superseded()?;
        if let Some(sandbox) = self.registry.get(id) {
            return Ok(sandbox);
        }
        // Before start-up is through, those of before are not known yet.
        self.prepared()?;
        Err(Refusal::NotFound(Resource::Sandbox).into())
    }

    /// The agent of a sandbox. `None` if the sandbox is parked. Neither wakes it nor counts as use.
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

    /// Whether there is no such sandbox any more, or somebody deletes it.
    pub fn is_deleted(&self, id: &SandboxId) -> bool {
        match self.registry.get(id) {
            Some(sandbox) => sandbox.look(|facts| facts.deleted || facts.record.stage == Stage::Deleting),
            None => self.prepared().is_ok(),
        }
    }

    /// Whether a sandbox whose connection broke will not come back with the commands it had. Answers as
    /// soon as either is sure: the agent by being there again, the engine by the container's end.
    pub(in crate::service) async fn is_gone(&self, sandbox: &Sandbox, agent: &AgentHandle) -> bool {
        loop {
            // A moment first: a break is noticed here before the connection or the engine tells of it.
            sleep(limits::RECHECK / 10).await;
            if agent.is_over() || self.registry.get(sandbox.id()).is_none() {
                return true;
            }
            match self.engine.status(sandbox.id()).await {
                Ok(Status::NeverStarted | Status::Ended | Status::Absent) => return true,
                // An engine that is away says nothing about the container.
                Ok(Status::Running { .. }) | Err(_) => {}
                // Its commands go on when it does.
                Ok(Status::Paused { .. }) => drop(self.let_go_on(sandbox).await),
            }
            if agent.connected(limits::RECHECK).await.is_ok() {
                return false;
            }
        }
    }
}
