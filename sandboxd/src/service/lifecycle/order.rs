//! The order of what happens to one sandbox.
//!
//! Shared by commands and files, exclusive for lifecycle. It is held across awaits on purpose: a delete
//! must not overtake a create, and a command must not start in a container that is being replaced. What
//! streams (a command's output) does not hold it, so that a delete never waits for a reader.

use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, OwnedSemaphorePermit, RwLock};
use tokio_util::sync::DropGuard;

use super::Error;
use crate::agent::AgentHandle;

/// Where a sandbox is in its life.
#[derive(Debug)]
pub(super) enum State {
    /// Its container is being made.
    Creating,
    /// Its container was started and its agent has answered.
    Running(Running),
    /// It has its workspace and no container.
    Parked,
    /// It could not be made; what is left of it is being removed, and nobody else touches it.
    Failed(Arc<Error>),
    /// It could not be removed; only removing it again makes sense.
    Stuck,
    /// Its workspace is missing on the engine.
    Lost,
    /// It is gone.
    Deleted,
}

impl State {
    /// The agent, if there is a container.
    pub(super) fn agent(&self) -> Option<&AgentHandle> {
        match self {
            Self::Running(Running { agent, .. }) => Some(agent),
            _ => None,
        }
    }
}

/// The permit of one sandbox to run.
pub(super) type RunPermit = OwnedSemaphorePermit;

/// A sandbox with a container.
#[derive(Debug)]
pub(super) struct Running {
    /// The connection to its agent.
    pub(super) agent: AgentHandle,
    /// Its permit to run. `None` if more sandboxes than allowed ran when the daemon started.
    #[expect(dead_code, reason = "it is held, not read")]
    pub(super) permit: Option<RunPermit>,
    /// Ends its outbound connections when it is dropped.
    #[expect(dead_code, reason = "it is held, not read")]
    pub(super) egress: DropGuard,
}

/// Orders the acts on one sandbox and guards its state.
#[derive(Debug, Clone)]
pub(super) struct OrderLock(Arc<RwLock<State>>);

/// The right to change a sandbox.
pub(super) type Exclusive = OwnedRwLockWriteGuard<State>;

/// The right to use a sandbox.
pub(super) type Shared = OwnedRwLockReadGuard<State>;

impl OrderLock {
    /// The lock of a new sandbox, taken by the one who makes it before anybody else can see it.
    pub(super) fn creating() -> (Self, Exclusive) {
        let lock = Arc::new(RwLock::new(State::Creating));
        let guard = Arc::clone(&lock).try_write_owned().expect("nobody else has seen the lock");
        (Self(lock), guard)
    }

    /// The lock of a sandbox from the previous run.
    pub(super) fn of(state: State) -> Self {
        Self(Arc::new(RwLock::new(state)))
    }

    /// Waits for lifecycle acts to be over.
    pub(super) async fn shared(&self) -> Shared {
        Arc::clone(&self.0).read_owned().await
    }

    /// Unless somebody changes the sandbox right now.
    pub(super) fn try_shared(&self) -> Option<Shared> {
        Arc::clone(&self.0).try_read_owned().ok()
    }

    /// Waits until nobody uses the sandbox.
    pub(super) async fn exclusive(&self) -> Exclusive {
        Arc::clone(&self.0).write_owned().await
    }

    /// Unless somebody uses or changes it right now.
    pub(super) fn try_exclusive(&self) -> Option<Exclusive> {
        Arc::clone(&self.0).try_write_owned().ok()
    }
}
