//! Changes of the wall clock while the daemon runs: orphans are kept for their grace period and no longer.

use std::path::PathBuf;

use bollard::models::{NetworkCreateRequest, VolumeCreateRequest};
use bollard::query_parameters::KillContainerOptions;
use sandbox_api::SandboxId;
use sandbox_api::sandbox::{CreateSandbox, SandboxState};
use sandbox_client::Client;
use sandboxd::model::layout::{container_name, volume_name};

use crate::support::engine_proxy::EngineProxy;
use crate::support::engine_view::{networks_of, objects_of};
use crate::support::harness::{DaemonProcess, Home, docker, free_port, until};

/// A daemon in its own process, with a wall clock that can be moved. The monotonic clock is not changed.
struct Scene {
    home: Home,
    proxy: EngineProxy,
    clock: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
        let library = library.replace("x86_64", std::env::consts::ARCH);
        assert!(std::path::Path::new(&library).exists(), "install faketime, as `make test` does");
        let (home, proxy) = (Home::new(), EngineProxy::start());
        let clock = home.path().join("clock");
        let home = home
            .set("SANDBOXD_DOCKER_SOCKET", &proxy.socket().to_string_lossy())
            .set("LD_PRELOAD", &library)
            .set("FAKETIME_TIMESTAMP_FILE", &clock.to_string_lossy())
            .set("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .set("FAKETIME_NO_CACHE", "1");
        let scene = Self { home, proxy, clock };
        scene.set_clock("+0");
        scene
    }

    /// Replaced in one step: the daemon reads the file whenever it reads the time.
    fn set_clock(&self, offset: &str) {
        let new = self.clock.with_extension("new");
        std::fs::write(&new, offset).unwrap();
        std::fs::rename(new, &self.clock).unwrap();
    }

    async fn with_grace(mut self, grace_ms: &str) -> (Self, DaemonProcess) {
        self.home = self.home.set("SANDBOXD_ORPHAN_GRACE_MS", grace_ms);
        let daemon = DaemonProcess::start(&self.home, free_port()).await;
        (self, daemon)
    }

    /// Returns when the daemon has reconciled everything. It removes an unused network just before the daemon reconciles at the
    /// orphans, and the second reconciliation waits for the first.
    async fn look(&self) {
        let instance = self.home.instance().unwrap();
        for _ in 0..2 {
            let relic = NetworkCreateRequest {
                name: format!("relic-{}", instance.id()),
                labels: Some([("sandboxd.instance".to_owned(), instance.id().to_owned())].into()),
                ..Default::default()
            };
            docker().await.create_network(relic).await.unwrap();
            self.proxy.close_connections("/events");
            until("the daemon reconciles", || async { networks_of(&self.home).await.is_empty() }).await;
        }
    }
}

async fn create(client: &Client, key: &str) -> SandboxId {
    let request = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
    client.create_or_reconnect(&request).await.unwrap().sandbox_id
}

/// Creates a workspace that no sandbox claims: the volume of a deleted sandbox.
async fn make_orphan(client: &Client) -> String {
    let sandbox = create(client, "chat:orphan").await;
    let volume = docker().await.inspect_volume(&volume_name(&sandbox)).await.unwrap();
    client.delete(&sandbox).await.unwrap();
    let again =
        VolumeCreateRequest { name: Some(volume.name), labels: Some(volume.labels), ..Default::default() };
    docker().await.create_volume(again).await.unwrap().name
}

async fn orphans(client: &Client) -> usize {
    client.orphans().await.unwrap().orphans.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_step_neither_ends_nor_extends_a_grace_period() {
    let (scene, daemon) = Scene::new().with_grace("3600000").await;
    let runs = create(&daemon.client, "chat:1").await;
    let orphan = make_orphan(&daemon.client).await;
    scene.look().await;
    assert_eq!(orphans(&daemon.client).await, 1);
    for offset in ["+365d", "-365d", "+730d", "+0"] {
        scene.set_clock(offset);
        scene.look().await;
        let seen = daemon.client.touch(&runs, None).await.and(daemon.client.get(&runs).await).unwrap();
        let days = (seen.last_active_at.as_second() - jiff::Timestamp::now().as_second()) / 86_400;
        let wanted: i64 = offset.trim_end_matches('d').parse().unwrap();
        assert!((days - wanted).abs() <= 1, "the daemon's clock was not moved: {days} days, not {offset}");
        assert_eq!(orphans(&daemon.client).await, 1, "{offset}");
        assert!(objects_of(&scene.home).await.contains(&orphan), "{offset}");
        // The daemon asks the engine for events since a time on that clock.
        docker().await.kill_container(&container_name(&runs), None::<KillContainerOptions>).await.unwrap();
        until("its end is noticed", || async {
            daemon.client.get(&runs).await.unwrap().state == SandboxState::Parked
        })
        .await;
    }

    // First seen while the clock was ahead; now the clock is right again.
    daemon.kill().await;
    scene.set_clock("+365d");
    let (scene, daemon) = scene.with_grace("5000").await;
    let another = make_orphan(&daemon.client).await;
    create(&daemon.client, "chat:2").await;
    scene.look().await;
    assert!(objects_of(&scene.home).await.contains(&another), "its grace period has just begun");
    scene.set_clock("-365d");
    until("both are removed", || async {
        scene.look().await;
        let objects = objects_of(&scene.home).await;
        !objects.contains(&another) && !objects.contains(&orphan)
    })
    .await;
    assert_eq!(orphans(&daemon.client).await, 0);
    daemon.kill().await;
}
