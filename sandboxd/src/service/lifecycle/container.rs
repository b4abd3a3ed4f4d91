//! A sandbox's container: created, started, restarted and removed, and the listener for its agent.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use futures::FutureExt;
use sandbox_api::command::EndReason;
use sandbox_api::{CommandId, SandboxId};
use tracing::warn;

use super::order::{Running, State};
use super::prepare::Prepared;
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::agent::{self, AgentHandle, Duplex, Peer};
use crate::engine::{self, ContainerPlan, Status, VolumePresence};
use crate::model::layout::{HOSTS, HOSTS_NAME, PROFILE, PROFILE_NAME};
use crate::model::{Transport, limits};
use crate::seam;

/// Whether a container is created for a new workspace or for an existing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workspace {
    New,
    Existing,
}

impl Lifecycle {
    /// Makes and starts the container and waits for its agent. Where that fails there is no container; the
    /// workspace is the caller's to keep or to remove.
    pub(super) async fn bring_up(
        &self,
        sandbox: &Sandbox,
        prepared: &Prepared,
        workspace: Workspace,
    ) -> Result<AgentHandle, Error> {
        sandbox.peer.send_replace(Peer::NotStarted);
        let agent = self.open_listener(sandbox)?;
        let started = async {
            let attached = self.storage.attach(&sandbox.labels()).await?;
            seam::at("start.attached");
            let plan = self.plan_of(sandbox, prepared);
            if plan.network.is_some() {
                self.ensure_bridge().await?;
            }
            match workspace {
                Workspace::New => self.engine.create_and_start(&plan).await?,
                Workspace::Existing => self.engine.create_again_and_start(&plan).await?,
            }
            seam::at("start.started");
            attached.release().await?;
            self.await_agent(sandbox, &agent).await
        };
        match started.await {
            Ok(()) => Ok(agent),
            Err(error) => {
                agent.hang_up();
                if let Err(second) = self.engine.remove_container_of(sandbox.id()).await {
                    warn!(sandbox = %sandbox.id(), error = &second as &dyn std::error::Error, "a container that did not start could not be removed");
                }
                Err(error)
            }
        }
    }

    pub(super) fn plan_of(&self, sandbox: &Sandbox, prepared: &Prepared) -> ContainerPlan {
        let labels = sandbox.labels();
        let run_dir = match labels.transport {
            Transport::Socket => Some(self.run_dir_of(sandbox.id()).to_string_lossy().into_owned()),
            Transport::Engine => None,
        };
        ContainerPlan {
            image: labels.spec.image.clone().unwrap_or_else(|| prepared.image.clone()),
            agent_volume: prepared.agent_volume.clone(),
            agent_secret: self.instance.agent_secret(sandbox.id()),
            disk_device: self.storage.device_of(labels.disk.as_ref()),
            run_dir,
            network: labels.spec.network.is_open().then(|| self.bridge_name()),
            has_ca_bundle: self.setup.egress.ca_bundle.is_some(),
            labels,
        }
    }

    /// Removes container, volume, disk and socket.
    pub(super) async fn take_down(&self, sandbox: &Sandbox) -> Result<(), Error> {
        let removed = self.engine.remove(sandbox.id()).await;
        seam::at("remove.volume");
        match removed {
            Ok(()) => match self.storage.remove(sandbox.labels().disk.as_ref()).await {
                // The daemon that has disks again sweeps it.
                Err(error @ Error::NoDisks) => {
                    warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "a deleted sandbox's disk stays");
                }
                other => other?,
            },
            // The engine may have the disk mounted, too. Nobody else can use it; each sweep tries again.
            Err(error @ engine::Error::Miscounted { .. }) => {
                let disk = self.storage.remove(sandbox.labels().disk.as_ref()).await;
                self.expect_removal(sandbox.id()).await;
                warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, disk_is_gone = disk.is_ok(), "a deleted volume stays until the engine is restarted");
            }
            Err(error) => return Err(error.into()),
        }
        self.remove_run_dir_of(sandbox.id())
    }

    /// Restarts a sandbox's container, unless that was done since there were `restarts` of it. If `ends` names a
    /// command, it ends with that reason. Every other command is lost; the files stay.
    pub(in crate::service) async fn restart(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        restarts: u64,
        ends: Option<(&CommandId, EndReason)>,
    ) -> Result<(), Error> {
        let (lifecycle, sandbox) = (Arc::clone(self), Arc::clone(sandbox));
        let ends = ends.map(|(command, reason)| (command.clone(), reason));
        self.tasks
            .run_detached(async move {
                let mut state = sandbox.order.exclusive().await;
                let State::Running(Running { agent, .. }) = &*state else {
                    return Ok(());
                };
                if sandbox.ledger().restarts() != restarts {
                    return Ok(());
                }
                sandbox.ledger().cut_off(ends.as_ref());
                let restarted = lifecycle.restart_held(&sandbox, agent).await;
                if restarted.is_err() {
                    // Nobody knows what runs in it now. Without its container nothing does.
                    lifecycle.ownership.verify().await?;
                    lifecycle.park_held(&sandbox, &mut state).await?;
                }
                restarted
            })
            .await
    }

    async fn restart_held(&self, sandbox: &Sandbox, agent: &AgentHandle) -> Result<(), Error> {
        self.history.record_if_possible(sandbox.ledger(), agent).await;
        sandbox.peer.send_replace(Peer::NotStarted);
        let attached = self.storage.attach(&sandbox.labels()).await?;
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
            | Status::Absent => Peer::Unidentified,
        }
    }

    /// Opens the listener for a sandbox's agent, or dials it through the engine.
    pub(super) fn open_listener(&self, sandbox: &Sandbox) -> Result<AgentHandle, Error> {
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

    /// Assigns a disk to a new sandbox, if workspaces have disks of their own.
    pub(super) async fn claim_disk(&self, sandbox: &Sandbox) -> Result<(), Error> {
        let mib = sandbox.labels().spec.resources.disk_mb();
        if let Some(disk) = self.storage.claim(mib).await? {
            sandbox.update(|record| record.disk = Some(disk));
        }
        Ok(())
    }

    /// Whether the files of a sandbox still exist. With a disk of its own they are on the disk, and the engine recreates a
    /// missing entry of the volume. A foreign volume of that name would be mounted instead, so it counts as missing.
    pub(super) async fn has_workspace(&self, sandbox: &Sandbox) -> Result<bool, Error> {
        let volume = self.engine.volume_presence(sandbox.id()).await?;
        let has_disk = match &sandbox.labels().disk {
            Some(disk) if volume != VolumePresence::Foreign => self.storage.has(disk).await?,
            _ => None,
        };
        Ok(has_disk.unwrap_or(volume == VolumePresence::Ours))
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
