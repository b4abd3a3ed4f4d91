//! A sandbox's container and volume, from create to remove.

use std::collections::{HashMap, HashSet};

use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::{ContainerInspectResponse, ContainerState, ContainerStateStatusEnum, ExecConfig};
use bollard::query_parameters::{
    CreateContainerOptions, ListContainersOptions, RemoveContainerOptions, RestartContainerOptions,
    UploadToContainerOptions,
};
use futures::TryStreamExt;
use sandbox_api::SandboxId;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::StreamReader;
use tracing::warn;

use super::labels::{self, INSTANCE, PROXY_PORT, SANDBOX_ID};
use super::own::runs;
use super::posture::posture_of;
use super::settings::lower_of;
use super::tar::Archive;
use super::{ContainerPlan, Engine, Error, SandboxLabels, container_body};
use sandboxd_model::layout::{
    AGENT_PROGRAM, OUTPUTS_NAME, STAGING_NAME, VOLUME_DIR, WORKSPACE_NAME, container_name, volume_name,
};
use sandboxd_model::{Posture, UidSlot, limits};

/// Buffer of the stream to an agent that is reached through the engine, in bytes.
const DIAL_BUFFER_BYTES: usize = 64 * 1024;

/// Time that a restart waits after the first signal. The signal is SIGKILL, so there is no wait. With 0, the engine
/// (20.10) kills a second time at once and cleans up while it starts, after which no `exec` works.
const STOP_SECONDS: i32 = 10;

/// State of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It runs. `pid` is its first process, as the host sees it.
    Running {
        /// 0 if the engine does not report it.
        pid: i32,
    },
    /// It was paused. Its processes continue when it is unpaused.
    Paused {
        /// 0 if the engine does not report it.
        pid: i32,
    },
    /// It was created and never started.
    NeverStarted,
    /// It ran and ended.
    Ended,
    /// The container does not exist.
    Absent,
}

/// Whether the engine has the volume of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VolumePresence {
    /// It has our signed labels.
    Ours,
    /// A volume without them has its name.
    Foreign,
    /// No volume has its name.
    Absent,
}

/// The sandboxes' containers on an engine, running or not.
#[derive(Debug, Default)]
pub struct Containers {
    /// Those with our instance id.
    pub ours: Vec<Found>,
    /// User ids of those with another instance id. Anyone can write such labels, so this is only a hint.
    pub other_users: HashSet<UidSlot>,
}

/// A container with our instance id.
#[derive(Debug)]
pub struct Found {
    /// Its labels, if they are signed by this instance and the container has the sandbox's volume.
    pub labels: Option<SandboxLabels>,
    /// The engine's id.
    pub container_id: String,
    /// Whether it ran when it was listed.
    pub runs: bool,
}

/// A container at the time of the inspection.
#[derive(Debug, Clone)]
pub struct Inspected {
    /// The engine's id.
    pub container_id: String,
    /// Whether it has the name of its sandbox's container.
    pub is_named: bool,
    /// State of the container.
    pub status: Status,
    /// Hardening of the container.
    pub posture: Posture,
}

impl Engine {
    /// Creates a sandbox's container and volume and starts it. After a failure, the caller must remove what is
    /// left.
    pub async fn create_and_start(&self, plan: &ContainerPlan) -> Result<(), Error> {
        self.create_unstarted(plan).await?;
        self.start(&plan.labels.id).await
    }

    /// Creates a sandbox's container and volume with its directories.
    pub(super) async fn create_unstarted(&self, plan: &ContainerPlan) -> Result<(), Error> {
        self.create(plan).await?;
        // A disk gets its directories when it is attached.
        if plan.disk_device.is_none() {
            self.prepare_volume(plan).await?;
        }
        Ok(())
    }

    /// Creates a container for an existing volume and starts it. After a failure, the caller must remove what is
    /// left.
    pub async fn create_again_and_start(&self, plan: &ContainerPlan) -> Result<(), Error> {
        // Two containers must not share a workspace, whatever their names are.
        self.remove_others(&plan.labels.id, None).await?;
        match self.create(plan).await {
            // Left by a crash or a failed removal.
            Err(Error::Conflict { .. }) => {
                self.remove_container_of(&plan.labels.id).await?;
                self.create(plan).await?;
            }
            other => other?,
        }
        self.start(&plan.labels.id).await
    }

    async fn create(&self, plan: &ContainerPlan) -> Result<(), Error> {
        let body = container_body(plan, &self.instance, self.host()?);
        let options =
            CreateContainerOptions { name: Some(container_name(&plan.labels.id)), ..Default::default() };
        let create = self.docker.create_container(options, body);
        match self.call("create container", limits::ENGINE_CALL, create).await {
            // A new container needs nothing else that could be absent, except the plugin of a disk over a base.
            Err(error @ Error::Absent { .. })
                if lower_of(plan).is_some() && self.has_image(&plan.image).await? =>
            {
                Err(error)
            }
            Err(Error::Absent { .. }) => Err(Error::ImageMissing { image: plan.image.clone() }),
            other => other.map(drop),
        }
    }

    /// Gives a new plain volume its directories and their owner. A disk has them already. The container has not run
    /// yet, so nothing in it can mislead the engine.
    async fn prepare_volume(&self, plan: &ContainerPlan) -> Result<(), Error> {
        let uid = plan.labels.slot.uid();
        let mut archive = Archive::new();
        let dirs = [
            (WORKSPACE_NAME, 0o755),
            (".local", 0o755),
            (".local/tmp", 0o700),
            (STAGING_NAME, 0o700),
            (OUTPUTS_NAME, 0o755),
        ];
        let written = dirs.iter().try_for_each(|(name, mode)| archive.dir(name, *mode, uid));
        let bytes = written.and_then(|()| archive.finish()).expect("memory takes every write");
        let options = UploadToContainerOptions { path: VOLUME_DIR.into(), ..Default::default() };
        let name = container_name(&plan.labels.id);
        let upload = self.docker.upload_to_container(&name, options, bytes);
        self.call("prepare volume", limits::ENGINE_CALL, upload).await
    }

    async fn start(&self, id: &SandboxId) -> Result<(), Error> {
        sandboxd_seam::at("start.created");
        let name = container_name(id);
        let start = self.docker.start_container(&name);
        self.call("start container", limits::ENGINE_CALL, start).await
    }

    /// Starts the container again, whatever its state. The volume keeps its files. A disk must stay attached during
    /// the restart.
    pub async fn restart(&self, id: &SandboxId) -> Result<(), Error> {
        let name = self.inspect(id).await?.map_or_else(|| container_name(id), |found| found.container_id);
        let options = RestartContainerOptions { t: Some(STOP_SECONDS), ..Default::default() };
        let restart = self.docker.restart_container(&name, options);
        self.call("restart container", limits::ENGINE_CALL, restart).await
    }

    /// State of the sandbox's container.
    pub async fn status(&self, id: &SandboxId) -> Result<Status, Error> {
        Ok(self.inspect(id).await?.map_or(Status::Absent, |inspected| inspected.status))
    }

    /// Inspects the sandbox's container. `None` if it does not exist.
    pub async fn inspect(&self, id: &SandboxId) -> Result<Option<Inspected>, Error> {
        let name = container_name(id);
        let inspect = self.docker.inspect_container(&name);
        match self.call("inspect container", limits::ENGINE_CALL, inspect).await {
            Ok(container) if self.is_of(&container, id) => Ok(Some(inspected(&container, &name))),
            Ok(_) | Err(Error::Absent { .. }) => self.inspect_renamed(id, &name).await,
            Err(error) => Err(error),
        }
    }

    async fn inspect_renamed(&self, id: &SandboxId, name: &str) -> Result<Option<Inspected>, Error> {
        let Some(found) = self.find_renamed(id).await? else { return Ok(None) };
        let inspect = self.docker.inspect_container(&found);
        match self.call("inspect container", limits::ENGINE_CALL, inspect).await {
            Ok(container) => Ok(Some(inspected(&container, name))),
            Err(Error::Absent { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Any container can have the name of a sandbox's container.
    pub(super) fn is_ours(&self, container: &ContainerInspectResponse) -> bool {
        let labels = container.config.as_ref().and_then(|config| config.labels.as_ref());
        labels.and_then(|labels| labels.get(INSTANCE)).is_some_and(|instance| instance == self.instance.id())
    }

    /// Looks for the sandbox's volume.
    pub async fn volume_presence(&self, id: &SandboxId) -> Result<VolumePresence, Error> {
        let name = volume_name(id);
        match self.call("inspect volume", limits::ENGINE_CALL, self.docker.inspect_volume(&name)).await {
            Ok(volume) if self.is_volume_of(&volume, id) => Ok(VolumePresence::Ours),
            Ok(_) => Ok(VolumePresence::Foreign),
            Err(Error::Absent { .. }) => Ok(VolumePresence::Absent),
            Err(error) => Err(error),
        }
    }

    /// Removes the sandbox's container and keeps its volume. Idempotent: succeeds if there is none of ours.
    pub async fn remove_container_of(&self, id: &SandboxId) -> Result<(), Error> {
        let name = container_name(id);
        let inspect = self.docker.inspect_container(&name);
        match self.call("inspect container", limits::ENGINE_CALL, inspect).await {
            // By its id, because another container may have the name by now.
            Ok(container) if self.is_of(&container, id) => {
                self.remove_container(container.id.as_deref().unwrap_or(&name)).await?;
            }
            Ok(_) => {
                warn!(container = name, "another container has the name of a sandbox's; it is left alone");
            }
            Err(Error::Absent { .. }) => {}
            Err(error) => return Err(error),
        }
        self.remove_others(id, None).await
    }

    /// Removes the sandbox's container and volume, running or not. Idempotent: succeeds if there are none. Fails
    /// with [`Error::Miscounted`] if only an empty entry of the volume is left.
    pub async fn remove(&self, id: &SandboxId) -> Result<(), Error> {
        self.remove_container_of(id).await?;
        sandboxd_seam::at("remove.container");
        let name = volume_name(id);
        match self.call("inspect volume", limits::ENGINE_CALL, self.docker.inspect_volume(&name)).await {
            Ok(volume) if !self.is_volume_of(&volume, id) => {
                warn!(volume = name, "another volume has the name of a sandbox's; it is left alone");
                return Ok(());
            }
            Ok(_) => {}
            Err(Error::Absent { .. }) => return Ok(()),
            Err(error) => return Err(error),
        }
        // Never by force: if that fails, the engine loses the labels, and the volume never has an owner again.
        let remove = self.docker.remove_volume(&name);
        match absent_is_done(self.call("remove volume", limits::ENGINE_CALL, remove).await) {
            // The container is gone, so there is no mount.
            Err(Error::Failed { source, .. }) if source.to_string().contains("active mounts") => {
                Err(Error::Miscounted { name })
            }
            other => other,
        }
    }

    pub(super) async fn remove_container(&self, name: &str) -> Result<(), Error> {
        // Removes anonymous volumes with it. A sandbox's own volume has a name.
        let options = RemoveContainerOptions { force: true, v: true, ..Default::default() };
        let remove = self.docker.remove_container(name, options);
        absent_is_done(self.call("remove container", limits::ENGINE_CALL, remove).await)
    }

    /// Every sandbox's container, of any installation. Excludes the daemon's own helper and publishers.
    pub async fn list(&self) -> Result<Containers, Error> {
        let options = ListContainersOptions {
            all: true,
            filters: Some(HashMap::from([("label".to_owned(), vec![INSTANCE.to_owned()])])),
            ..Default::default()
        };
        let list = self.docker.list_containers(options);
        let mut containers = Containers::default();
        for container in self.call("list containers", limits::ENGINE_CALL, list).await? {
            let Some(labels) = container.labels.as_ref() else { continue };
            if !labels.contains_key(SANDBOX_ID) || labels.contains_key(PROXY_PORT) {
                continue;
            }
            if labels.get(INSTANCE).is_some_and(|instance| instance == self.instance.id()) {
                containers.ours.push(self.found(container));
            } else {
                containers.other_users.extend(labels::slot_of(labels));
            }
        }
        Ok(containers)
    }

    fn found(&self, container: bollard::models::ContainerSummary) -> Found {
        Found {
            labels: self.owner_of(&container),
            runs: runs(&container),
            container_id: container.id.unwrap_or_default(),
        }
    }

    /// Opens a connection to the sandbox's agent through the engine, where no socket can be shared. The agent's own
    /// program relays the bytes as root without capabilities, which is how the agent distinguishes it from a
    /// command.
    pub async fn dial_agent(
        &self,
        id: &SandboxId,
    ) -> Result<impl AsyncRead + AsyncWrite + Send + use<>, Error> {
        let name = container_name(id);
        let config = ExecConfig {
            user: Some("0:0".into()),
            cmd: Some(vec![AGENT_PROGRAM.into(), "dial".into()]),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(false),
            ..ExecConfig::default()
        };
        let exec =
            self.call("create exec", limits::ENGINE_CALL, self.docker.create_exec(&name, config)).await?;
        let options = StartExecOptions { output_capacity: Some(DIAL_BUFFER_BYTES), ..Default::default() };
        let start = self.docker.start_exec(&exec.id, options);
        match self.call("start exec", limits::ENGINE_CALL, start).await? {
            StartExecResults::Attached { output, input } => {
                let bytes = output.map_ok(bollard::container::LogOutput::into_bytes);
                let reader = StreamReader::new(bytes.map_err(std::io::Error::other));
                Ok(tokio::io::join(reader, input))
            }
            StartExecResults::Detached => Err(Error::NoAnswer { address: self.address.to_string() }),
        }
    }
}

fn inspected(container: &ContainerInspectResponse, name: &str) -> Inspected {
    let is_named = container.name.as_ref().is_some_and(|found| found.trim_start_matches('/') == name);
    Inspected {
        container_id: container.id.clone().unwrap_or_default(),
        is_named,
        status: status_of(container.state.as_ref()),
        posture: posture_of(container),
    }
}

fn status_of(state: Option<&ContainerState>) -> Status {
    let Some(state) = state else { return Status::Ended };
    let pid = state.pid.and_then(|pid| i32::try_from(pid).ok()).unwrap_or(0);
    match state.status {
        Some(ContainerStateStatusEnum::RUNNING) => Status::Running { pid },
        Some(ContainerStateStatusEnum::PAUSED) => Status::Paused { pid },
        Some(ContainerStateStatusEnum::CREATED) => Status::NeverStarted,
        _ => Status::Ended,
    }
}

pub(super) fn absent_is_done(result: Result<(), Error>) -> Result<(), Error> {
    match result {
        Err(Error::Absent { .. }) => Ok(()),
        other => other,
    }
}
