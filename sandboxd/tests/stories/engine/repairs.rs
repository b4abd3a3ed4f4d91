//! The counter of repairs: every repair is counted once, and nothing else is.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use bollard::models::{NetworkCreateRequest, VolumeCreateRequest};
use bollard::query_parameters::{
    KillContainerOptions, ListContainersOptions, RemoveContainerOptions, RenameContainerOptions,
};
use sandbox_api::SandboxId;
use sandboxd::model::layout::{container_name, volume_name};

use crate::support::disk_image::Image;
use crate::support::engine_proxy::EngineProxy;
use crate::support::fault_injection::connect;
use crate::support::harness::{Daemon, Home, docker, until};
use crate::support::metrics::Samples;

const KINDS: [&str; 9] =
    ["orphan", "disk", "network", "run_dir", "ended", "paused", "renamed", "workspace", "cut_off"];

/// A daemon whose repairs are counted.
struct Scene {
    daemon: Daemon,
    proxy: EngineProxy,
    /// The counts that are expected so far.
    expected: BTreeMap<&'static str, f64>,
}

impl Scene {
    async fn counted(&self) -> BTreeMap<&'static str, f64> {
        let samples = Samples::of(&self.daemon).await;
        let all = samples.sum("sandboxd_reconcile_repairs_total", &[]);
        let of = |kind: &&'static str| {
            let label = format!("kind=\"{kind}\"");
            (*kind, samples.sum("sandboxd_reconcile_repairs_total", &[&label]))
        };
        let counted: BTreeMap<_, _> = KINDS.iter().map(of).collect();
        assert_eq!(counted.values().sum::<f64>(), all, "unknown kinds of repairs");
        counted
    }

    /// How often the daemon has reconciled. The publishers are the last step.
    async fn reconciliations(&self) -> f64 {
        let label = "call=\"list publishers\"";
        Samples::of(&self.daemon).await.sum("sandboxd_engine_call_seconds_count", &[label])
    }

    /// Returns when the daemon, which lost its connection to the engine, has reconciled everything.
    async fn reconcile(&self) {
        let before = self.reconciliations().await;
        self.proxy.close_connections("/events");
        until("the daemon reconciles", || async { self.reconciliations().await > before }).await;
    }

    /// Waits until this many repairs after engine events are counted, and checks that the count stays.
    async fn expect(&mut self, kind: &'static str, count: u8) {
        *self.expected.entry(kind).or_default() += f64::from(count);
        until(&format!("{kind} is repaired"), || async { self.counted().await[kind] >= self.expected[kind] })
            .await;
        self.settled(kind).await;
    }

    /// The same for a repair that no event announces.
    async fn expect_after_reconciling(&mut self, kind: &'static str) {
        *self.expected.entry(kind).or_default() += 1.0;
        until(&format!("{kind} is repaired"), || async {
            self.reconcile().await;
            self.counted().await[kind] >= self.expected[kind]
        })
        .await;
        self.settled(kind).await;
    }

    async fn settled(&self, what: &str) {
        self.reconcile().await;
        assert_eq!(self.counted().await, self.expected, "{what}");
    }
}

async fn state_of(sandbox: &SandboxId) -> Option<String> {
    let options = ListContainersOptions { all: true, ..Default::default() };
    let found = docker().await.list_containers(Some(options)).await.unwrap();
    let name = format!("/{}", container_name(sandbox));
    let found =
        found.into_iter().find(|found| found.names.as_ref().is_some_and(|names| names.contains(&name)));
    Some(found?.state?.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_repair_is_counted_once() {
    let proxy = EngineProxy::start();
    let home = Home::new()
        .set("SANDBOXD_DOCKER_SOCKET", &proxy.socket().to_string_lossy())
        .set("SANDBOXD_ORPHAN_GRACE_MS", "1000");
    let daemon = Daemon::start_in(home).await;
    let expected = KINDS.iter().map(|kind| (*kind, 0.0)).collect();
    let mut scene = Scene { daemon, proxy, expected };
    let engine = docker().await;
    let (one, two) = (scene.daemon.sandbox("chat:1").await, scene.daemon.sandbox("chat:2").await);
    let instance = scene.daemon.home.instance().unwrap();
    let of_us = [("sandboxd.instance".to_owned(), instance.id().to_owned())];
    scene.settled("nothing has happened").await;

    for how in ["kill", "remove"] {
        scene.daemon.client.touch(&one, None).await.unwrap();
        if how == "kill" {
            engine.kill_container(&container_name(&one), None::<KillContainerOptions>).await.unwrap();
        } else {
            let force = RemoveContainerOptions { force: true, ..Default::default() };
            engine.remove_container(&container_name(&one), Some(force)).await.unwrap();
        }
        scene.expect("ended", 1).await;
    }
    engine.pause_container(&container_name(&two)).await.unwrap();
    scene.expect("paused", 1).await;
    assert_eq!(state_of(&two).await.as_deref(), Some("running"));
    let other = RenameContainerOptions { name: format!("other-{two}") };
    engine.rename_container(&container_name(&two), other).await.unwrap();
    scene.expect("renamed", 1).await;
    assert_eq!(state_of(&two).await.as_deref(), Some("running"));

    let network = NetworkCreateRequest {
        name: format!("relic-{}", instance.id()),
        labels: Some(of_us.clone().into()),
        ..Default::default()
    };
    engine.create_network(network).await.unwrap();
    scene.expect_after_reconciling("network").await;
    let sockets = scene.daemon.home.path().join("run").join(instance.id());
    std::fs::create_dir(sockets.join(SandboxId::random().unwrap().as_str())).unwrap();
    scene.expect_after_reconciling("run_dir").await;

    // A parked sandbox has no container, and its image can be moved away.
    let image = Image::of(&one).await;
    image.take_away();
    scene.expect_after_reconciling("workspace").await;
    image.put_back();
    scene.settled("a recovery by itself is not a repair").await;
    let mut mkfs = Command::new("mke2fs");
    mkfs.args(["-q", "-t", "ext4"])
        .arg(image.beside("dsk_aaaaaaaaaaaaaaaaaaaa.img"))
        .arg("4M")
        .stdout(Stdio::null());
    assert!(mkfs.status().unwrap().success());
    scene.expect_after_reconciling("disk").await;

    let three = scene.daemon.sandbox("chat:3").await;
    let volume = engine.inspect_volume(&volume_name(&three)).await.unwrap();
    scene.daemon.client.delete(&three).await.unwrap();
    scene.settled("a user's change is not a repair").await;
    let again =
        VolumeCreateRequest { name: Some(volume.name), labels: Some(volume.labels), ..Default::default() };
    engine.create_volume(again).await.unwrap();
    scene.expect_after_reconciling("orphan").await;

    // An interrupted delete and an interrupted park. The counter restarts with the daemon.
    let Scene { daemon, proxy, mut expected } = scene;
    let home = daemon.stop().await;
    set_stage(&home.path().join("state"), &one, &two).await;
    expected.values_mut().for_each(|count| *count = 0.0);
    let mut scene = Scene { daemon: Daemon::start_in(home).await, proxy, expected };
    scene.expect("cut_off", 2).await;
    assert_eq!(scene.daemon.output(&two, "echo on").await, "on\n");
    assert!(scene.daemon.client.get(&one).await.is_err());
    scene.daemon.stop().await;
}

async fn set_stage(state_dir: &Path, deleting: &SandboxId, parking: &SandboxId) {
    let mut database = connect(state_dir).await;
    for (stage, id) in [("deleting", deleting), ("parking", parking)] {
        let update = sqlx::query("UPDATE sandboxes SET stage = ? WHERE id = ?").bind(stage).bind(id.as_str());
        update.execute(&mut database).await.unwrap();
    }
}
