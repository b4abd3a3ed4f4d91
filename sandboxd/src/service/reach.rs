//! Reaching the agent of a sandbox.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use futures::FutureExt;
use sandbox_api::command::EndReason;
use sandbox_api::{CommandId, SandboxId};

use super::activity::InUseMark;
use super::order::{Running, Shared, State};
use super::registry::Sandbox;
use super::{Error, Service};
use crate::agent::{self, AgentHandle, Duplex, Peer, Refusal};
use crate::engine::Status;
use crate::model::layout::{HOSTS, HOSTS_NAME, PROFILE, PROFILE_NAME};
use crate::model::{Stage, Transport, limits};

/// A sandbox that can be used: its agent, and the promise that it is not replaced meanwhile.
pub(super) struct InUse {
    pub(super) sandbox: Arc<Sandbox>,
    pub(super) agent: AgentHandle,
    /// Keeps the sandbox from being idle; outlives the promise where a stream or a wait goes on.
    pub(super) mark: InUseMark,
    _order: Shared,
}

impl InUse {
    /// A call that a limit of the sandbox refused is no use of the sandbox: one that is tried again and again must not
    /// keep it from being parked.
    pub(super) fn unless_refused<T>(&self, result: Result<T, agent::Error>) -> Result<T, Error> {
        if let Err(agent::Error::Refused(Refusal::LimitReached { .. })) = &result {
            self.mark.discount();
        }
        Ok(result?)
    }

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
        for _ in 0..limits::RACE_TRIES {
            let order = sandbox.order.shared().await;
            match &*order {
                State::Running(Running { agent, .. }) if agent.is_connected() => {
                    let agent = agent.clone();
                    return Ok(InUse { sandbox, agent, mark, _order: order });
                }
                State::Running(_) | State::Parked | State::Lost => {}
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
        self.refuse_superseded()?;
        if let Some(sandbox) = self.registry.get(id) {
            return Ok(sandbox);
        }
        // Before start-up is through, those of before are not known yet.
        self.prepared()?;
        Err(Error::NotFound { resource: "sandbox" })
    }

    /// Whether there is no such sandbox any more, or somebody deletes it.
    pub fn is_deleted(&self, id: &SandboxId) -> bool {
        match self.registry.get(id) {
            Some(sandbox) => sandbox.look(|facts| facts.deleted || facts.record.stage == Stage::Deleting),
            None => self.prepared().is_ok(),
        }
    }

    /// Restarts a sandbox's container, unless that was done since there were `restarts` of it. If `ends` names a
    /// command, it ends with that reason. Every other command is lost; the files stay.
    pub(super) async fn restart(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        restarts: u64,
        ends: Option<(&CommandId, EndReason)>,
    ) -> Result<(), Error> {
        let (service, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        let ends = ends.map(|(command, reason)| (command.clone(), reason));
        let task = self.tasks.spawn(async move {
            let mut state = sandbox.order.exclusive().await;
            let State::Running(Running { agent, .. }) = &*state else {
                return Ok(());
            };
            if sandbox.deadlines.restarts() != restarts {
                return Ok(());
            }
            sandbox.deadlines.cut_off(ends.as_ref());
            let restarted = service.restart_held(&sandbox, agent).await;
            if restarted.is_err() {
                // Nobody knows what runs in it now. Without its container nothing does.
                service.verify_engine().await?;
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
            Status::Running { pid } | Status::Paused { pid } if pid > 0 && self.engine.shows_agent_pid() => {
                Peer::Pid(pid)
            }
            Status::Running { .. }
            | Status::Paused { .. }
            | Status::NeverStarted
            | Status::Ended
            | Status::Absent => Peer::Untold,
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
                    write_unless_there(&dir.join(HOSTS_NAME), HOSTS)?;
                    write_unless_there(&dir.join(PROFILE_NAME), PROFILE)?;
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

/// Writes a file that a sandbox sees, unless it is there: a container that runs has it mounted.
fn write_unless_there(path: &Path, content: &str) -> io::Result<()> {
    if std::fs::read(path).is_ok_and(|there| there == content.as_bytes()) {
        return Ok(());
    }
    std::fs::write(path, content)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o644))
}
