//! A create and a wake, beside the engine's own time to create and start the same container. The competitor's container
//! has exactly the settings of a sandbox, and its own disk, which is attached before the clock starts. So its time is
//! the minimum: two calls to the engine. Ours is a whole HTTP request: a disk is taken and attached, intent and outcome
//! are written to the host's disk, the container's hardening is read back, and its agent has responded.

use std::time::{Duration, Instant};

use bollard::Docker;
use bollard::exec::{StartExecOptions, StartExecResults};
use bollard::models::ExecConfig;
use bollard::query_parameters::{CreateContainerOptions, StartContainerOptions};
use futures::StreamExt;
use sandbox_api::SandboxId;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_client::Client;
use sandboxd::agent::{AgentHandle, Peer};
use sandboxd::engine::{ContainerPlan, DiskPool, Disks, Engine, SandboxLabels, container_body};
use sandboxd::model::layout::{HOSTS, HOSTS_NAME, PROFILE, PROFILE_NAME, container_name};
use sandboxd::model::{EngineAddress, Resources, SandboxSpec, Transport, UidSlot};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::home::{Home, IMAGE, agent_program, docker, remove_container};
use crate::table::{heading, ratio, row};

const WARM_UP: usize = 2;
const ROUNDS: usize = 20;

/// Pause after work that keeps the engine busy, and until another disk is ready.
const SETTLE: Duration = Duration::from_millis(1500);

/// The first command in a new sandbox.
pub(crate) const VERSION_OF_NODE: [&str; 2] = ["node", "-v"];

/// Time limit for an agent.
const SOON: Duration = Duration::from_secs(20);

pub(crate) async fn measure() {
    let mut home = Home::new();
    home.start().await;
    let client = home.client();
    let rival = Rival::new().await;
    let (mut create, mut wake, mut engine, mut answered) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..WARM_UP + ROUNDS {
        let key = format!("bench:{round}");
        sleep(SETTLE).await;
        let created = bring_up(&client, &key).await;
        sleep(SETTLE).await;
        let EngineTimes { started, answered: greeted, .. } = rival.create_and_start().await;
        sleep(SETTLE).await;
        client.park(&created.1, false).await.unwrap();
        sleep(SETTLE).await;
        let woken = bring_up(&client, &key).await;
        client.delete(&woken.1).await.unwrap();
        if round >= WARM_UP {
            create.push(created.0);
            wake.push(woken.0);
            engine.push(started);
            answered.push(greeted);
        }
    }
    heading(&format!("a sandbox of the usual size, {ROUNDS} of each"));
    let create = row("sandboxd, cold create: request to answer", create);
    let wake = row("sandboxd, wake of a parked one: request to answer", wake);
    let engine = row("the engine's create and start of the same container", engine);
    row("the same, until its agent has answered", answered);
    ratio("cold create / engine", create.p50 / engine.p50, "at most 1.15");
    ratio("wake / cold create", wake.p50 / create.p50, "at most 1.2");
}

/// Creates or wakes a session's sandbox.
pub(crate) async fn bring_up(client: &Client, key: &str) -> (Duration, SandboxId) {
    let request = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
    let began = Instant::now();
    let found = client.create_or_reconnect(&request).await.unwrap();
    let took = began.elapsed();
    assert!(found.created || found.woken, "{found:?}");
    (took, found.sandbox_id)
}

/// How long the engine takes, from its first call on.
pub(crate) struct EngineTimes {
    /// Until the container is started.
    pub(crate) started: Duration,
    /// Until its agent has answered.
    pub(crate) answered: Duration,
    /// Until `node -v` has ended in a docker exec.
    pub(crate) interactive: Duration,
}

/// The engine, with direct requests for the same container.
pub(crate) struct Rival {
    docker: Docker,
    engine: Engine,
    agent_volume: String,
    /// `None` if this engine does not support disks. Then sandboxd has none either.
    disks: Option<(Disks, DiskPool)>,
    home: Home,
}

impl Rival {
    pub(crate) async fn new() -> Self {
        let home = Home::new();
        let address = EngineAddress::Unix("/var/run/docker.sock".into());
        let connect = Engine::connect(address, home.instance.clone(), None, Default::default());
        let engine = connect.await.unwrap();
        let agent_volume = engine.ensure_agent_volume(&agent_program(), None, IMAGE).await.unwrap().name;
        let disks = engine.open_disks(IMAGE, &agent_volume).await.ok();
        let disks = disks.map(|disks| {
            let pool = DiskPool::new(disks.clone(), Resources::default().disk_mb());
            (disks, pool)
        });
        Self { docker: docker().await, engine, agent_volume, disks, home }
    }

    pub(crate) async fn create_and_start(&self) -> EngineTimes {
        let plan = self.plan().await;
        let dir = self.home.path("run").join(plan.labels.id.as_str());
        std::fs::create_dir_all(&dir).unwrap();
        for (name, content) in [(HOSTS_NAME, HOSTS), (PROFILE_NAME, PROFILE)] {
            std::fs::write(dir.join(name), content).unwrap();
        }
        let peer = watch::Sender::new(Peer::Unknown);
        let agent = AgentHandle::listen(&dir, plan.agent_secret.clone(), peer.subscribe()).unwrap();
        let attached = match (&self.disks, &plan.labels.disk) {
            (Some((disks, _)), Some(disk)) => Some(disks.attach(disk, plan.labels.slot).await.unwrap()),
            _ => None,
        };
        let name = container_name(&plan.labels.id);
        let body = container_body(&plan, &self.home.instance, self.engine.host().unwrap());

        let began = Instant::now();
        let options = CreateContainerOptions { name: Some(name.clone()), ..Default::default() };
        self.docker.create_container(Some(options), body).await.unwrap();
        self.docker.start_container(&name, None::<StartContainerOptions>).await.unwrap();
        let started = began.elapsed();
        // Without a disk, the workspace lacks the directories that the agent needs, so the agent is not awaited.
        if let Some(attached) = attached {
            agent.connected(SOON).await.unwrap();
            attached.release().await.unwrap();
        }
        let answered = began.elapsed();
        self.exec_node(&name).await;
        let interactive = began.elapsed();

        remove_container(&self.docker, &name).await;
        self.engine.remove(&plan.labels.id).await.unwrap();
        if let (Some((disks, _)), Some(disk)) = (&self.disks, &plan.labels.disk) {
            disks.remove(disk.name()).await.unwrap();
        }
        EngineTimes { started, answered, interactive }
    }

    /// Runs [`VERSION_OF_NODE`] to its end.
    async fn exec_node(&self, container: &str) {
        let config = ExecConfig {
            cmd: Some(VERSION_OF_NODE.map(str::to_owned).into()),
            attach_stdout: Some(true),
            ..Default::default()
        };
        let exec = self.docker.create_exec(container, config).await.unwrap().id;
        let started = self.docker.start_exec(&exec, None::<StartExecOptions>).await.unwrap();
        let StartExecResults::Attached { mut output, .. } = started else { panic!("no output") };
        let mut said = String::new();
        while let Some(part) = output.next().await {
            said += &part.unwrap().to_string();
        }
        assert!(said.starts_with('v'), "{said}");
    }

    async fn plan(&self) -> ContainerPlan {
        let spec = SandboxSpec::new("bench".parse().unwrap());
        let disk = match &self.disks {
            Some((_, pool)) => Some(pool.take(spec.resources.disk_mb()).await.unwrap()),
            None => None,
        };
        let id = SandboxId::random().unwrap();
        ContainerPlan {
            image: IMAGE.into(),
            agent_volume: self.agent_volume.clone(),
            agent_secret: self.home.instance.agent_secret(&id),
            run_dir: Some(self.home.path("run").join(id.as_str()).to_string_lossy().into_owned()),
            disk_device: self.disks.as_ref().zip(disk.as_ref()).map(|((disks, _), disk)| disks.device(disk)),
            network: None,
            has_ca_bundle: false,
            waiting_shells: true,
            labels: SandboxLabels { id, slot: UidSlot::LAST, transport: Transport::Socket, disk, spec },
        }
    }
}
