//! Reaching the agent of a sandbox, and bringing its container back where it ended.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use futures::FutureExt;
use sandbox_api::SandboxId;
use tokio::sync::watch;

use super::order::{Shared, State};
use super::registry::Sandbox;
use super::{Error, Service};
use crate::agent::{self, AgentHandle, Duplex, Peer};
use crate::engine::{SandboxLabels, Status};
use crate::model::{Transport, limits};

/// A sandbox that can be used: its agent, and the promise that it is not replaced meanwhile.
pub(super) struct InUse {
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) agent: AgentHandle,
    _order: Shared,
}

impl Service {
    /// The sandbox with this id, ready to be used.
    pub(super) async fn in_use(self: &Arc<Self>, id: &SandboxId) -> Result<InUse, Error> {
        let unknown = Error::NotFound { resource: "sandbox" };
        let Some(sandbox) = self.registry.get(id) else {
            // Before start-up is through, those of before are not known yet.
            self.prepared()?;
            return Err(unknown);
        };
        self.wake_if_ended(&sandbox).await?;
        let order = sandbox.order.shared().await;
        let agent = match &*order {
            State::Running(agent) => agent.clone(),
            State::Creating | State::Failed(_) | State::Stuck | State::Deleted => return Err(unknown),
        };
        Ok(InUse { sandbox, agent, _order: order })
    }

    /// Starts the container again where it has ended. True where that was needed.
    pub(super) async fn wake_if_ended(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<bool, Error> {
        let connected = match &*sandbox.order.shared().await {
            State::Running(agent) => agent.is_connected(),
            State::Creating | State::Failed(_) | State::Stuck | State::Deleted => true,
        };
        if connected {
            return Ok(false);
        }
        let (service, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        let wake = self.tasks.spawn(async move { service.wake(&sandbox).await });
        wake.await.map_err(|source| Error::Task { source })?
    }

    async fn wake(&self, sandbox: &Sandbox) -> Result<bool, Error> {
        let mut state = sandbox.order.exclusive().await;
        let State::Running(agent) = &*state else {
            return Ok(false);
        };
        if agent.is_connected() {
            return Ok(false);
        }
        match self.engine.status(sandbox.id()).await? {
            // It is there and does not answer. That may pass, so nothing is thrown away. Somebody else may
            // have started it again, and then its first process is another one.
            status @ Status::Running { .. } => {
                sandbox.peer.send_replace(self.peer_of(status));
                agent.connected(limits::AGENT_ABSENCE).await?;
                Ok(false)
            }
            Status::NeverStarted | Status::Ended => {
                sandbox.peer.send_replace(Peer::NotKnownYet);
                self.engine.restart(sandbox.id()).await?;
                self.await_agent(sandbox, agent).await?;
                Ok(true)
            }
            Status::Absent => {
                *state = State::Stuck;
                Err(Error::NotFound { resource: "sandbox" })
            }
        }
    }

    /// Starts a sandbox's container anew, whatever it does. Every command in it is lost; the files stay.
    pub(super) async fn restart(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<(), Error> {
        let (service, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        let task = self.tasks.spawn(async move {
            let state = sandbox.order.exclusive().await;
            let State::Running(agent) = &*state else {
                return Ok(());
            };
            sandbox.peer.send_replace(Peer::NotKnownYet);
            service.engine.restart(sandbox.id()).await?;
            service.await_agent(&sandbox, agent).await
        });
        task.await.map_err(|source| Error::Task { source })?
    }

    /// Waits for the first answer of a container that was just started.
    pub(super) async fn await_agent(&self, sandbox: &Sandbox, agent: &AgentHandle) -> Result<(), Error> {
        let status = self.engine.status(sandbox.id()).await?;
        sandbox.peer.send_replace(self.peer_of(status));
        Ok(agent.connected(limits::AGENT_FIRST_ANSWER).await?)
    }

    /// Which process of the host may be the agent of a container with this status.
    pub(super) fn peer_of(&self, status: Status) -> Peer {
        match status {
            Status::Running { pid } if pid > 0 && self.engine.shows_agent_pid() => Peer::Pid(pid),
            Status::Running { .. } | Status::NeverStarted | Status::Ended | Status::Absent => Peer::Untold,
        }
    }

    /// Opens the door for a sandbox's agent.
    pub(super) fn open_door(
        &self,
        labels: &SandboxLabels,
        peer: watch::Receiver<Peer>,
    ) -> Result<AgentHandle, Error> {
        let secret = self.instance.agent_secret(&labels.id);
        match labels.transport {
            Transport::Socket => {
                let dir = self.run_dir_of(&labels.id);
                let open = || {
                    std::fs::create_dir_all(&dir)?;
                    // Whatever the umask: the sandbox's user must get in, and nobody gets here but by its mount.
                    std::fs::set_permissions(&dir, Permissions::from_mode(0o755))?;
                    AgentHandle::listen(&dir, secret, peer)
                };
                open().map_err(|source| Error::RunDir { source })
            }
            Transport::Engine => Ok(AgentHandle::dial(secret, self.dialler(labels.id.clone()))),
        }
    }

    fn dialler(&self, id: SandboxId) -> agent::DialFn {
        let engine = self.engine.clone();
        Box::new(move || {
            let (engine, id) = (engine.clone(), id.clone());
            async move {
                let stream = engine.dial_agent(&id).await.map_err(io::Error::other)?;
                Ok(Box::pin(stream) as std::pin::Pin<Box<dyn Duplex>>)
            }
            .boxed()
        })
    }

    pub(super) fn run_dir_of(&self, id: &SandboxId) -> std::path::PathBuf {
        self.setup.run_dir.join(id.as_str())
    }
}
