//! Work on a sandbox that nothing else may use meanwhile, such as a restore of its files.

use std::sync::Arc;

use sandbox_api::SandboxId;
use tokio::time::timeout;

use super::activity::InUseMark;
use super::order::{Exclusive, Running, State};
use super::{Error, Lifecycle};
use crate::agent::AgentHandle;
use crate::model::{Refusal, Resource, limits};
use crate::service::SnapshotError;

/// A running sandbox that nothing else uses until this is dropped.
pub(in crate::service) struct ExclusiveUse {
    agent: AgentHandle,
    _mark: InUseMark,
    _state: Exclusive,
}

impl ExclusiveUse {
    pub(in crate::service) fn agent(&self) -> &AgentHandle {
        &self.agent
    }
}

impl Lifecycle {
    /// Waits until nothing uses the sandbox, and locks it. Wakes it if it is parked. If a command or a program on
    /// a terminal runs, this fails, unless `force` is set, which ends what runs. Must be called in a task that runs to its
    /// end.
    pub(in crate::service) async fn exclusively(
        self: &Arc<Self>,
        id: &SandboxId,
        force: bool,
    ) -> Result<ExclusiveUse, Error> {
        let sandbox = self.find(id)?;
        let mark = InUseMark::request(sandbox.activity());
        for _ in 0..limits::RACE_TRIES {
            if !force && self.shows_commands(&sandbox).await {
                return Err(Error::InUse);
            }
            let waited = timeout(limits::SNAPSHOT_TURN, sandbox.order.exclusive()).await;
            let mut state = waited.map_err(|_| Error::ConcurrentTransitions)?;
            match &*state {
                State::Running(Running { agent, .. }) if agent.is_connected() => {
                    let agent = agent.clone();
                    let has_commands = match self.has_commands(&sandbox, &agent).await {
                        // An agent that does not answer is restarted.
                        Err(_) if force => true,
                        known => known?,
                    };
                    if has_commands {
                        if !force {
                            return Err(Error::InUse);
                        }
                        sandbox.ledger().record_restart(None);
                        if let Err(error) = self.restart_locked(&sandbox, &agent).await {
                            // It is unknown what runs in the container now. After it is removed, nothing does.
                            self.ownership.verify().await?;
                            self.park_locked(&sandbox, &mut state).await?;
                            return Err(error);
                        }
                    }
                    return Ok(ExclusiveUse { agent, _mark: mark, _state: state });
                }
                State::Running(_) | State::Parked | State::Lost => {}
                State::Creating | State::Failed(_) | State::Deleting | State::Deleted => {
                    return Err(Refusal::NotFound(Resource::Sandbox).into());
                }
            }
            drop(state);
            self.wake(&sandbox).await?;
        }
        Err(Error::ConcurrentTransitions)
    }

    /// Lets requests to a sandbox wait until [`Self::unblock`].
    pub(in crate::service) fn block(&self, id: &SandboxId) {
        self.blocked.send_modify(|blocked| {
            blocked.insert(id.clone());
        });
    }

    /// Serves requests to a sandbox again.
    pub(in crate::service) fn unblock(&self, id: &SandboxId) {
        self.blocked.send_modify(|blocked| {
            blocked.remove(id);
        });
    }

    /// Whether requests to a sandbox wait.
    pub(in crate::service) fn is_blocked(&self, id: &SandboxId) -> bool {
        self.blocked.borrow().contains(id)
    }

    /// Waits until requests to a sandbox are served: its files are those of one snapshot again, or its fork is complete.
    pub(in crate::service) async fn until_unblocked(&self, id: &SandboxId) -> Result<(), Error> {
        let mut blocked = self.blocked.subscribe();
        match timeout(limits::UNBLOCK, blocked.wait_for(|blocked| !blocked.contains(id))).await {
            // The sender lives as long as `self`.
            Ok(_) => Ok(()),
            Err(_) => Err(SnapshotError::Blocked.into()),
        }
    }
}
