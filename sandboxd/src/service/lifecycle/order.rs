//! The order of operations on one sandbox.
//!
//! Commands and files share the lock; lifecycle operations hold it exclusively. It is held across awaits on purpose. A
//! delete must not overtake a create, and a command must not start in a container that is being replaced. Streams, such
//! as a command's output, do not hold it, so that a delete never waits for a reader.

use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio_util::sync::DropGuard;

use super::Error;
use crate::agent::AgentHandle;
use crate::service::quotas::RunPermit;

/// The state of a sandbox. It is guarded by the sandbox's [`OrderLock`].
#[derive(Debug)]
pub(super) enum State {
    /// Its container is being created.
    Creating,
    /// Its container was started and its agent has answered.
    Running(Running),
    /// It has its workspace, and no container.
    Parked,
    /// Its create failed. The task that created it removes what is left. No other operation changes it.
    Failed(Arc<Error>),
    /// Its delete has begun and is not complete. The only operation that is left is to delete it.
    Deleting,
    /// Its workspace is missing on the engine.
    Lost,
    /// It is deleted.
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

/// A sandbox with a container.
#[derive(Debug)]
pub(super) struct Running {
    /// The connection to its agent.
    pub(super) agent: AgentHandle,
    /// Its permit to run.
    #[expect(dead_code, reason = "it is held, not read")]
    pub(super) permit: RunPermit,
    /// Ends its outbound connections when it is dropped.
    #[expect(dead_code, reason = "it is held, not read")]
    pub(super) egress: DropGuard,
}

/// Orders the operations on one sandbox and guards its state.
#[derive(Debug, Clone)]
pub(super) struct OrderLock(Arc<RwLock<State>>);

/// Exclusive access to a sandbox, to change it.
pub(super) type Exclusive = OwnedRwLockWriteGuard<State>;

/// Shared access to a sandbox, to use it.
pub(super) type Shared = OwnedRwLockReadGuard<State>;

impl OrderLock {
    /// Creates the lock of a new sandbox. The caller holds it before any other task can see the sandbox.
    pub(super) fn creating() -> (Self, Exclusive) {
        let lock = Arc::new(RwLock::new(State::Creating));
        let guard = Arc::clone(&lock).try_write_owned().expect("no other task can hold a new lock");
        (Self(lock), guard)
    }

    /// Creates the lock of a sandbox from the previous run.
    pub(super) fn restored(state: State) -> Self {
        Self(Arc::new(RwLock::new(state)))
    }

    /// Waits for lifecycle operations to end.
    pub(super) async fn shared(&self) -> Shared {
        Arc::clone(&self.0).read_owned().await
    }

    /// Returns `None` during a lifecycle operation.
    pub(super) fn try_shared(&self) -> Option<Shared> {
        Arc::clone(&self.0).try_read_owned().ok()
    }

    /// Waits until the sandbox is neither used nor changed.
    pub(super) async fn exclusive(&self) -> Exclusive {
        Arc::clone(&self.0).write_owned().await
    }

    /// Returns `None` while the sandbox is used or changed.
    pub(super) fn try_exclusive(&self) -> Option<Exclusive> {
        Arc::clone(&self.0).try_write_owned().ok()
    }
}
