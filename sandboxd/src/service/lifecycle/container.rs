//! A sandbox's container: created, started, restarted and removed, and the connection to its agent.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use sandbox_api::command::EndReason;
use sandbox_api::{CommandId, SandboxId};
use tracing::warn;

use super::order::{Running, State};
use super::readiness::Prepared;
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::agent::{self, AgentHandle, Duplex, Peer};
use crate::engine::{self, ContainerPlan, Status, VolumePresence};
use crate::model::layout::{HOSTS, HOSTS_NAME, PROFILE, PROFILE_NAME};
use crate::model::{Transport, limits};
use crate::seam;
use crate::service::storage::HeldBase;

/// Whether a container is created for a new workspace or for an existing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workspace {
    New,
    Existing,
}

impl Lifecycle {
    /// Creates and starts the container and waits for its agent. After an error there is no container. The caller
    /// decides whether the workspace is kept.
    pub(super) async fn bring_up(
        &self,
        sandbox: &Sandbox,
        prepared: &Prepared,
        workspace: Workspace,
    ) -> Result<AgentHandle, Error> {
        sandbox.peer.send_replace(Peer::Pending);
        let agent = self.open_listener(sandbox)?;
        let started = async {
            let attached = self.storage.attach(&sandbox.labels()).await?;
            seam::at("start.attached");
            let plan = self.plan_of(sandbox, prepared);
            if plan.network.is_some() {
                self.ensure_bridge().await?;
            }
            let turn = self.starts.take(&sandbox.owner().project).await;
            match workspace {
                Workspace::New => self.engine.create_and_start(&plan).await?,
                Workspace::Existing => self.engine.create_again_and_start(&plan).await?,
            }
            drop(turn);
            seam::at("start.started");
            attached.release().await?;
            self.await_agent(sandbox, &agent).await
        };
        match started.await {
            Ok(()) => Ok(agent),
            Err(error) => {
                agent.close();
                self.start_record.remove();
                if let Err(second) = self.engine.remove_container_of(sandbox.id()).await {
                    warn!(sandbox = %sandbox.id(), error = &second as &dyn std::error::Error, "could not remove a container that did not start");
                }
                Err(self.storage.explain_start(sandbox.labels().disk.as_ref(), error).await)
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
            waiting_shells: self.setup.waiting_shells,
            labels,
        }
    }

    /// Removes the container, the volume, the disk and the socket's directory.
    pub(super) async fn tear_down(&self, sandbox: &Sandbox) -> Result<(), Error> {
        let removed = self.engine.remove(sandbox.id()).await;
        seam::at("remove.volume");
        match removed {
            Ok(()) => match self.storage.remove(sandbox.labels().disk.as_ref()).await {
                // A later sweep removes it, once this installation has disks again.
                Err(error @ Error::NoDisks) => {
                    warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not remove the disk of a deleted sandbox; a later sweep removes it");
                }
                other => other?,
            },
            // The engine may also keep the disk mounted. Nothing else can use it, and each sweep retries.
            Err(error @ engine::Error::Miscounted { .. }) => {
                let disk = self.storage.remove(sandbox.labels().disk.as_ref()).await;
                self.remember_deleted(sandbox.id()).await;
                warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, disk_is_gone = disk.is_ok(), "the engine keeps a deleted volume until it is restarted");
            }
            Err(error) => return Err(error.into()),
        }
        self.remove_run_dir_of(sandbox.id())
    }

    /// Restarts a sandbox's container, unless it was restarted since the caller read the number of `restarts`. If
    /// `ends` names a command, that command ends with the given reason. All other commands are lost. The files are
    /// kept.
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
                sandbox.ledger().record_restart(ends.as_ref());
                let restarted = lifecycle.restart_locked(&sandbox, agent).await;
                if restarted.is_err() {
                    // It is unknown what runs in the container now. After it is removed, nothing does.
                    lifecycle.ownership.verify().await?;
                    lifecycle.park_locked(&sandbox, &mut state).await?;
                }
                restarted
            })
            .await
    }

    pub(super) async fn restart_locked(&self, sandbox: &Sandbox, agent: &AgentHandle) -> Result<(), Error> {
        self.history.record_if_possible(sandbox.ledger(), agent).await;
        sandbox.peer.send_replace(Peer::Pending);
        let attached = self.storage.attach(&sandbox.labels()).await?;
        self.engine.restart(sandbox.id()).await?;
        attached.release().await?;
        self.await_agent(sandbox, agent).await
    }

    /// Completes the start of a container: records its process and its hardening, rejects it if it lacks hardening, and
    /// waits for the agent's first answer.
    pub(super) async fn await_agent(&self, sandbox: &Sandbox, agent: &AgentHandle) -> Result<(), Error> {
        let Some(inspected) = self.engine.inspect(sandbox.id()).await? else {
            return Err(agent::Error::NotConnected { waited: Duration::ZERO }.into());
        };
        sandbox.peer.send_replace(self.peer_of(inspected.status));
        if let Some(weakness) = inspected.posture.weaknesses(&self.network_of(sandbox)).first() {
            return Err(Error::NotHardened { weakness });
        }
        sandbox.set_posture(inspected.posture);
        self.await_first_answer(sandbox, agent).await
    }

    /// Waits for the agent, but not for one whose container has ended.
    async fn await_first_answer(&self, sandbox: &Sandbox, agent: &AgentHandle) -> Result<(), Error> {
        let began = Instant::now();
        while agent.connected(limits::RECHECK).await.is_err() {
            let has_ended = !matches!(
                self.engine.status(sandbox.id()).await,
                // An engine that does not answer says nothing about the container.
                Ok(Status::Running { .. } | Status::Paused { .. }) | Err(_)
            );
            if has_ended || agent.is_closed() || began.elapsed() >= limits::AGENT_FIRST_ANSWER {
                return Err(agent::Error::NotConnected { waited: began.elapsed() }.into());
            }
        }
        Ok(())
    }

    /// The process of the host that is accepted as the agent of a container with this status.
    pub(super) fn peer_of(&self, status: Status) -> Peer {
        match status {
            Status::Running { pid } | Status::Paused { pid } if pid > 0 && self.engine.shows_agent_pid() => {
                Peer::Pid(pid)
            }
            Status::Running { .. }
            | Status::Paused { .. }
            | Status::NeverStarted
            | Status::Ended
            | Status::Absent => Peer::Unknown,
        }
    }

    /// Opens the listener that a sandbox's agent connects to, or dials the agent through the engine.
    pub(super) fn open_listener(&self, sandbox: &Sandbox) -> Result<AgentHandle, Error> {
        let secret = self.instance.agent_secret(sandbox.id());
        match sandbox.labels().transport {
            Transport::Socket => {
                let dir = self.run_dir_of(sandbox.id());
                let open = || {
                    std::fs::create_dir_all(&dir)?;
                    // Independent of the umask. The sandbox's user must be able to enter, and only the container's
                    // mount leads other users here.
                    std::fs::set_permissions(&dir, Permissions::from_mode(0o755))?;
                    write_if_different(&dir.join(HOSTS_NAME), HOSTS)?;
                    write_if_different(&dir.join(PROFILE_NAME), PROFILE)?;
                    AgentHandle::listen(&dir, secret, sandbox.peer.subscribe())
                };
                open().map_err(|source| Error::RunDir { source })
            }
            Transport::Engine => Ok(AgentHandle::dial(secret, self.dial_fn(sandbox.id().clone()))),
        }
    }

    fn dial_fn(&self, id: SandboxId) -> agent::DialFn {
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

    /// Removes the directory of a sandbox's socket. Idempotent: succeeds if it does not exist.
    pub(super) fn remove_run_dir_of(&self, id: &SandboxId) -> Result<(), Error> {
        match std::fs::remove_dir_all(self.run_dir_of(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::RunDir { source: error }),
            _ => Ok(()),
        }
    }

    /// Assigns a disk to a new sandbox, if workspaces have disks of their own. Returns whether it is over the base.
    pub(super) async fn claim_disk(&self, sandbox: &Sandbox, base: Option<&HeldBase>) -> Result<bool, Error> {
        let mib = sandbox.labels().spec.resources.disk_mb();
        let lower = base.map(|base| &base.lower);
        let disk = match self.storage.claim(mib, lower).await {
            Err(Error::DiskShort { .. })
                if self.storage.remove_unused_bases(async || self.bases_in_use().await).await =>
            {
                self.storage.claim(mib, lower).await?
            }
            other => other?,
        };
        let is_over_base = disk.as_ref().is_some_and(|disk| disk.lower().is_some());
        if let Some(disk) = disk {
            sandbox.update(|record| record.disk = Some(disk));
        }
        Ok(is_over_base)
    }

    /// Whether the files of a sandbox still exist. If the sandbox has a disk, they are on the disk, and the engine
    /// recreates a missing entry of the volume. A foreign volume with the same name would be mounted instead, so with
    /// one the files count as missing.
    pub(super) async fn has_workspace(&self, sandbox: &Sandbox) -> Result<bool, Error> {
        let volume = self.engine.volume_presence(sandbox.id()).await?;
        let has_disk = match &sandbox.labels().disk {
            Some(disk) if volume != VolumePresence::Foreign => self.storage.has(disk).await?,
            _ => None,
        };
        Ok(has_disk.unwrap_or(volume == VolumePresence::Ours))
    }
}

/// Writes a file that is visible in a sandbox, unless it has this content: a running container has it mounted.
fn write_if_different(path: &Path, content: &str) -> io::Result<()> {
    if std::fs::read(path).is_ok_and(|found| found == content.as_bytes()) {
        return Ok(());
    }
    std::fs::write(path, content)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o644))
}
