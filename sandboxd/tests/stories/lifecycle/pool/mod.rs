//! Sandboxes that were started before a session wants them.

mod faults;
mod killed;

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

use bollard::query_parameters::{InspectContainerOptions, ListContainersOptions};
use futures::future::join_all;
use sandbox_api::SandboxId;
use sandbox_api::sandbox::{CreateSandbox, Resources};

use crate::support::engine_view::objects_of;
use crate::support::harness::{Daemon, Home, docker, script, until};
use crate::support::http::HttpClient;
use crate::support::metrics::Samples;

const SESSION_KEY: &str = "remcochat.sessionKey";

fn with_pool(size: &str) -> Home {
    Home::new().set("SANDBOXD_POOL_SIZE", size)
}

fn of_session(key: &str) -> CreateSandbox {
    CreateSandbox { session_key: key.into(), ..CreateSandbox::default() }
}

/// The sandboxes of this home's daemon that have running containers without a session key.
async fn waiting(home: &Home) -> BTreeSet<String> {
    let label = format!("sandboxd.instance={}", home.instance().unwrap().id());
    let filters = HashMap::from([("label".to_owned(), vec![label, "remcochat.sandboxId".to_owned()])]);
    let options = ListContainersOptions { filters: Some(filters), ..Default::default() };
    let containers = docker().await.list_containers(Some(options)).await.unwrap();
    let labels = containers.into_iter().filter_map(|container| container.labels);
    let without_session = labels.filter(|labels| !labels.contains_key(SESSION_KEY));
    without_session.map(|labels| labels["remcochat.sandboxId"].clone()).collect()
}

/// Waits until the daemon at this port can give a sandbox to a session. Returns those without a session key, which may be more.
async fn until_waiting_at(port: u16, home: &Home) -> BTreeSet<String> {
    until("a sandbox waits for a session", || async {
        Samples::from(&HttpClient::at(port)).await.sum("sandboxd_pool", &[]) == 1.0
    })
    .await;
    waiting(home).await
}

/// Waits until the daemon can give this many sandboxes to sessions. Returns those without a session key, which may be more.
async fn until_waiting(daemon: &Daemon, number: usize) -> BTreeSet<String> {
    until("sandboxes wait for a session", || async {
        Samples::of(daemon).await.sum("sandboxd_pool", &[]) == number as f64
    })
    .await;
    waiting(&daemon.home).await
}

/// The files beside the disks of this home's daemon.
async fn notes_of(home: &Home) -> Vec<PathBuf> {
    let volume = format!("sandboxd-disks-{}", home.instance().unwrap().id());
    let dir = docker().await.inspect_volume(&volume).await.unwrap().mountpoint;
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "note")).collect()
}

async fn container_label(id: &SandboxId, label: &str) -> Option<String> {
    let name = format!("remcochat-sandbox-{id}");
    let found = docker().await.inspect_container(&name, None::<InspectContainerOptions>).await.unwrap();
    found.config.unwrap().labels.unwrap().remove(label)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_gets_a_sandbox_that_waits() {
    let daemon = Daemon::start_in(with_pool("1")).await;
    let waited = until_waiting(&daemon, 1).await;
    let request = CreateSandbox {
        env: Some([("COLOUR".to_owned(), "blue".to_owned())].into()),
        metadata: Some([("made".to_owned(), "by hand".to_owned())].into()),
        ports: Some(vec![3000]),
        ..of_session("chat:1")
    };
    let made = daemon.client.create_or_reconnect(&request).await.unwrap();
    let id = made.sandbox_id;
    assert!(made.created && waited.contains(id.as_str()), "{id}, {waited:?}");
    assert_eq!(
        daemon.output(&id, "echo $COLOUR >file; cat file; pwd; ls -a").await,
        "blue\n/vercel/sandbox/workspace\n.\n..\nfile\n"
    );
    let found = daemon.client.get(&id).await.unwrap();
    assert_eq!((Some(found.metadata), found.ports), (request.metadata.clone(), vec![3000]));
    let posture = found.posture.unwrap();
    assert!(posture.readonly_rootfs && posture.no_new_privileges && posture.capabilities.is_empty());
    assert_eq!(Samples::of(&daemon).await.sum("sandboxd_pool_taken_total", &[]), 1.0);
    // Another one takes its place.
    let next = until_waiting(&daemon, 1).await;
    assert!(!next.is_subset(&waited), "{next:?}");
    let again = daemon.client.create_or_reconnect(&request).await.unwrap();
    assert_eq!((again.sandbox_id, again.created), (id.clone(), false));

    // Its next container is like any other.
    assert_eq!(container_label(&id, SESSION_KEY).await, None);
    daemon.client.park(&id, false).await.unwrap();
    assert_eq!(daemon.output(&id, "cat file").await, "blue\n");
    assert_eq!(container_label(&id, SESSION_KEY).await.as_deref(), Some("chat:1"));
    daemon.client.delete(&id).await.unwrap();
    until_waiting(&daemon, 1).await;
    let home = daemon.stop().await;
    assert_eq!(objects_of(&home).await, Vec::<String>::new(), "a stop leaves none that wait");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_sandbox_without_options_of_its_container_waits() {
    let daemon = Daemon::start_in(with_pool("1")).await;
    let waited = until_waiting(&daemon, 1).await;
    let small = Some(Resources { vcpus: Some(1), ..Resources::default() });
    let request = CreateSandbox { resources: small, ..of_session("chat:small") };
    let id = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    assert!(!waited.contains(id.as_str()));
    assert_eq!(container_label(&id, SESSION_KEY).await.as_deref(), Some("chat:small"));
    // The same session finds it.
    let again = daemon.client.create_or_reconnect(&of_session("chat:small")).await.unwrap();
    assert_eq!((&again.sandbox_id, again.created), (&id, false));
    assert_eq!(waiting(&daemon.home).await, waited);
    daemon.stop().await;
}

/// More sessions than wait, and two requests of each.
#[tokio::test(flavor = "multi_thread")]
async fn each_session_gets_one_sandbox_of_its_own() {
    let daemon = Daemon::start_in(with_pool("2").set("SANDBOXD_MAX_CONCURRENT", "32")).await;
    let waited = until_waiting(&daemon, 2).await;
    let create = async |key: usize| {
        daemon.client.create_or_reconnect(&of_session(&format!("chat:{key}"))).await.unwrap().sandbox_id
    };
    let made = join_all((0..40).map(|number| create(number / 2))).await;
    let ids: BTreeSet<&str> = made.iter().map(SandboxId::as_str).collect();
    assert_eq!(ids.len(), 20, "{made:?}");
    assert!(made.chunks(2).all(|pair| pair[0] == pair[1]), "{made:?}");
    assert!(waited.iter().all(|waited| ids.contains(waited.as_str())), "{waited:?}, {ids:?}");
    for (key, id) in made.iter().step_by(2).enumerate() {
        let said = daemon.output(id, &format!("ls; echo {key} >mine; cat mine")).await;
        assert_eq!(said, format!("{key}\n"));
    }
    daemon.stop().await;
}

/// Labels that do not fit beside the disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_with_large_metadata_is_started_when_it_is_wanted() {
    let daemon = Daemon::start_in(with_pool("1")).await;
    let waited = until_waiting(&daemon, 1).await;
    // Each takes several bytes in the JSON of the JSON.
    let metadata = Some([("quotes".to_owned(), "\"".repeat(15_000))].into());
    let request = CreateSandbox { metadata, ..of_session("chat:1") };
    let made = daemon.client.create_or_reconnect(&request).await.unwrap();
    assert!(made.created);
    assert_eq!(waiting(&daemon.home).await, waited);
    assert_eq!(daemon.client.get(&made.sandbox_id).await.unwrap().metadata, request.metadata.unwrap());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_that_wait_make_room_for_others() {
    let home = with_pool("3").set("SANDBOXD_MAX_CONCURRENT", "2");
    let daemon = Daemon::start_in(home).await;
    until_waiting(&daemon, 2).await;
    let small = Some(Resources { vcpus: Some(1), ..Resources::default() });
    let mut ids = Vec::new();
    for key in ["chat:1", "chat:2"] {
        let request = CreateSandbox { resources: small, ..of_session(key) };
        let id = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
        // It stays in use.
        daemon.client.start(&id, &script("sleep 60")).await.unwrap();
        ids.push(id);
    }
    assert_eq!(waiting(&daemon.home).await, BTreeSet::new());
    let third = daemon.client.create_or_reconnect(&of_session("chat:3")).await.unwrap_err();
    assert_eq!(third.code(), Some(sandbox_api::ErrorCode::CapacityExhausted));
    daemon.client.delete(&ids[0]).await.unwrap();
    until_waiting(&daemon, 1).await;
    daemon.stop().await;
}
