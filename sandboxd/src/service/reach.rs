//! Reaching the agent of a sandbox.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use futures::FutureExt;
use sandbox_api::SandboxId;

use super::activity::InUseMark;
use super::order::{Running, Shared, State};
use super::registry::Sandbox;
use super::{Error, Service};
use crate::agent::{self, AgentHandle, Duplex, Peer};
use crate::engine::Status;
use crate::model::layout::{HOSTS, HOSTS_NAME};
use crate::model::{Transport, limits};

/// Times a request looks again after it brought its sandbox back, because somebody parked it meanwhile.
const REACH_TRIES: usize = 3;

/// A sandbox that can be used: its agent, and the promise that it is not replaced meanwhile.
pub(super) struct InUse {
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) agent: AgentHandle,
    /// Keeps the sandbox from being idle; outlives the promise where a stream or a wait goes on.
    pub(super) mark: InUseMark,
    _order: Shared,
}

impl InUse {
    /// Gives up the promise and keeps the sandbox from being idle, for what may take long.
    pub(super) fn let_go(self) -> (Arc<Sandbox>, AgentHandle, InUseMark) {
        (self.sandbox, self.agent, self.mark)
    }
}

impl Service {
    /// The sandbox with this id, ready to be used; brought back where it was parked.
    pub(super) async fn in_use(self: &Arc<Self>, id: &SandboxId) -> Result<InUse, Error> {
        let sandbox = self.find(id)?;
        // Before the look at its state, so that whoever would park it sees that somebody is coming.
        let mark = InUseMark::request(&sandbox.activity);
        for _ in 0..REACH_TRIES {
            let order = sandbox.order.shared().await;
            match &*order {
                State::Running(Running { agent, .. }) if agent.is_connected() => {
                    let agent = agent.clone();
                    return Ok(InUse { sandbox, agent, mark, _order: order });
                }
                State::Running(_) | State::Parked => {}
                State::Creating | State::Failed(_) | State::Stuck | State::Deleted => {
                    return Err(Error::NotFound { resource: "sandbox" });
                }
            }
            drop(order);
            self.wake(&sandbox).await?;
        }
        Err(Error::Unsettled)
    }

    /// The sandbox with this id, whatever its state.
    pub(super) fn find(&self, id: &SandboxId) -> Result<Arc<Sandbox>, Error> {
        if let Some(sandbox) = self.registry.get(id) {
            return Ok(sandbox);
        }
        // Before start-up is through, those of before are not known yet.
        self.prepared()?;
        Err(Error::NotFound { resource: "sandbox" })
    }

    /// Starts a sandbox's container anew, whatever it does. Every command in it is lost; the files stay.
    pub(super) async fn restart(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<(), Error> {
        let (service, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        let task = self.tasks.spawn(async move {
            let mut state = sandbox.order.exclusive().await;
            let State::Running(Running { agent, .. }) = &*state else {
                return Ok(());
            };
            let restarted = service.restart_held(&sandbox, agent).await;
            if restarted.is_err() {
                // Nobody knows what runs in it now. Without its container nothing does.
                service.park_held(&sandbox, &mut state).await?;
            }
            restarted
        });
        task.await.map_err(|source| Error::Task { source })?
    }

    async fn restart_held(&self, sandbox: &Sandbox, agent: &AgentHandle) -> Result<(), Error> {
        self.record_if_possible(sandbox, agent).await;
        sandbox.peer.send_replace(Peer::NotKnownYet);
        let attached = self.attach(sandbox).await?;
        self.engine.restart(sandbox.id()).await?;
        attached.release().await?;
        self.await_agent(sandbox, agent).await
    }

    /// Waits for the first answer of a container that was just started, and takes note of what it is.
    pub(super) async fn await_agent(&self, sandbox: &Sandbox, agent: &AgentHandle) -> Result<(), Error> {
        let Some(inspected) = self.engine.inspect(sandbox.id()).await? else {
            return Err(Error::Agent { source: agent::Error::Away { waited: std::time::Duration::ZERO } });
        };
        sandbox.peer.send_replace(self.peer_of(inspected.status));
        if let Some(weakness) = inspected.posture.weaknesses(&self.network_of(sandbox)).first() {
            return Err(Error::NotHardened { weakness });
        }
        sandbox.set_posture(inspected.posture);
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
    pub(super) fn open_door(&self, sandbox: &Sandbox) -> Result<AgentHandle, Error> {
        let secret = self.instance.agent_secret(sandbox.id());
        match sandbox.labels().transport {
            Transport::Socket => {
                let dir = self.run_dir_of(sandbox.id());
                let open = || {
                    std::fs::create_dir_all(&dir)?;
                    // Whatever the umask: the sandbox's user must get in, and nobody gets here but by its mount.
                    std::fs::set_permissions(&dir, Permissions::from_mode(0o755))?;
                    write_hosts(&dir.join(HOSTS_NAME))?;
                    AgentHandle::listen(&dir, secret, sandbox.peer.subscribe())
                };
                open().map_err(|source| Error::RunDir { source })
            }
            Transport::Engine => Ok(AgentHandle::dial(secret, self.dialler(sandbox.id().clone()))),
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

    /// Removes the directory of a sandbox's socket; done as well where there is none.
    pub(super) fn remove_run_dir_of(&self, id: &SandboxId) -> Result<(), Error> {
        match std::fs::remove_dir_all(self.run_dir_of(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::RunDir { source: error }),
            _ => Ok(()),
        }
    }
}

/// Writes a sandbox's `/etc/hosts`, unless it is there: a container that runs has it mounted.
fn write_hosts(path: &Path) -> io::Result<()> {
    if std::fs::read(path).is_ok_and(|there| there == HOSTS.as_bytes()) {
        return Ok(());
    }
    std::fs::write(path, HOSTS)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o644))
}
