//! The helper's container: its rights, its start and its end.
//!
//! It may open loop devices (the engine's device rules), create device nodes for them (CAP_MKNOD), and write to the
//! disks' volume. It needs nothing else: attaching a loop device requires the right to open it, but no capability.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bollard::models::{
    ContainerCreateBody, HostConfig, HostConfigLogConfig, Mount, MountType, MountVolumeOptions,
};
use bollard::query_parameters::{AttachContainerOptions, CreateContainerOptions};
use tokio::time::{Instant, sleep, timeout};

use super::connection::HelperConnection;
use super::names::disks_name;
use crate::DiskFault;
use crate::labels::INSTANCE;
use crate::{Engine, Error};
use sandboxd_model::layout::{AGENT_DIR, AGENT_PROGRAM};
use sandboxd_model::limits;

/// The parts of a helper's container that the service chooses.
#[derive(Debug)]
pub(super) struct DisksSetup {
    /// The image of the container.
    pub(super) image: String,
    /// The volume that holds the agent program.
    pub(super) agent_volume: String,
}

/// Label that distinguishes a helper from a sandbox.
pub(crate) const HELPER_LABEL: &str = "sandboxd.helper";

/// Mount point of the disks' volume in the helper.
const DISKS_DIR: &str = "/disks";

/// Loop devices, and their control device. The engine allows every container further devices that are harmless, such
/// as terminals and /dev/null.
const DEVICE_RULES: [&str; 2] = ["b 7:* rwm", "c 10:237 rwm"];

/// Threads and children of the helper: four workers with one program each.
const PIDS: i64 = 64;

/// Enough for e2fsck on the largest disk. The pages of the images can be reclaimed.
const MEMORY_BYTES: i64 = 512 * 1024 * 1024;

/// The helper's tmpfs: device nodes and a few empty directories. `dev`, because the nodes must work.
const RUN_OPTIONS: &str = "rw,dev,nosuid,noexec,mode=700,size=1m,nr_inodes=4096";

/// Interval between checks whether a helper is gone.
const POLL: Duration = Duration::from_millis(20);

impl Engine {
    /// Starts a new helper and replaces an existing one.
    pub(super) async fn start_helper(&self, setup: &DisksSetup) -> Result<Arc<HelperConnection>, Error> {
        let name = disks_name(&self.instance);
        self.end_helper(&name).await?;
        let options = CreateContainerOptions { name: Some(name.clone()), ..Default::default() };
        let create = self.docker.create_container(options, self.helper_body(&name, setup));
        self.call("create disks' helper", limits::ENGINE_CALL, create).await?;
        let connection = self.attach_and_start(&name).await;
        if connection.is_err() {
            // The first error is reported. The next start removes the container too.
            let _ = self.remove_container(&name).await;
        }
        connection
    }

    async fn attach_and_start(&self, name: &str) -> Result<Arc<HelperConnection>, Error> {
        let options = AttachContainerOptions {
            stream: true,
            stdin: true,
            stdout: true,
            stderr: true,
            ..Default::default()
        };
        // Before the start, so that no byte is missed.
        let attach = self.docker.attach_container(name, options);
        let attached = self.call("attach to disks' helper", limits::ENGINE_CALL, attach).await?;
        let start = self.docker.start_container(name);
        self.call("start disks' helper", limits::ENGINE_CALL, start).await?;
        let call = "greet disks' helper";
        let greeted = timeout(limits::DISK_CALL, HelperConnection::open(attached)).await;
        let greeted = greeted.map_err(|_| Error::Deadline { call, after: limits::DISK_CALL })?;
        greeted.map_err(|source| Error::Disk { call, name: String::new(), source })
    }

    /// Whether a helper of this instance runs. If so, the daemon that started it runs too.
    pub async fn disks_helper_runs(&self) -> Result<bool, Error> {
        let name = disks_name(&self.instance);
        let inspect = self.docker.inspect_container(&name);
        match self.call("look for disks' helper", limits::ENGINE_CALL, inspect).await {
            Ok(found) => Ok(found.state.and_then(|state| state.running).unwrap_or(false)),
            Err(Error::Absent { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the helper and waits until it is gone. It removes itself when it ends, so the engine may already be
    /// removing it.
    pub(super) async fn end_helper(&self, name: &str) -> Result<(), Error> {
        let deadline = Instant::now() + limits::DISK_CALL;
        loop {
            match self.remove_container(name).await {
                Err(Error::Conflict { .. }) => {}
                other => other?,
            }
            let inspect = self.docker.inspect_container(name);
            match self.call("look for disks' helper", limits::ENGINE_CALL, inspect).await {
                Err(Error::Absent { .. }) => return Ok(()),
                Err(error) => return Err(error),
                Ok(_) if Instant::now() > deadline => {
                    return Err(Error::Disk {
                        call: "end helper",
                        name: String::new(),
                        source: DiskFault::Busy,
                    });
                }
                Ok(_) => sleep(POLL).await,
            }
        }
    }

    fn helper_body(&self, name: &str, setup: &DisksSetup) -> ContainerCreateBody {
        let labels = [(INSTANCE, self.instance.id()), (HELPER_LABEL, "disks")];
        ContainerCreateBody {
            image: Some(setup.image.clone()),
            // Without capabilities, root may do only what the owner of its files and devices may do.
            user: Some("0:0".into()),
            entrypoint: Some(vec![AGENT_PROGRAM.into()]),
            cmd: Some(vec!["disks".into(), DISKS_DIR.into()]),
            working_dir: Some("/".into()),
            labels: Some(labels.map(|(name, value)| (name.into(), value.into())).into()),
            // The helper ends with the daemon: the engine then closes its input.
            open_stdin: Some(true),
            stdin_once: Some(true),
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            stop_signal: Some("SIGKILL".into()),
            network_disabled: Some(true),
            host_config: Some(helper_host_config(name, setup)),
            ..ContainerCreateBody::default()
        }
    }
}

fn helper_host_config(disks_volume: &str, setup: &DisksSetup) -> HostConfig {
    let volume = |name: &str, target: &str, read_only| Mount {
        typ: Some(MountType::VOLUME),
        source: Some(name.into()),
        target: Some(target.into()),
        read_only: Some(read_only),
        volume_options: Some(MountVolumeOptions { no_copy: Some(true), ..MountVolumeOptions::default() }),
        ..Mount::default()
    };
    HostConfig {
        init: Some(false),
        auto_remove: Some(true),
        readonly_rootfs: Some(true),
        privileged: Some(false),
        cap_drop: Some(vec!["ALL".into()]),
        // For the nodes of loop devices, which are created while it runs.
        cap_add: Some(vec!["MKNOD".into()]),
        device_cgroup_rules: Some(DEVICE_RULES.map(Into::into).into()),
        security_opt: Some(vec!["no-new-privileges:true".into()]),
        network_mode: Some("none".into()),
        ipc_mode: Some("private".into()),
        pids_limit: Some(PIDS),
        memory: Some(MEMORY_BYTES),
        memory_swap: Some(MEMORY_BYTES),
        tmpfs: Some(HashMap::from([("/run".into(), RUN_OPTIONS.into())])),
        mounts: Some(vec![
            volume(disks_volume, DISKS_DIR, false),
            volume(&setup.agent_volume, AGENT_DIR, true),
        ]),
        log_config: Some(HostConfigLogConfig { typ: Some("none".into()), config: None }),
        ..HostConfig::default()
    }
}
