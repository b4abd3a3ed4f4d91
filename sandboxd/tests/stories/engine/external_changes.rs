//! Somebody else renames, pauses, stops, updates or connects a sandbox's container, or takes its names.

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
async fn a_container_that_is_renamed_gets_its_name_again() {
    let daemon = Daemon::start().await;
    let (engine, id) = (docker().await, daemon.sandbox("chat:1").await);
    let command = daemon.client.run(&id, &script("sleep 1; echo done")).await.unwrap();
    rename(&engine, &id, &format!("other-{id}")).await;
    until("it has its name again", || async { containers_of(&engine, &id).await == as_it_was(&id) }).await;
    assert_eq!(outcome(command).await.text(), "done\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_container_is_found_where_nobody_told_of_it() {
    let proxy = EngineProxy::start();
    let home = Home::new().set("SANDBOXD_DOCKER_SOCKET", &proxy.socket().to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    let engine = docker().await;
    let (parked, deleted, kept) =
        (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await, daemon.sandbox("chat:3").await);
    daemon.output(&parked, "echo kept > file").await;
    proxy.deafen("/events");
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

    // And over a start of the daemon.
    proxy.mend();
    let home = daemon.stop().await;
    let daemon = Daemon::start_in(home).await;
    assert_eq!(daemon.output(&kept, "echo on").await, "on\n");
    until("it has its name again", || async { containers_of(&engine, &kept).await == as_it_was(&kept) })
        .await;
    daemon.stop().await;
}

/// One container has the name of another sandbox's: each is told by its labels.
#[tokio::test(flavor = "multi_thread")]
async fn a_container_with_the_name_of_another_is_not_taken_for_it() {
    let daemon = Daemon::start().await;
    let engine = docker().await;
    let (one, two) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    daemon.client.park(&two, false).await.unwrap();
    let counted = daemon.client.run(&one, &script("sleep 2; echo done")).await.unwrap();
    rename(&engine, &one, &container_name(&two)).await;
    daemon.client.delete(&two).await.unwrap();
    assert_eq!(outcome(counted).await.text(), "done\n");
    until("it has its name again", || async { containers_of(&engine, &one).await == as_it_was(&one) }).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_container_goes_on_at_once() {
    let daemon = Daemon::start().await;
    let (engine, id) = (docker().await, daemon.sandbox("chat:1").await);
    let command = daemon.client.run(&id, &script("sleep 1; echo done")).await.unwrap();
    engine.pause_container(&container_name(&id)).await.unwrap();
    until("it goes on", || async { containers_of(&engine, &id).await == as_it_was(&id) }).await;
    let heard = outcome(command).await;
    assert_eq!((heard.text().as_str(), heard.reason), ("done\n", EndReason::Exited));

    // Between two daemons.
    let home = daemon.stop().await;
    engine.pause_container(&container_name(&id)).await.unwrap();
    let daemon = Daemon::start_in(home).await;
    assert_eq!(daemon.output(&id, "echo on").await, "on\n");
    assert_eq!(containers_of(&engine, &id).await, as_it_was(&id));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_others_end_is_made_anew_with_its_files() {
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
async fn changed_limits_are_told_and_another_network_parks() {
    let daemon = Daemon::start().await;
    let (engine, id) = (docker().await, daemon.sandbox("chat:1").await);
    let name = container_name(&id);
    let change = ContainerUpdateBody { pids_limit: Some(77), ..Default::default() };
    engine.update_container(&name, change).await.unwrap();
    until("it is told", || async {
        daemon.client.get(&id).await.unwrap().posture.is_some_and(|posture| posture.pids_limit == Some(77))
    })
    .await;

    let join = NetworkConnectRequest { container: name.clone(), endpoint_config: None };
    // The engine may refuse it. Where it does not, any event of the container makes the daemon look.
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
async fn a_volume_that_only_has_the_name_is_neither_used_nor_removed() {
    let daemon = Daemon::start().await;
    let (engine, id) = (docker().await, daemon.sandbox("chat:1").await);
    daemon.client.park(&id, false).await.unwrap();
    let name = volume_name(&id);
    engine.remove_volume(&name, None::<RemoveVolumeOptions>).await.unwrap();
    let request = VolumeCreateRequest { name: Some(name.clone()), ..Default::default() };
    engine.create_volume(request).await.unwrap();
    let woken = daemon.client.touch(&id, None).await;
    assert!(woken.is_err(), "an empty workspace was passed off as the old one");
    daemon.client.delete(&id).await.unwrap();
    assert!(engine.inspect_volume(&name).await.is_ok(), "a stranger's volume was removed");
    engine.remove_volume(&name, None::<RemoveVolumeOptions>).await.unwrap();
    daemon.stop().await;
}
