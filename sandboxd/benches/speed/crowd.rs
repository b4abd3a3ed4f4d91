//! Many sandboxes: the daemon's memory, its start time, and the time to list them.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use bollard::models::VolumeCreateRequest;
use bollard::query_parameters::{ListContainersOptions, ListVolumesOptions};
use futures::StreamExt;
use sandbox_api::SandboxId;
use sandbox_api::command::StartCommand;
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes, Resources, SandboxList, SandboxState};
use sandbox_client::Client;
use sandboxd::engine::SandboxLabels;
use sandboxd::model::layout::volume_name;
use sandboxd::model::{SandboxRecord, SandboxSpec, Stage, Transport, UidSlot};
use sandboxd::store::Store;
use tokio::time::sleep;

use crate::commands::agent_pid;
use crate::contenders::Api;
use crate::home::{Home, docker};
use crate::memory::{anonymous_kib, parent, resident_kib};
use crate::table::{heading, ratio, row, size};

const RUNNING: usize = 50;
const PARKED: usize = 150;
const LISTED: usize = 1000;
const LISTS: usize = 200;
const STARTS: usize = 3;

/// Sandboxes that are created in parallel.
const AT_ONCE: usize = 3;

/// Time after which a daemon has freed its temporary memory.
const SETTLE: Duration = Duration::from_secs(3);

/// Longer than the benchmark, so that no sandbox is parked.
const IDLE_TTL_MS: u64 = 6 * 3600 * 1000;

pub(crate) async fn measure() {
    let mut home = Home::new();
    home.start().await;
    let alone: Vec<Duration> = starts(&mut home).await;
    sleep(SETTLE).await;
    let empty = Memory::of(&home);

    let running = make(&home.client(), "running", RUNNING, false).await;
    sleep(SETTLE).await;
    let busy = Memory::of(&home);
    make(&home.client(), "parked", PARKED, true).await;
    let full: Vec<Duration> = starts(&mut home).await;
    assert_eq!(count(&home.client(), SandboxState::Running).await, RUNNING);
    assert_eq!(count(&home.client(), SandboxState::Parked).await, PARKED);
    run_in_all(&home.client(), &running).await;
    sleep(SETTLE).await;
    let again = Memory::of(&home);

    heading(&format!("a daemon's start until it is ready, {STARTS} of each"));
    row("with nothing", alone);
    let full = row(&format!("with {PARKED} parked and {RUNNING} running sandboxes"), full);
    ratio("of five seconds", full.p50 / 5000.0, "at most 1");
    println!("\nthe daemon's memory");
    empty.print("idle, without a sandbox", "(goal: at most 40960)");
    busy.print_each(&empty, "after it made them");
    again.print_each(&empty, &format!("after a start with them and {PARKED} parked"));
    let agent = agent_pid(&running[0]).await;
    size("one sandbox's agent", resident_kib(agent) as f64, "");
    size("the engine's shim for one container", resident_kib(parent(agent)) as f64, "");

    home.stop();
    add_parked(&home).await;
    let many = home.start().await;
    heading("a daemon's start until it is ready");
    row(&format!("with {} parked and {RUNNING} running sandboxes", LISTED - RUNNING), vec![many]);
    list(&home).await;
}

/// Restarts the daemon several times. Returns the start times.
async fn starts(home: &mut Home) -> Vec<Duration> {
    let mut took = Vec::new();
    for _ in 0..STARTS {
        home.stop();
        took.push(home.start().await);
    }
    took
}

/// Creates sandboxes and runs a command in each.
pub(crate) async fn make(client: &Client, name: &str, count: usize, park: bool) -> Vec<SandboxId> {
    let resources = Resources { memory_mb: Some(256), disk_mb: Some(64), ..Resources::default() };
    futures::stream::iter(0..count)
        .map(|n| async move {
            let request = CreateSandbox {
                session_key: format!("{name}:{n}"),
                idle_ttl_ms: Some(IDLE_TTL_MS),
                resources: Some(resources),
                ..CreateSandbox::default()
            };
            let sandbox = client.create_or_reconnect(&request).await.unwrap().sandbox_id;
            run_in_all(client, std::slice::from_ref(&sandbox)).await;
            if park {
                client.park(&sandbox, false).await.unwrap();
            }
            sandbox
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await
}

async fn run_in_all(client: &Client, sandboxes: &[SandboxId]) {
    let request = StartCommand { script: Some("true".into()), ..StartCommand::default() };
    for sandbox in sandboxes {
        let mut records = client.run(sandbox, &request).await.unwrap();
        while records.next().await.is_some_and(|record| record.is_ok()) {}
    }
}

async fn count(client: &Client, state: SandboxState) -> usize {
    let which = ListSandboxes { state: Some(state), limit: Some(1000), ..ListSandboxes::default() };
    client.list(&which).await.unwrap().sandboxes.len()
}

/// Memory of a daemon.
struct Memory {
    resident_kib: u64,
    anonymous_kib: u64,
}

impl Memory {
    fn of(home: &Home) -> Self {
        let pid = home.daemon_pid();
        Self { resident_kib: resident_kib(pid), anonymous_kib: anonymous_kib(pid) }
    }

    fn print(&self, name: &str, goal: &str) {
        size(name, self.resident_kib as f64, goal);
        size("  not counting its files", self.anonymous_kib as f64, "");
    }

    fn print_each(&self, empty: &Self, when: &str) {
        self.print(&format!("{RUNNING} running, {when}"), "");
        let each = |with: u64, without: u64| with.saturating_sub(without) as f64 / RUNNING as f64;
        size("  more per sandbox", each(self.resident_kib, empty.resident_kib), "(goal: at most 150)");
        size("  not counting its files", each(self.anonymous_kib, empty.anonymous_kib), "");
    }
}

/// Adds parked sandboxes until there are enough to list. A parked sandbox without a disk consists only of a volume and
/// a record.
async fn add_parked(home: &Home) {
    let store = Store::open(&home.path("state")).await.unwrap();
    let there = store.sandboxes().await.unwrap();
    let taken: HashSet<UidSlot> = there.iter().map(|record| record.slot).collect();
    let free = UidSlot::all().filter(|slot| !taken.contains(slot));
    let records: Vec<_> =
        free.take(LISTED - there.len()).map(|slot| parked(slot, there[0].created_at_ms)).collect();
    let docker = docker().await;
    futures::stream::iter(&records)
        .for_each_concurrent(AT_ONCE, |record| async {
            let SandboxRecord { id, slot, transport, disk, spec, .. } = record.clone();
            let labels = SandboxLabels { id, slot, transport, disk, spec };
            let volume = VolumeCreateRequest {
                name: Some(volume_name(&record.id)),
                labels: Some(labels.to_map(&home.instance)),
                ..VolumeCreateRequest::default()
            };
            docker.create_volume(volume).await.unwrap();
        })
        .await;
    store.rehydrate(&records).await.unwrap();
    store.close().await;
}

fn parked(slot: UidSlot, now_ms: i64) -> SandboxRecord {
    let key = format!("listed:{}", slot.uid());
    let map = |name: &str, count: usize| {
        (0..count).map(|n| (format!("{name}_{n}"), "a value of the usual length".to_owned())).collect()
    };
    SandboxRecord {
        id: SandboxId::random().unwrap(),
        slot,
        transport: Transport::Socket,
        disk: None,
        spec: SandboxSpec {
            env: map("VARIABLE", 8),
            metadata: map("label", 2),
            ..SandboxSpec::new(key.parse().unwrap())
        },
        stage: Stage::Parked,
        created_at_ms: now_ms,
        last_active_ms: now_ms,
        parked_at_age_ms: Some(0),
        disk_bytes: None,
        checkpoint_pending: false,
        is_tentative: false,
    }
}

async fn list(home: &Home) {
    let mut api = Api::connect(home.port).await;
    let docker = docker().await;
    let (mut ours, mut engine) = (Vec::new(), Vec::new());
    let (_, body) = api.get("/v1/sandboxes?limit=1000").await;
    assert_eq!(serde_json::from_slice::<SandboxList>(&body).unwrap().sandboxes.len(), LISTED);
    for n in 0..LISTS {
        ours.push(api.get("/v1/sandboxes?limit=1000").await.0);
        if n % 10 == 0 {
            engine.push(list_on_engine(&docker, home.instance.id()).await);
        }
    }
    heading(&format!("a list of {LISTED} sandboxes, {RUNNING} of them running"));
    let ours = row("sandboxd, HTTP keep-alive", ours);
    let engine = row("the engine's lists of their containers and volumes", engine);
    ratio("of 20 ms", ours.p50 / 20.0, "at most 1");
    ratio("engine / sandboxd", engine.p50 / ours.p50, "none");
}

async fn list_on_engine(docker: &bollard::Docker, instance: &str) -> Duration {
    let began = std::time::Instant::now();
    let filters = HashMap::from([("label".to_owned(), vec![format!("sandboxd.instance={instance}")])]);
    let options = ListContainersOptions { all: true, filters: Some(filters.clone()), ..Default::default() };
    docker.list_containers(Some(options)).await.unwrap();
    let volumes = docker.list_volumes(Some(ListVolumesOptions { filters: Some(filters) })).await.unwrap();
    let took = began.elapsed();
    assert!(volumes.volumes.unwrap_or_default().len() >= LISTED);
    took
}
