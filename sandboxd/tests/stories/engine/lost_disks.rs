//! A workspace's disk image is moved away and back: while its sandbox runs, while it is parked, and between two
//! daemons.

use bollard::query_parameters::InspectContainerOptions;
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes, SandboxState};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::Error;
use sandboxd::model::layout::{container_name, volume_name};

use crate::support::disk_image::Image;
use crate::support::engine_proxy::EngineProxy;
use crate::support::engine_view::objects_of;
use crate::support::harness::{Daemon, Home, docker, until};

async fn state(daemon: &Daemon, sandbox: &SandboxId) -> Option<SandboxState> {
    let listed = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    listed.into_iter().find(|found| found.sandbox_id == *sandbox).map(|found| found.state)
}

#[track_caller]
fn is_lost<T: std::fmt::Debug>(what: &str, answer: Result<T, Error>) {
    let error = answer.expect_err(what);
    let state = error.body().map(|body| body.details["state"].clone());
    assert_eq!(
        (error.code(), state),
        (Some(ErrorCode::WrongState), Some("lost".into())),
        "{what}: {error:?}"
    );
}

/// Checks that every use is rejected with state `lost`, and that nothing of the sandbox is removed.
async fn is_kept_as_lost(daemon: &Daemon, sandbox: &SandboxId, image: &Image) {
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    is_lost("create", daemon.client.create_or_reconnect(&request).await);
    is_lost("touch", daemon.client.touch(sandbox, None).await);
    is_lost("run", daemon.client.run(sandbox, &crate::support::harness::script("true")).await.map(drop));
    is_lost("read", daemon.client.read_file(sandbox, "file").await);
    assert_eq!(daemon.client.get(sandbox).await.unwrap().state, SandboxState::Lost);
    assert_eq!(state(daemon, sandbox).await, Some(SandboxState::Lost));
    assert!(image.is_detached());
    assert_eq!(objects_of(&daemon.home).await, [volume_name(sandbox)]);
}

async fn with_a_file(daemon: &Daemon) -> (SandboxId, Image) {
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo kept > file").await;
    let image = Image::of(&sandbox).await;
    (sandbox, image)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_missing_from_a_parked_sandbox_is_noticed_and_found_without_a_restart() {
    let proxy = EngineProxy::start();
    let home = Home::new().set("SANDBOXD_DOCKER_SOCKET", &proxy.socket().to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    let (sandbox, image) = with_a_file(&daemon).await;
    daemon.client.park(&sandbox, false).await.unwrap();
    image.take_away();
    // The daemon reconciles everything when the engine is back.
    proxy.close_connections("/events");
    until("the disk is reported as lost", || async {
        state(&daemon, &sandbox).await == Some(SandboxState::Lost)
    })
    .await;
    is_kept_as_lost(&daemon, &sandbox, &image).await;
    image.put_back();
    proxy.close_connections("/events");
    until("the disk is found", || async { state(&daemon, &sandbox).await == Some(SandboxState::Parked) })
        .await;
    assert_eq!(daemon.output(&sandbox, "cat file").await, "kept\n");
    daemon.stop().await;
}

async fn started_at(sandbox: &SandboxId) -> String {
    let options = None::<InspectContainerOptions>;
    let found = docker().await.inspect_container(&container_name(sandbox), options).await.unwrap();
    found.state.unwrap().started_at.unwrap()
}

/// The kernel has the file open, so nothing is missing until the sandbox is woken.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_missing_from_a_running_sandbox_is_noticed_at_the_next_wake() {
    let proxy = EngineProxy::start();
    let home = Home::new().set("SANDBOXD_DOCKER_SOCKET", &proxy.socket().to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    let (sandbox, image) = with_a_file(&daemon).await;
    let began = started_at(&sandbox).await;
    image.take_away();
    proxy.close_connections("/events");
    assert_eq!(daemon.output(&sandbox, "echo more >> file; cat file").await, "kept\nmore\n");
    // A restart of the daemon changes nothing.
    let daemon = Daemon::start_in(daemon.stop().await).await;
    assert_eq!(daemon.output(&sandbox, "cat file").await, "kept\nmore\n");
    assert_eq!(started_at(&sandbox).await, began, "it is the same container");

    daemon.client.park(&sandbox, false).await.unwrap();
    is_kept_as_lost(&daemon, &sandbox, &image).await;
    image.put_back();
    assert_eq!(daemon.output(&sandbox, "cat file").await, "kept\nmore\n");
    daemon.client.delete(&sandbox).await.unwrap();
    assert_eq!(objects_of(&daemon.home).await, Vec::<String>::new());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_missing_between_two_daemons_is_noticed_and_found_at_the_start() {
    let daemon = Daemon::start().await;
    let (sandbox, image) = with_a_file(&daemon).await;
    daemon.client.park(&sandbox, false).await.unwrap();
    let home = daemon.stop().await;
    image.take_away();
    let daemon = Daemon::start_in(home).await;
    assert_eq!(state(&daemon, &sandbox).await, Some(SandboxState::Lost));
    is_kept_as_lost(&daemon, &sandbox, &image).await;
    let home = daemon.stop().await;
    image.put_back();
    let daemon = Daemon::start_in(home).await;
    assert_eq!(state(&daemon, &sandbox).await, Some(SandboxState::Parked));
    assert_eq!(daemon.output(&sandbox, "cat file").await, "kept\n");
    daemon.stop().await;
}
