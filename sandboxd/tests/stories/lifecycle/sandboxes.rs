//! A sandbox's life: made once, found again, restarted, deleted, and taken back by the next daemon.

use std::collections::HashMap;

use bollard::models::ContainerCreateBody;
use bollard::query_parameters::{CreateContainerOptions, KillContainerOptions, RemoveContainerOptions};
use sandbox_api::command::EndReason;
use sandbox_api::sandbox::{CreateSandbox, Network};
use sandbox_api::{ErrorCode, SandboxId};

use crate::support::harness::{Daemon, docker, outcome, over_each_transport, script, until};

over_each_transport!(
    twenty_creates_of_one_session_make_one_sandbox,
    a_container_that_was_killed_comes_back_with_its_files,
);

async fn twenty_creates_of_one_session_make_one_sandbox(daemon: &Daemon) {
    let wish = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let creates = (0..20).map(|_| daemon.client.create_or_reconnect(&wish));
    let answers: Vec<_> = futures::future::join_all(creates).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|answer| answer.created).count(), 1);
    assert!(answers.iter().all(|answer| answer.sandbox_id == answers[0].sandbox_id));
    assert_eq!(containers_of(daemon).await.len(), 1);
}

async fn a_container_that_was_killed_comes_back_with_its_files(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo kept > file").await;
    let records = daemon.client.run(&sandbox, &script("echo begun; sleep 60")).await.unwrap();
    let killed = async {
        let name = format!("remcochat-sandbox-{sandbox}");
        docker().await.kill_container(&name, None::<KillContainerOptions>).await.unwrap();
    };
    let (heard, ()) = tokio::join!(outcome(records), killed);
    assert_eq!(heard.reason, EndReason::Lost);

    let wish = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let again = daemon.client.create_or_reconnect(&wish).await.unwrap();
    assert_eq!((&again.sandbox_id, again.created, again.woken), (&sandbox, false, true));
    assert_eq!(daemon.output(&sandbox, "cat file").await, "kept\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_daemon_takes_the_sandboxes_back() {
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
async fn only_what_is_signed_by_us_is_taken_back() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let name = format!("remcochat-sandbox-{sandbox}");
    let labels = docker().await.inspect_container(&name, None).await.unwrap().config.unwrap().labels.unwrap();
    let home = daemon.stop().await;

    // A neighbour copies our labels, signature and all, and one of them changes the session.
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
    // Not ours to remove either.
    assert!(docker().await.inspect_container(forged, None).await.is_ok());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_started_container_is_made_anew() {
    let daemon = Daemon::start().await;
    let wish = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&wish).await.unwrap().sandbox_id;
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
    let found = daemon.client.create_or_reconnect(&wish).await.unwrap();
    assert_eq!((&found.sandbox_id, found.created, found.woken), (&sandbox, false, true));
    assert_eq!(daemon.output(&sandbox, "cat file").await, "kept\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_sandbox_is_gone_for_its_readers_too() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let records = daemon.client.run(&sandbox, &script("echo begun; sleep 60")).await.unwrap();
    let (heard, deleted) = tokio::join!(outcome(records), daemon.client.delete(&sandbox));
    deleted.unwrap();
    assert_eq!((heard.reason, heard.exit_code), (EndReason::Lost, 137));
    let error = daemon.client.run(&sandbox, &script("true")).await.map(drop).unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NotFound));
    until("nothing of it is left", || async { containers_of(&daemon).await.is_empty() }).await;
    assert!(!daemon.home.path().join("run").join(sandbox.as_str()).exists());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wishes_a_sandbox_does_not_follow_are_listed() {
    let daemon = Daemon::start().await;
    let network = |mode: &str| Some(Network { mode: Some(mode.into()), allow: None });
    let wish =
        |mode| CreateSandbox { session_key: "chat:1".into(), network: network(mode), ..Default::default() };
    let made = daemon.client.create_or_reconnect(&wish("none")).await.unwrap();
    assert_eq!((made.created, made.ignored.as_slice()), (true, &[][..]));
    let wish =
        CreateSandbox { runtime: Some("python3.13".into()), ports: Some(vec![3000]), ..wish("allowlist") };
    let found = daemon.client.create_or_reconnect(&wish).await.unwrap();
    assert_eq!((found.created, found.ignored), (false, vec!["runtime".to_owned()]));
    let followed = daemon.client.get(&made.sandbox_id).await.unwrap();
    assert_eq!(followed.ports, [3000], "ports do follow");
    assert_eq!(followed.network.mode.as_deref(), Some("allowlist"), "and so does the network");
    daemon.stop().await;
}

/// Names of the sandboxes' containers this daemon has on the engine.
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
