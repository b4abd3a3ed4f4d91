//! Bases that cannot be made at first.

use sandbox_api::ErrorCode;
use sandboxd::model::Instance;
use sandboxd::model::layout::volume_name;

use super::bases::{ENGINE_DISK, bases_in, copy_of, is_over_base, large_snapshot};
use crate::support::engine_proxy::{EngineProxy, Fault};
use crate::support::harness::{Daemon, Home, docker, script};
use crate::support::metrics::Samples;
use crate::support::private_engine::OwnEngine;

/// Shows a snapshot of [`large_snapshot`] in a sandbox.
const LOOK: &str = "ls | wc -l; cmp large linked";

/// Names of the bases in the volume of disks, complete or not.
async fn images_of(instance: &Instance) -> Vec<String> {
    let volume = format!("sandboxd-disks-{}", instance.id());
    let disks = docker().await.inspect_volume(&volume).await.unwrap().mountpoint;
    let names = std::fs::read_dir(disks).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name.contains(".erofs")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_base_that_could_not_be_uploaded_is_not_tried_at_once_and_made_later() {
    let proxy = EngineProxy::start();
    let home = Home::new().set("SANDBOXD_DOCKER_SOCKET", &proxy.socket().to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    let snapshot = large_snapshot(&daemon, "chat:1", 1).await;
    let instance = daemon.home.instance().unwrap();

    proxy.set("-base/archive", Fault::Fail);
    let first = copy_of(&daemon, "chat:2", &snapshot).await;
    assert!(!is_over_base(&first).await);
    assert_eq!(daemon.output(&first, LOOK).await, "1002\n");
    proxy.clear_faults();
    // A create waits for its base, so one that fails again and again would delay each of them.
    let second = copy_of(&daemon, "chat:3", &snapshot).await;
    assert!(!is_over_base(&second).await);
    assert_eq!(images_of(&instance).await, [""; 0]);
    let samples = Samples::of(&daemon).await;
    assert_eq!(samples.sum("sandboxd_base_copies_total", &[]), 2.0);
    // Other bases are made meanwhile.
    let other = large_snapshot(&daemon, "chat:4", 1).await;
    assert!(is_over_base(&copy_of(&daemon, "chat:5", &other).await).await);

    let daemon = Daemon::start_in(daemon.stop().await).await;
    let third = copy_of(&daemon, "chat:6", &snapshot).await;
    assert!(is_over_base(&third).await);
    for sandbox in [&first, &second, &third] {
        assert_eq!(daemon.output(sandbox, LOOK).await, "1002\n");
    }
    assert_eq!(images_of(&instance).await.len(), 2);
    daemon.stop().await;
}

/// The image is written to the state dir, and the engine stores a second one. Here, both are on one disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_base_for_whose_second_copy_there_is_no_space_is_made_when_there_is() {
    let engine = OwnEngine::start_on_disk(&Home::new().config().image, ENGINE_DISK);
    let state = engine.disk().join("state");
    let home = Home::new()
        .set("SANDBOXD_DOCKER_SOCKET", &engine.socket().to_string_lossy())
        .set("SANDBOXD_STATE_DIR", &state.to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    let snapshot = large_snapshot(&daemon, "chat:1", 200).await;
    let instance = daemon.home.instance().unwrap();
    let ballast = engine.fill((4 << 30) + (300 << 20));
    let first = copy_of(&daemon, "chat:2", &snapshot).await;
    assert_eq!(bases_in(&engine, &instance), 0);
    assert_eq!(daemon.output(&first, LOOK).await, "1002\n");
    daemon.client.delete(&first).await.unwrap();

    drop(ballast);
    let second = copy_of(&daemon, "chat:3", &snapshot).await;
    assert_eq!(bases_in(&engine, &instance), 1);
    assert_eq!(daemon.output(&second, LOOK).await, "1002\n");
    let samples = Samples::of(&daemon).await;
    assert_eq!(samples.sum("sandboxd_base_copies_total", &[]), 1.0);
    daemon.stop().await;
}

/// An engine that learns late of the end of a plugin's earlier process unmounts what the next process has mounted.
#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_over_a_base_starts_although_its_engine_has_lost_the_plugins_mounts() {
    let engine = OwnEngine::start(&Home::new().config().image);
    let home = Home::new().set("SANDBOXD_DOCKER_SOCKET", &engine.socket().to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    let snapshot = large_snapshot(&daemon, "chat:1", 1).await;
    let (parked, running) =
        (copy_of(&daemon, "chat:2", &snapshot).await, copy_of(&daemon, "chat:3", &snapshot).await);
    for sandbox in [&parked, &running] {
        daemon.output(sandbox, "echo mine > 1; rm 2").await;
    }
    daemon.client.park(&parked, false).await.unwrap();
    engine.hide_mounts_of_plugin(&volume_name(&parked));

    let (look, expected) = ("cat 1; ls | wc -l", "mine\n1001\n");
    // The first may have been slow by itself.
    for _ in 0..2 {
        let error = daemon.client.run(&parked, &script(look)).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::Unavailable), "{error:?}");
    }
    assert_eq!(daemon.output(&parked, look).await, expected);
    assert_eq!(daemon.output(&running, look).await, expected);
    daemon.client.park(&running, false).await.unwrap();
    assert_eq!(daemon.output(&running, look).await, expected, "after a park");
    daemon.stop().await;
}
