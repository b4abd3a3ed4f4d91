//! New sandboxes with the files of a snapshot.

use sandbox_api::ErrorCode;
use sandbox_api::sandbox::{
    Checkpoints, CreateSandbox, ListSandboxes, Network, Resources, Sandbox, SandboxState, WorkspaceSource,
};
use sandbox_api::snapshot::{ForkSandbox, MakeSnapshot};
use sandbox_client::Client;

use super::{FILL, fingerprint, snapshot};
use crate::support::engine_proxy::{EngineProxy, Fault};
use crate::support::engine_view::objects_of;
use crate::support::harness::{Daemon, DaemonProcess, Home, SOON, free_port, until, until_within};

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_begins_with_the_files_of_a_snapshot() {
    let daemon = Daemon::start().await;
    let original = daemon.sandbox("chat:1").await;
    daemon.output(&original, FILL).await;
    let before = fingerprint(&daemon, &original).await;
    let snapshot_id = snapshot(&daemon, &original).await.snapshot.snapshot_id;
    daemon.client.delete(&original).await.unwrap();
    let create = |session_key: &str| CreateSandbox {
        session_key: session_key.into(),
        workspace: Some(WorkspaceSource::snapshot(snapshot_id.clone())),
        ..CreateSandbox::default()
    };
    let copy = daemon.client.create_or_reconnect(&create("chat:2")).await.unwrap();
    assert!(copy.created && copy.ignored.is_empty());
    assert_eq!(fingerprint(&daemon, &copy.sandbox_id).await, before);
    daemon.output(&copy.sandbox_id, "echo mine > mine").await;
    let again = daemon.client.create_or_reconnect(&create("chat:2")).await.unwrap();
    assert_eq!(again.ignored, ["workspace"], "an existing sandbox keeps its files");
    assert_eq!(daemon.output(&copy.sandbox_id, "cat mine").await, "mine\n");
    daemon.client.make_snapshot(&copy.sandbox_id, &MakeSnapshot::default()).await.unwrap();
    let missing = CreateSandbox {
        workspace: Some(WorkspaceSource::snapshot(sandbox_api::SnapshotId::random().unwrap())),
        ..create("chat:3")
    };
    let rejected = daemon.client.create_or_reconnect(&missing).await.unwrap_err();
    assert_eq!(rejected.code(), Some(ErrorCode::NotFound));
    // A client may send the same request each time.
    daemon.client.delete_snapshot(&snapshot_id).await.unwrap();
    let again = daemon.client.create_or_reconnect(&create("chat:2")).await.unwrap();
    assert_eq!((again.sandbox_id, again.ignored), (copy.sandbox_id, vec!["workspace".to_owned()]));
    let rejected = daemon.client.create_or_reconnect(&create("chat:4")).await.unwrap_err();
    assert_eq!(rejected.code(), Some(ErrorCode::NotFound));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_creates_all_sandboxes_or_none() {
    let daemon = Daemon::start().await;
    let original = CreateSandbox {
        session_key: "chat:1".into(),
        env: Some([("KEY".to_owned(), "value of one user".to_owned())].into_iter().collect()),
        ..CreateSandbox::default()
    };
    let original = daemon.client.create_or_reconnect(&original).await.unwrap().sandbox_id;
    daemon.output(&original, "echo shared > a").await;
    let fork =
        |keys: &[&str]| ForkSandbox { session_keys: keys.iter().map(|key| (*key).to_owned()).collect() };
    let forked =
        daemon.client.fork(&original, &fork(&["chat:2", "chat:3", "chat:4"])).await.unwrap().sandboxes;
    for (number, fork) in forked.iter().enumerate() {
        let got = daemon
            .output(&fork.sandbox_id, &format!("cat a; echo \"${{KEY-none}}\"; echo {number} > a"))
            .await;
        assert_eq!(got, "shared\nnone\n");
    }
    assert_eq!(daemon.output(&original, "cat a").await, "shared\n");
    assert_eq!(daemon.output(&forked[1].sandbox_id, "cat a").await, "1\n");

    for (keys, code) in [
        (&["chat:5", "chat:2"][..], ErrorCode::AlreadyExists),
        (&["chat:5", "chat:5"], ErrorCode::InvalidRequest),
        (&["chat:5", "not valid\n"], ErrorCode::InvalidRequest),
        (&[], ErrorCode::InvalidRequest),
    ] {
        let rejected = daemon.client.fork(&original, &fork(keys)).await.unwrap_err();
        assert_eq!(rejected.code(), Some(code), "{keys:?}: {rejected}");
    }
    let too_many = (0..51).map(|number| format!("chat:many{number}")).collect();
    let rejected = daemon.client.fork(&original, &ForkSandbox { session_keys: too_many }).await.unwrap_err();
    assert_eq!(rejected.code(), Some(ErrorCode::InvalidRequest), "{rejected}");
    let told = rejected.to_string();
    assert!(told.contains("sessionKeys") && told.contains("50"), "{told}");
    let sandboxes = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    assert_eq!(sandboxes.len(), 4);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_has_the_configuration_of_the_original() {
    let daemon = Daemon::start().await;
    let original = CreateSandbox {
        session_key: "chat:1".into(),
        checkpoints: Some(Checkpoints { after_command: Some(false), keep: Some(7), ..Default::default() }),
        idle_ttl_ms: Some(120_000),
        metadata: Some([("team".to_owned(), "one".to_owned())].into_iter().collect()),
        network: Some(Network { mode: Some("allowlist".into()), allow: Some(vec!["example.org".into()]) }),
        ports: Some(vec![3000, 8080]),
        resources: Some(Resources {
            memory_mb: Some(256),
            pids: Some(100),
            disk_mb: Some(128),
            ..Resources::default()
        }),
        ..CreateSandbox::default()
    };
    let original = daemon.client.create_or_reconnect(&original).await.unwrap().sandbox_id;
    let fork = ForkSandbox { session_keys: vec!["chat:2".into()] };
    let fork = daemon.client.fork(&original, &fork).await.unwrap().sandboxes.remove(0).sandbox_id;
    let configuration = async |id| {
        let sandbox = daemon.client.get(id).await.unwrap();
        let posture = sandbox.posture.unwrap();
        let limits =
            (posture.memory_bytes, posture.pids_limit, daemon.output(id, "df --output=size .").await);
        (
            (sandbox.resources, sandbox.network, sandbox.ports, sandbox.image),
            (sandbox.metadata, sandbox.checkpoints, sandbox.idle_ttl_ms, limits),
        )
    };
    let of_original = configuration(&original).await;
    assert_eq!(of_original.0.0.memory_mb, Some(256));
    assert_eq!(configuration(&fork).await, of_original);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_that_fails_in_between_deletes_what_it_has_created() {
    let proxy = EngineProxy::start();
    let home = Home::new().set("SANDBOXD_DOCKER_SOCKET", &proxy.socket().to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    let original = daemon.sandbox("chat:1").await;
    let objects = objects_of(&daemon.home).await;
    let count = || async { daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes.len() };
    let session_keys: Vec<String> = (0..40).map(|number| format!("chat:fork{number}")).collect();
    let (client, id) = (daemon.client.clone(), original.clone());
    let fork = ForkSandbox { session_keys: session_keys.clone() };
    let forking = tokio::spawn(async move { client.fork(&id, &fork).await });
    until("some are created", || async { count().await > 3 }).await;
    proxy.set("containers/create", Fault::Fail);
    forking.await.unwrap().unwrap_err();
    // The answer to a failed create does not wait long for the removal of what it left.
    // The engine may wait 30 seconds for a plugin that another test has removed.
    until_within(2 * SOON, "only the original is listed", || async { count().await == 1 }).await;
    proxy.clear_faults();
    until("nothing of them is left", || async { objects_of(&daemon.home).await == objects }).await;
    let again = ForkSandbox { session_keys: session_keys[..3].to_vec() };
    assert_eq!(daemon.client.fork(&original, &again).await.unwrap().sandboxes.len(), 3);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_during_which_the_daemon_is_killed_leaves_nothing() {
    // Otherwise the daemon parks the original to make room for its forks.
    let home = Home::new().set("SANDBOXD_MAX_CONCURRENT", "50");
    let daemon = DaemonProcess::start(&home, free_port()).await;
    let create = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let original = daemon.client.create_or_reconnect(&create).await.unwrap().sandbox_id;
    let objects = objects_of(&home).await;
    let listed = async |client: &Client| client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    let forking = tokio::spawn({
        let (client, original) = (daemon.client.clone(), original.clone());
        let fork = ForkSandbox { session_keys: (0..40).map(|number| format!("chat:fork{number}")).collect() };
        async move { client.fork(&original, &fork).await }
    });
    let is_running = |sandbox: &Sandbox| sandbox.state == SandboxState::Running;
    until("some are created", || async {
        listed(&daemon.client).await.iter().filter(|sandbox| is_running(sandbox)).count() > 3
    })
    .await;
    daemon.kill().await;
    forking.await.unwrap().unwrap_err();

    let daemon = DaemonProcess::start(&home, free_port()).await;
    let left: Vec<_> = listed(&daemon.client).await.into_iter().map(|sandbox| sandbox.sandbox_id).collect();
    assert_eq!(left, std::slice::from_ref(&original));
    until("nothing of them is left", || async { objects_of(&home).await == objects }).await;
    // Those of a fork that was answered stay.
    let again = ForkSandbox { session_keys: vec!["chat:fork0".into(), "chat:fork1".into()] };
    daemon.client.fork(&original, &again).await.unwrap();
    daemon.kill().await;
    let daemon = DaemonProcess::start(&home, free_port()).await;
    assert_eq!(listed(&daemon.client).await.len(), 3);
    daemon.kill().await;
}
