//! The life of a sandbox: created once, found again, restarted, deleted, and restored by the next daemon.

use std::collections::HashMap;

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{CreateContainerOptions, KillContainerOptions, RemoveContainerOptions};
use sandbox_api::command::EndReason;
use sandbox_api::sandbox::{CreateSandbox, Network};
use sandbox_api::{ErrorCode, SandboxId};

use crate::support::harness::{Daemon, docker, outcome, over_each_transport, script, until};

over_each_transport!(
    twenty_creates_of_one_session_make_one_sandbox,
    a_killed_container_restarts_with_its_files,
);

async fn twenty_creates_of_one_session_make_one_sandbox(daemon: &Daemon) {
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let creates = (0..20).map(|_| daemon.client.create_or_reconnect(&request));
    let answers: Vec<_> = futures::future::join_all(creates).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|answer| answer.created).count(), 1);
    assert!(answers.iter().all(|answer| answer.sandbox_id == answers[0].sandbox_id));
    assert_eq!(containers_of(daemon).await.len(), 1);
    let image = docker().await.inspect_image("remcochat-sandbox:node24").await.unwrap().id;
    assert!(image.is_some() && answers.iter().all(|answer| answer.image_id == image), "{answers:?}");
    let posture = daemon.client.get(&answers[0].sandbox_id).await.unwrap().posture.unwrap();
    assert_eq!(posture.image_id, image);
}

async fn a_killed_container_restarts_with_its_files(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo kept > file").await;
    let records = daemon.client.run(&sandbox, &script("echo begun; sleep 60")).await.unwrap();
    let killed = async {
        let name = format!("remcochat-sandbox-{sandbox}");
        docker().await.kill_container(&name, None::<KillContainerOptions>).await.unwrap();
    };
    let (received, ()) = tokio::join!(outcome(records), killed);
    assert_eq!(received.reason, EndReason::Lost);

    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let again = daemon.client.create_or_reconnect(&request).await.unwrap();
    assert_eq!((&again.sandbox_id, again.created, again.woken), (&sandbox, false, true));
    assert_eq!(daemon.output(&sandbox, "cat file").await, "kept\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_daemon_restores_the_sandboxes() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo kept > file").await;
    let command = daemon.client.start(&sandbox, &script("sleep 300")).await.unwrap().command_id;
    let home = daemon.stop().await;

    let daemon = Daemon::start_in(home).await;
    assert_eq!(daemon.output(&sandbox, "cat file; pgrep -c sleep").await, "kept\n1\n");
    assert_eq!(daemon.sandbox("chat:1").await, sandbox);
    daemon.client.kill(&sandbox, &command, &Default::default()).await.unwrap();
    daemon.client.delete(&sandbox).await.unwrap();
    assert_eq!(containers_of(&daemon).await, Vec::<String>::new());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_containers_with_our_signature_are_restored() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let name = format!("remcochat-sandbox-{sandbox}");
    let labels = docker().await.inspect_container(&name, None).await.unwrap().config.unwrap().labels.unwrap();
    let home = daemon.stop().await;

    // Another program copies our labels, including the signature, and one copy changes the session.
    let forged = "sandboxd-test-forged-labels";
    let other: SandboxId = SandboxId::random().unwrap();
    let changed = [("remcochat.sessionKey", "chat:stolen"), ("remcochat.sandboxId", other.as_str())];
    let mut copy: HashMap<String, String> = labels.clone();
    copy.extend(changed.map(|(name, value)| (name.to_owned(), value.to_owned())));
    for (name, labels) in [(forged.to_owned(), labels), (format!("remcochat-sandbox-{other}"), copy)] {
        let options = CreateContainerOptions { name: Some(name), ..Default::default() };
        let body = ContainerCreateBody {
            image: Some("remcochat-sandbox:node24".into()),
            labels: Some(labels),
            ..Default::default()
        };
        docker().await.create_container(Some(options), body).await.unwrap();
    }
    let daemon = Daemon::start_in(home).await;
    assert_eq!(daemon.output(&sandbox, "echo mine").await, "mine\n");
    assert_ne!(daemon.sandbox("chat:stolen").await, other);
    // It is not removed either.
    assert!(docker().await.inspect_container(forged, None).await.is_ok());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partly_created_container_is_recreated() {
    let daemon = Daemon::start().await;
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    daemon.output(&sandbox, "echo kept > file").await;
    let name = format!("remcochat-sandbox-{sandbox}");
    let engine = docker().await;
    let made = engine.inspect_container(&name, None).await.unwrap();
    let home = daemon.stop().await;
    // As if the daemon had been killed between create and start.
    let force = RemoveContainerOptions { force: true, ..Default::default() };
    engine.remove_container(&name, Some(force)).await.unwrap();
    let config = made.config.unwrap();
    let body = ContainerCreateBody { image: config.image, labels: config.labels, ..Default::default() };
    let options = CreateContainerOptions { name: Some(name.clone()), ..Default::default() };
    engine.create_container(Some(options), body).await.unwrap();

    let daemon = Daemon::start_in(home).await;
    assert_eq!(containers_of(&daemon).await, Vec::<String>::new());
    let found = daemon.client.create_or_reconnect(&request).await.unwrap();
    assert_eq!((&found.sandbox_id, found.created, found.woken), (&sandbox, false, true));
    assert_eq!(daemon.output(&sandbox, "cat file").await, "kept\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_sandbox_is_gone_for_its_readers() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let records = daemon.client.run(&sandbox, &script("echo begun; sleep 60")).await.unwrap();
    let (received, deleted) = tokio::join!(outcome(records), daemon.client.delete(&sandbox));
    deleted.unwrap();
    assert_eq!((received.reason, received.exit_code), (EndReason::Lost, 137));
    let error = daemon.client.run(&sandbox, &script("true")).await.map(drop).unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NotFound));
    until("nothing of it is left", || async { containers_of(&daemon).await.is_empty() }).await;
    assert!(!daemon.home.path().join("run").join(sandbox.as_str()).exists());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn options_that_an_existing_sandbox_ignores_are_listed() {
    let daemon = Daemon::start().await;
    let network = |mode: &str| Some(Network { mode: Some(mode.into()), allow: None });
    let request =
        |mode| CreateSandbox { session_key: "chat:1".into(), network: network(mode), ..Default::default() };
    let made = daemon.client.create_or_reconnect(&request("none")).await.unwrap();
    assert_eq!((made.created, made.ignored.as_slice()), (true, &[][..]));
    let request =
        CreateSandbox { runtime: Some("python3.13".into()), ports: Some(vec![3000]), ..request("allowlist") };
    let found = daemon.client.create_or_reconnect(&request).await.unwrap();
    assert_eq!((found.created, found.ignored), (false, vec!["runtime".to_owned()]));
    let followed = daemon.client.get(&made.sandbox_id).await.unwrap();
    assert_eq!(followed.ports, [3000], "ports are updated");
    assert_eq!(followed.network.mode.as_deref(), Some("allowlist"), "the network is updated");
    daemon.stop().await;
}

/// Names of this daemon's sandbox containers on the engine.
async fn containers_of(daemon: &Daemon) -> Vec<String> {
    let label = format!("sandboxd.instance={}", daemon.home.instance().unwrap().id());
    let options = bollard::query_parameters::ListContainersOptions {
        all: true,
        filters: Some(HashMap::from([("label".to_owned(), vec![label, "remcochat.sandboxId".to_owned()])])),
        ..Default::default()
    };
    let containers = docker().await.list_containers(Some(options)).await.unwrap();
    containers.into_iter().flat_map(|container| container.names.unwrap_or_default()).collect()
}
