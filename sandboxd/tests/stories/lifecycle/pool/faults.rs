//! Whatever happens to a sandbox that waits, a session gets one that works.

use std::time::Duration;

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{
    CommitContainerOptions, CreateContainerOptions, InspectContainerOptions, KillContainerOptions,
    RemoveContainerOptions, RemoveImageOptions, TagImageOptions,
};
use futures::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use sandbox_api::SandboxId;
use sandbox_api::sandbox::{CreateSandbox, Resources};

use super::{notes_of, of_session, until_waiting, waiting, with_pool};
use crate::engine::loop_devices::in_helper;
use crate::support::engine_proxy::{EngineProxy, Fault};
use crate::support::harness::{Daemon, docker, script, skipped_under_gvisor, until};

const IMAGE: &str = "remcochat-sandbox:node24";

async fn create(daemon: &Daemon, key: &str) -> SandboxId {
    let made = daemon.client.create_or_reconnect(&of_session(key)).await.unwrap();
    assert!(made.created);
    assert_eq!(daemon.output(&made.sandbox_id, "echo works").await, "works\n");
    made.sandbox_id
}

/// Waits until another sandbox waits instead of this one.
async fn until_replaced(daemon: &Daemon, waited: &str) {
    until("another one waits", || async {
        let now = waiting(&daemon.home).await;
        now.len() == 1 && !now.contains(waited)
    })
    .await;
}

/// Gives the image of sandboxes this name too. Returns it as daemons get it.
async fn tag_image(name: &str) -> String {
    let options = TagImageOptions { repo: Some(name.to_owned()), tag: Some("1".into()) };
    docker().await.tag_image(IMAGE, Some(options)).await.unwrap();
    format!("{name}:1")
}

fn container_of(sandbox: &str) -> String {
    format!("remcochat-sandbox-{sandbox}")
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_ended_is_not_given_to_a_session() {
    let daemon = Daemon::start_in(with_pool("1")).await;
    let waited = until_waiting(&daemon, 1).await.pop_last().unwrap();
    docker().await.kill_container(&container_of(&waited), None::<KillContainerOptions>).await.unwrap();
    let id = create(&daemon, "chat:1").await;
    assert_ne!(id.as_str(), waited);
    until_replaced(&daemon, &waited).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_does_not_answer_is_not_given_to_a_session() {
    if skipped_under_gvisor("the agent is not a process of the host") {
        return;
    }
    let daemon = Daemon::start_in(with_pool("1")).await;
    let waited = until_waiting(&daemon, 1).await.pop_last().unwrap();
    let inspect =
        docker().await.inspect_container(&container_of(&waited), None::<InspectContainerOptions>).await;
    let agent = Pid::from_raw(inspect.unwrap().state.unwrap().pid.unwrap() as i32).unwrap();
    kill_process(agent, Signal::STOP).unwrap();
    let id = create(&daemon, "chat:1").await;
    assert_ne!(id.as_str(), waited);
    until("it is removed", || async { !waiting(&daemon.home).await.contains(&waited) }).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_disks_helper_costs_no_session_its_sandbox() {
    let daemon = Daemon::start_in(with_pool("1")).await;
    until_waiting(&daemon, 1).await;
    let helper = format!("sandboxd-disks-{}", daemon.home.instance().unwrap().id());
    docker().await.kill_container(&helper, None::<KillContainerOptions>).await.unwrap();
    create(&daemon, "chat:1").await;
    let waited = until_waiting(&daemon, 1).await;
    let second = create(&daemon, "chat:2").await;
    assert!(waited.contains(second.as_str()));
    daemon.stop().await;
}

/// Nothing wants it, and no event says so.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_hangs_is_replaced() {
    if skipped_under_gvisor("the agent is not a process of the host") {
        return;
    }
    let daemon = Daemon::start_in(with_pool("1")).await;
    let waited = until_waiting(&daemon, 1).await.pop_last().unwrap();
    let container = container_of(&waited);
    let pid = docker().await.inspect_container(&container, None::<InspectContainerOptions>).await;
    let agent = Pid::from_raw(pid.unwrap().state.unwrap().pid.unwrap() as i32).unwrap();
    kill_process(agent, Signal::STOP).unwrap();
    until_replaced(&daemon, &waited).await;
    daemon.stop().await;
}

/// No sandbox can be started while the engine has no image of this name.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_a_withdrawn_image_is_removed() {
    let docker = docker().await;
    let tag = format!("sandboxd-withdrawn-{}", std::process::id());
    let image = tag_image(&tag).await;
    let daemon = Daemon::start_in(with_pool("1").set("SANDBOXD_IMAGE", &image)).await;
    until_waiting(&daemon, 1).await;
    docker.remove_image(&image, None::<RemoveImageOptions>, None).await.unwrap();
    until("it is removed", || async { waiting(&daemon.home).await.is_empty() }).await;
    tag_image(&tag).await;
    until_waiting(&daemon, 1).await;
    create(&daemon, "chat:1").await;
    drop(daemon.stop().await);
    docker.remove_image(&image, None::<RemoveImageOptions>, None).await.unwrap();
}

/// The engine weakens the container of one that waits.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_was_changed_is_replaced() {
    let daemon = Daemon::start_in(with_pool("1")).await;
    let waited = until_waiting(&daemon, 1).await.pop_last().unwrap();
    let unlimited = bollard::models::ContainerUpdateBody { pids_limit: Some(-1), ..Default::default() };
    docker().await.update_container(&container_of(&waited), unlimited).await.unwrap();
    until_replaced(&daemon, &waited).await;
    until_waiting(&daemon, 1).await;
    create(&daemon, "chat:1").await;
    daemon.stop().await;
}

/// An image that has the default image's name instead of it.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_an_earlier_image_is_replaced() {
    let docker = docker().await;
    let tag = format!("sandboxd-test-{}", std::process::id());
    let image = tag_image(&tag).await;
    let daemon = Daemon::start_in(with_pool("1").set("SANDBOXD_IMAGE", &image)).await;
    let before = until_waiting(&daemon, 1).await;

    let body = ContainerCreateBody { image: Some(image.clone()), ..Default::default() };
    let changed = docker.create_container(None::<CreateContainerOptions>, body).await.unwrap().id;
    let options = CommitContainerOptions {
        container: Some(changed.clone()),
        repo: Some(tag),
        tag: Some("1".into()),
        ..Default::default()
    };
    let config = bollard::models::ContainerConfig::default();
    docker.commit_container(options, config).await.unwrap();
    docker.remove_container(&changed, None::<RemoveContainerOptions>).await.unwrap();
    let new_id = docker.inspect_image(&image).await.unwrap().id;
    until("one of the new image waits", || async {
        let now = waiting(&daemon.home).await;
        now.len() == 1 && now.is_disjoint(&before)
    })
    .await;
    until_waiting(&daemon, 1).await;
    let id = create(&daemon, "chat:1").await;
    let container =
        docker.inspect_container(&container_of(id.as_str()), None::<InspectContainerOptions>).await;
    assert_eq!(container.unwrap().image, new_id);
    drop(daemon.stop().await);
    let options = RemoveImageOptions { force: true, ..Default::default() };
    docker.remove_image(&image, Some(options), None).await.unwrap();
}

/// The pool is in the cgroup of one project, so it follows the project that creates sandboxes.
#[tokio::test(flavor = "multi_thread")]
async fn the_pool_follows_the_project_that_uses_it() {
    let daemon = Daemon::start_in(with_pool("1")).await;
    let first = until_waiting(&daemon, 1).await;
    let lab = crate::projects::client_of(&daemon, "lab", None, &["use"]).await;
    let mut ids = Vec::new();
    for number in 1..=2 {
        let made = lab.create_or_reconnect(&of_session(&format!("chat:{number}"))).await.unwrap();
        assert!(!first.contains(made.sandbox_id.as_str()));
        ids.push(made.sandbox_id);
    }
    until("one of the project waits", || async {
        let now = waiting(&daemon.home).await;
        now.len() == 1 && now.is_disjoint(&first)
    })
    .await;
    let waited = until_waiting(&daemon, 1).await;
    let made = lab.create_or_reconnect(&of_session("chat:3")).await.unwrap();
    assert!(waited.contains(made.sandbox_id.as_str()));
    let name = container_of(made.sandbox_id.as_str());
    let container = docker().await.inspect_container(&name, None::<InspectContainerOptions>).await.unwrap();
    let parent = container.host_config.unwrap().cgroup_parent.unwrap();
    assert!(parent.contains("lab"), "{parent}");
    daemon.stop().await;
}

/// It has its device already.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_gets_one_that_waits_while_no_loop_device_is_free() {
    let daemon = Daemon::start_in(with_pool("1")).await;
    let waited = until_waiting(&daemon, 1).await;
    in_helper(&daemon, "rm -f /run/loop-control; mkfifo /run/loop-control").await;
    let first = create(&daemon, "chat:1").await;
    assert!(waited.contains(first.as_str()));
    let error = daemon.client.create_or_reconnect(&of_session("chat:2")).await.unwrap_err();
    assert!(error.to_string().contains("no free loop device"), "{error}");
    in_helper(&daemon, "rm /run/loop-control").await;
    until_waiting(&daemon, 1).await;
    create(&daemon, "chat:2").await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_engine_costs_no_session_its_sandbox() {
    if skipped_under_gvisor("the proxy's daemon does not know the runtime") {
        return;
    }
    let proxy = EngineProxy::start();
    let home = with_pool("1").set("SANDBOXD_DOCKER_SOCKET", &proxy.socket().to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    until_waiting(&daemon, 1).await;
    proxy.stop();
    // One that waits needs no engine, but it may not be certain any more that the engine is ours.
    let answers = join_all((0..4).map(|number| {
        let client = &daemon.client;
        async move { client.create_or_reconnect(&of_session(&format!("chat:{}", number / 2))).await }
    }))
    .await;
    assert!(answers.iter().flatten().count() <= 2, "{answers:?}");
    proxy.start_again();
    until("a sandbox is created", || async {
        daemon.client.create_or_reconnect(&of_session("chat:0")).await.is_ok()
    })
    .await;
    for (number, answer) in answers.into_iter().enumerate() {
        let key = format!("chat:{}", number / 2);
        let found = daemon.client.create_or_reconnect(&of_session(&key)).await.unwrap();
        assert!(answer.is_err() || answer.is_ok_and(|answer| answer.sandbox_id == found.sandbox_id));
        daemon.output(&found.sandbox_id, "true").await;
    }
    until_waiting(&daemon, 1).await;
    assert!(waiting(&daemon.home).await.len() <= 2);
    daemon.stop().await;
}

/// One that is being started has a permit already.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_being_started_makes_room_too() {
    if skipped_under_gvisor("the proxy's daemon does not know the runtime") {
        return;
    }
    let proxy = EngineProxy::start();
    let home = with_pool("1").set("SANDBOXD_MAX_CONCURRENT", "2");
    let home = home.set("SANDBOXD_DOCKER_SOCKET", &proxy.socket().to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    until_waiting(&daemon, 1).await;
    let busy = create(&daemon, "chat:1").await;
    daemon.client.start(&busy, &script("sleep 60")).await.unwrap();
    proxy.set("/containers/create", Fault::Delay(Duration::from_secs(2)));
    until("another one is being started", || async { notes_of(&daemon.home).await.len() == 2 }).await;
    let small = Some(Resources { vcpus: Some(1), ..Resources::default() });
    let request = CreateSandbox { resources: small, ..of_session("chat:2") };
    let made = daemon.client.create_or_reconnect(&request).await.unwrap();
    assert!(made.created);
    assert_eq!(waiting(&daemon.home).await, [busy.to_string()].into(), "it has made room");
    proxy.clear_faults();
    daemon.stop().await;
}
