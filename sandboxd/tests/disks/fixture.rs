//! An engine with disks for one test. Everything is removed at the end.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::container::LogOutput;
use bollard::exec::StartExecResults;
use bollard::models::ExecConfig;
use bollard::query_parameters::InspectContainerOptions;
use futures::StreamExt;
use sandbox_api::SandboxId;
use sandboxd::engine::{ContainerPlan, Disks, Engine, SandboxLabels};
use sandboxd::model::{Disk, EngineAddress, Instance, Resources, SandboxSpec, Transport, UidSlot};
use test_daemon::{agent_program, remove_all};

/// Time limit of every wait for a condition.
const SOON: Duration = Duration::from_secs(30);

const POLL: Duration = Duration::from_millis(20);

/// The user id of every sandbox here.
pub(crate) const UID: u32 = 20_042;

pub(crate) const IMAGE: &str = "remcochat-sandbox:node24";

/// An engine with its own instance.
pub(crate) struct Fixture {
    pub(crate) engine: Engine,
    pub(crate) docker: Docker,
    pub(crate) instance: Arc<Instance>,
    pub(crate) agent_volume: String,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        let mut key = [0; 32];
        key[..16].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
        let instance = Arc::new(Instance::new(key));
        let address = EngineAddress::Unix("/var/run/docker.sock".into());
        let engine = Engine::connect(address, Arc::clone(&instance), None, Arc::default()).await.unwrap();
        let docker = Docker::connect_with_local_defaults().unwrap().negotiate_version().await.unwrap();
        let agent_volume = engine.ensure_agent_volume(&agent_program(), None, IMAGE).await.unwrap().name;
        Self { engine, docker, instance, agent_volume }
    }

    pub(crate) async fn disks(&self) -> Disks {
        self.engine.open_disks(IMAGE, &self.agent_volume).await.unwrap()
    }

    /// Name of the helper and of the disks' volume.
    pub(crate) fn helper(&self) -> String {
        format!("sandboxd-disks-{}", self.instance.id())
    }

    /// The directory of the images on this machine.
    pub(crate) async fn images(&self) -> PathBuf {
        self.docker.inspect_volume(&self.helper()).await.unwrap().mountpoint.into()
    }

    pub(crate) fn plan(&self, disk: Option<(&Disks, &Disk)>, disk_mib: u32) -> ContainerPlan {
        let request = sandbox_api::sandbox::Resources {
            disk_mb: Some(disk_mib.into()),
            ..sandbox_api::sandbox::Resources::default()
        };
        ContainerPlan {
            labels: SandboxLabels {
                id: SandboxId::random().unwrap(),
                slot: UidSlot::of_uid(UID).unwrap(),
                transport: Transport::Engine,
                disk: disk.map(|(_, disk)| disk.clone()),
                spec: SandboxSpec {
                    resources: Resources::new(request).unwrap(),
                    ..SandboxSpec::new("disks".parse().unwrap())
                },
            },
            image: IMAGE.into(),
            agent_volume: self.agent_volume.clone(),
            agent_secret: "secret".into(),
            run_dir: None,
            disk_device: disk.map(|(disks, disk)| disks.device(disk)),
            network: None,
            has_ca_bundle: false,
            waiting_shells: true,
        }
    }

    /// A running sandbox with `disk`, created like a real one.
    pub(crate) async fn sandbox(&self, disks: &Disks, disk: &Disk, mib: u32) -> SandboxId {
        let plan = self.plan(Some((disks, disk)), mib);
        let attached = disks.attach(disk, plan.labels.slot).await.unwrap();
        self.engine.create_and_start(&plan).await.unwrap();
        attached.release().await.unwrap();
        plan.labels.id
    }

    /// Runs a script as the sandbox's user. Returns its exit code and output.
    pub(crate) async fn run(&self, sandbox: &SandboxId, script: &str) -> (i64, String) {
        self.run_in(&format!("remcochat-sandbox-{sandbox}"), &format!("{UID}:{UID}"), script).await
    }

    /// The same in any container, as any user.
    pub(crate) async fn run_in(&self, container: &str, user: &str, script: &str) -> (i64, String) {
        let config = ExecConfig {
            user: Some(user.into()),
            cmd: Some(["bash", "-c", script].map(Into::into).into()),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            ..ExecConfig::default()
        };
        let exec = self.docker.create_exec(container, config).await.unwrap().id;
        let mut said = String::new();
        if let StartExecResults::Attached { mut output, .. } =
            self.docker.start_exec(&exec, None).await.unwrap()
        {
            while let Some(Ok(frame)) = output.next().await {
                said += &String::from_utf8_lossy(&LogOutput::into_bytes(frame));
            }
        }
        let code = self.docker.inspect_exec(&exec).await.unwrap().exit_code.unwrap();
        (code, said)
    }

    /// Runs a script that must succeed. Returns its output.
    pub(crate) async fn output(&self, sandbox: &SandboxId, script: &str) -> String {
        let (code, said) = self.run(sandbox, script).await;
        assert_eq!(code, 0, "{script}: {said}");
        said.trim().to_owned()
    }

    /// Whether the helper's container exists.
    pub(crate) async fn helper_exists(&self) -> bool {
        self.docker.inspect_container(&self.helper(), None::<InspectContainerOptions>).await.is_ok()
    }
}

impl Drop for Fixture {
    /// Removes all leftovers, also after a failed test.
    fn drop(&mut self) {
        let id = self.instance.id().to_owned();
        let clean = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(remove_all(&id));
        };
        let _ = std::thread::spawn(clean).join();
    }
}

/// Whether a loop device of this machine uses the disk's image.
pub(crate) fn has_device(disk: &str) -> bool {
    let devices = std::fs::read_dir("/sys/block").unwrap().flatten();
    devices.into_iter().any(|device| {
        let file = std::fs::read_to_string(device.path().join("loop/backing_file"));
        file.is_ok_and(|file| file.contains(&format!("{disk}.img")))
    })
}

/// Waits for a condition, with a time limit.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let deadline = Instant::now() + SOON;
    while !condition().await {
        assert!(Instant::now() < deadline, "timed out after {SOON:?} waiting until {what}");
        tokio::time::sleep(POLL).await;
    }
}
