//! Another program renames, pauses, stops, updates or connects a sandbox's container, or takes its name.

use std::collections::HashMap;

use bollard::Docker;
use bollard::models::{ContainerUpdateBody, NetworkConnectRequest, VolumeCreateRequest};
use bollard::query_parameters::{
    InspectContainerOptions, KillContainerOptions, ListContainersOptions, RemoveContainerOptions,
    RemoveVolumeOptions, RenameContainerOptions, StopContainerOptions,
};
use sandbox_api::SandboxId;
use sandbox_api::command::EndReason;
use sandboxd::model::layout::{container_name, volume_name};

use crate::support::engine_proxy::EngineProxy;
use crate::support::harness::{Daemon, Home, docker, outcome, script, until};

/// The sandbox's containers by their labels: name and state.
async fn containers_of(engine: &Docker, id: &SandboxId) -> Vec<(String, String)> {
    let filters = HashMap::from([("label".to_owned(), vec![format!("remcochat.sandboxId={id}")])]);
    let options = ListContainersOptions { all: true, filters: Some(filters), ..Default::default() };
    let found = engine.list_containers(Some(options)).await.unwrap();
    found.into_iter().map(|found| (found.names.unwrap().concat(), found.state.unwrap().to_string())).collect()
}

fn as_it_was(id: &SandboxId) -> Vec<(String, String)> {
    vec![(format!("/{}", container_name(id)), "running".into())]
}

async fn rename(engine: &Docker, id: &SandboxId, name: &str) {
    let options = RenameContainerOptions { name: name.into() };
    engine.rename_container(&container_name(id), options).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_container_gets_its_name_back() {
    let daemon = Daemon::start().await;
    let (engine, id) = (docker().await, daemon.sandbox("chat:1").await);
    let command = daemon.client.run(&id, &script("sleep 1; echo done")).await.unwrap();
    rename(&engine, &id, &format!("other-{id}")).await;
    until("the container has its name back", || async {
        containers_of(&engine, &id).await == as_it_was(&id)
    })
    .await;
    assert_eq!(outcome(command).await.text(), "done\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_renamed_without_an_event_is_found() {
    let proxy = EngineProxy::start();
    let home = Home::new().set("SANDBOXD_DOCKER_SOCKET", &proxy.socket().to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    let engine = docker().await;
    let (parked, deleted, kept) =
        (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await, daemon.sandbox("chat:3").await);
    daemon.output(&parked, "echo kept > file").await;
    proxy.silence("/events");
    for id in [&parked, &deleted, &kept] {
        rename(&engine, id, &format!("other-{id}")).await;
    }
    assert_eq!(daemon.output(&kept, "echo on").await, "on\n");
    daemon.client.park(&parked, false).await.unwrap();
    assert_eq!(containers_of(&engine, &parked).await, []);
    assert_eq!(daemon.output(&parked, "cat file").await, "kept\n");
    assert_eq!(containers_of(&engine, &parked).await, as_it_was(&parked));
    daemon.client.delete(&deleted).await.unwrap();
    assert_eq!(containers_of(&engine, &deleted).await, []);

    // The same across a start of the daemon.
    proxy.clear_faults();
    let home = daemon.stop().await;
    let daemon = Daemon::start_in(home).await;
    assert_eq!(daemon.output(&kept, "echo on").await, "on\n");
    until("the container has its name back", || async {
        containers_of(&engine, &kept).await == as_it_was(&kept)
    })
    .await;
    daemon.stop().await;
}

/// A container has the name of another sandbox's container. Labels identify each.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_is_identified_by_its_labels_and_not_its_name() {
    let daemon = Daemon::start().await;
    let engine = docker().await;
    let (one, two) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    daemon.client.park(&two, false).await.unwrap();
    let counted = daemon.client.run(&one, &script("sleep 2; echo done")).await.unwrap();
    rename(&engine, &one, &container_name(&two)).await;
    daemon.client.delete(&two).await.unwrap();
    assert_eq!(outcome(counted).await.text(), "done\n");
    until("the container has its name back", || async {
        containers_of(&engine, &one).await == as_it_was(&one)
    })
    .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_container_is_resumed_at_once() {
    let daemon = Daemon::start().await;
    let (engine, id) = (docker().await, daemon.sandbox("chat:1").await);
    let command = daemon.client.run(&id, &script("sleep 1; echo done")).await.unwrap();
    engine.pause_container(&container_name(&id)).await.unwrap();
    until("the container runs again", || async { containers_of(&engine, &id).await == as_it_was(&id) }).await;
    let received = outcome(command).await;
    assert_eq!((received.text().as_str(), received.reason), ("done\n", EndReason::Exited));

    // Paused between two daemons.
    let home = daemon.stop().await;
    engine.pause_container(&container_name(&id)).await.unwrap();
    let daemon = Daemon::start_in(home).await;
    assert_eq!(daemon.output(&id, "echo on").await, "on\n");
    assert_eq!(containers_of(&engine, &id).await, as_it_was(&id));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_ended_by_others_is_recreated_with_its_files() {
    let daemon = Daemon::start().await;
    let (engine, id) = (docker().await, daemon.sandbox("chat:1").await);
    let name = container_name(&id);
    for how in ["stop", "kill", "remove"] {
        daemon.output(&id, &format!("echo {how} > file")).await;
        match how {
            "stop" => engine.stop_container(&name, None::<StopContainerOptions>).await,
            "kill" => engine.kill_container(&name, None::<KillContainerOptions>).await,
            _ => {
                let options = RemoveContainerOptions { force: true, ..Default::default() };
                engine.remove_container(&name, Some(options)).await
            }
        }
        .unwrap();
        assert_eq!(daemon.output(&id, "cat file").await, format!("{how}\n"));
        assert_eq!(containers_of(&engine, &id).await, as_it_was(&id), "{how}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_limits_are_reported_and_a_second_network_parks_the_sandbox() {
    let daemon = Daemon::start().await;
    let (engine, id) = (docker().await, daemon.sandbox("chat:1").await);
    let name = container_name(&id);
    let change = ContainerUpdateBody { pids_limit: Some(77), ..Default::default() };
    engine.update_container(&name, change).await.unwrap();
    until("the change is reported", || async {
        daemon.client.get(&id).await.unwrap().posture.is_some_and(|posture| posture.pids_limit == Some(77))
    })
    .await;

    let join = NetworkConnectRequest { container: name.clone(), endpoint_config: None };
    // The engine may reject it. If it does not, any event of the container makes the daemon inspect it.
    if engine.connect_network("bridge", join).await.is_ok() {
        let change = ContainerUpdateBody { pids_limit: Some(78), ..Default::default() };
        engine.update_container(&name, change).await.unwrap();
        until("its container is gone", || async { containers_of(&engine, &id).await.is_empty() }).await;
    }
    assert_eq!(daemon.output(&id, "ls /sys/class/net").await, "lo\n");
    let options = None::<InspectContainerOptions>;
    let networks = engine.inspect_container(&name, options).await.unwrap().network_settings.unwrap().networks;
    assert!(networks.unwrap().into_keys().all(|name| name == "none"));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_volume_with_the_name_is_neither_used_nor_removed() {
    let daemon = Daemon::start().await;
    let (engine, id) = (docker().await, daemon.sandbox("chat:1").await);
    daemon.client.park(&id, false).await.unwrap();
    let name = volume_name(&id);
    engine.remove_volume(&name, None::<RemoveVolumeOptions>).await.unwrap();
    let request = VolumeCreateRequest { name: Some(name.clone()), ..Default::default() };
    engine.create_volume(request).await.unwrap();
    let woken = daemon.client.touch(&id, None).await;
    assert!(woken.is_err(), "an empty workspace replaced the old one");
    daemon.client.delete(&id).await.unwrap();
    assert!(engine.inspect_volume(&name).await.is_ok(), "a foreign volume was removed");
    engine.remove_volume(&name, None::<RemoveVolumeOptions>).await.unwrap();
    daemon.stop().await;
}
