//! The files of parked sandboxes are in the remote store, or that is visibly still to be done.

use std::time::{Duration, Instant};

use bollard::query_parameters::RemoveContainerOptions;
use http::StatusCode;
use sandbox_api::SandboxId;
use sandbox_api::sandbox::{CreateSandbox, SandboxState, WorkspaceSource};
use sandbox_api::snapshot::Snapshot;
use sandboxd::model::layout::container_name;
use test_s3::{Fault, Proxy, S3, key};

use super::remote::home_at;
use crate::support::harness::{Daemon, Home, docker, script, until, until_within};
use crate::support::http::HttpClient;

/// Time in which the daemon uses a store again after an outage: a request that hangs ends after a minute, and the next attempt
/// is up to 40 seconds later.
const AFTER_PAUSE: Duration = Duration::from_secs(150);

async fn snapshots(daemon: &Daemon, sandbox: &SandboxId) -> Vec<Snapshot> {
    daemon.client.snapshots(sandbox, None).await.unwrap().snapshots
}

/// Whether the sandbox is parked, and whether its last files are still to be sent to the store.
async fn parked(daemon: &Daemon, sandbox: &SandboxId) -> (bool, bool) {
    let found = daemon.client.get(sandbox).await.unwrap();
    (found.state == SandboxState::Parked, found.checkpoint_pending)
}

/// The sandbox is parked soon, and the store has its last files.
async fn until_stored(daemon: &Daemon, sandbox: &SandboxId) {
    until_within(AFTER_PAUSE, "the store has the files of the parked sandbox", async || {
        parked(daemon, sandbox).await == (true, false) && !snapshots(daemon, sandbox).await.is_empty()
    })
    .await;
}

/// A new sandbox with the files of a snapshot.
async fn copy_of(daemon: &Daemon, session_key: &str, snapshot: &Snapshot) -> SandboxId {
    let workspace = Some(WorkspaceSource::snapshot(snapshot.snapshot_id.clone()));
    let create = CreateSandbox { session_key: session_key.into(), workspace, ..CreateSandbox::default() };
    daemon.client.create_or_reconnect(&create).await.unwrap().sandbox_id
}

/// What a new sandbox with the files of a snapshot has in `file`.
async fn file_of(daemon: &Daemon, session_key: &str, snapshot: &Snapshot) -> String {
    let copy = copy_of(daemon, session_key, snapshot).await;
    daemon.output(&copy, "cat file").await
}

async fn metrics(daemon: &Daemon) -> Vec<String> {
    let text = HttpClient::of(daemon).get("/metrics").await.body;
    String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_park_sends_the_files_to_a_remote_store_if_they_have_changed() {
    let Some(server) = S3::start().await else { return };
    let daemon = Daemon::start_in(home_at(Home::new(), &server.endpoint, &key(1))).await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo one > file").await;
    daemon.client.park(&sandbox, false).await.unwrap();
    assert_eq!(parked(&daemon, &sandbox).await, (true, false));
    let first = snapshots(&daemon, &sandbox).await;
    assert!(first.len() == 1 && first[0].automatic, "{first:?}");

    // A command that changes nothing.
    daemon.output(&sandbox, "cat file").await;
    daemon.client.park(&sandbox, false).await.unwrap();
    until_stored(&daemon, &sandbox).await;
    assert_eq!(snapshots(&daemon, &sandbox).await, first);

    // What still runs is stopped while its files are read: `b` is never ahead of `a`, nor more than one step behind.
    let writer =
        "for ((i = 1; ; i++)); do echo $i > a.new; mv a.new a; echo $i > b.new; mv b.new b; cp b file; done";
    daemon.client.start(&sandbox, &script(writer)).await.unwrap();
    until("files change", async || daemon.output(&sandbox, "cat file").await != "one\n").await;
    daemon.client.park(&sandbox, true).await.unwrap();
    assert_eq!(parked(&daemon, &sandbox).await, (true, false));
    let second = snapshots(&daemon, &sandbox).await;
    assert_eq!(second.len(), 2, "{second:?}");
    let copy = copy_of(&daemon, "chat:2", &second[0]).await;
    let steps = daemon.output(&copy, "echo $(($(cat a) - $(cat b)))").await;
    assert!(["0\n", "1\n"].contains(&steps.as_str()), "{steps}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_sandbox_has_its_snapshot_before_it_is_parked() {
    let Some(server) = S3::start().await else { return };
    let daemon = Daemon::start_in(home_at(Home::new(), &server.endpoint, &key(1))).await;
    let create =
        CreateSandbox { session_key: "chat:1".into(), idle_ttl_ms: Some(10_000), ..CreateSandbox::default() };
    let sandbox = daemon.client.create_or_reconnect(&create).await.unwrap().sandbox_id;
    daemon.output(&sandbox, "echo kept > file").await;
    until("the sandbox is parked", async || parked(&daemon, &sandbox).await.0).await;
    assert_eq!(parked(&daemon, &sandbox).await, (true, false));
    let made = snapshots(&daemon, &sandbox).await;
    assert_eq!(made.len(), 1, "{made:?}");
    let metrics = metrics(&daemon).await;
    assert!(metrics.contains(&"sandboxd_checkpoint_failures_total 0".into()), "{metrics:?}");
    assert_eq!(file_of(&daemon, "chat:2", &made[0]).await, "kept\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unavailable_store_does_not_prevent_a_park_and_gets_the_files_later() {
    let Some(server) = S3::start().await else { return };
    let proxy = Proxy::start(&server.endpoint).await;
    let daemon = Daemon::start_in(home_at(Home::new(), &proxy.endpoint, &key(1))).await;
    let (first, second) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    daemon.output(&second, "echo less > file").await;
    // It is not asked again at once.
    for (sandbox, fault) in [(&first, Fault::Hang), (&second, Fault::Status(StatusCode::SERVICE_UNAVAILABLE))]
    {
        daemon.output(sandbox, "echo kept > file").await;
        proxy.mend();
        proxy.fail_all(fault);
        let began = Instant::now();
        daemon.client.park(sandbox, false).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(20), "{fault:?}: {:?}", began.elapsed());
        assert_eq!(parked(&daemon, sandbox).await, (true, true));
        assert_eq!(snapshots(&daemon, sandbox).await, []);
    }
    let metrics = metrics(&daemon).await;
    assert!(metrics.contains(&"sandboxd_checkpoints_pending 2".into()), "{metrics:?}");

    // It survives a restart of the daemon.
    let daemon = Daemon::start_in(daemon.stop().await).await;
    assert_eq!(parked(&daemon, &first).await, (true, true));
    let since = daemon.client.get(&first).await.unwrap();
    // One is used before the store is back.
    daemon.output(&second, "echo more > file").await;
    assert_eq!(parked(&daemon, &second).await, (false, false));

    proxy.mend();
    until_stored(&daemon, &first).await;
    let now = daemon.client.get(&first).await.unwrap();
    assert_eq!(now.last_active_at, since.last_active_at, "this is not a use");
    daemon.client.park(&second, false).await.unwrap();
    until_stored(&daemon, &second).await;
    for (sandbox, session_key, content) in [(&first, "chat:3", "kept\n"), (&second, "chat:4", "more\n")] {
        let made = snapshots(&daemon, sandbox).await;
        assert_eq!(made.len(), 1, "{made:?}");
        assert_eq!(file_of(&daemon, session_key, &made[0]).await, content);
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_hangs_does_not_keep_a_sandbox_waiting_for_room() {
    let Some(server) = S3::start().await else { return };
    let proxy = Proxy::start(&server.endpoint).await;
    let home = home_at(Home::new(), &proxy.endpoint, &key(1)).set("SANDBOXD_MAX_CONCURRENT", "1");
    let daemon = Daemon::start_in(home).await;
    let first = daemon.sandbox("chat:1").await;
    daemon.output(&first, "echo kept > file").await;
    proxy.fail_all(Fault::Hang);
    let second = daemon.sandbox("chat:2").await;
    assert_eq!(parked(&daemon, &first).await, (true, true));
    proxy.mend();
    daemon.client.delete(&second).await.unwrap();
    until_stored(&daemon, &first).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_whose_container_ended_without_a_park_gets_its_snapshot() {
    let Some(server) = S3::start().await else { return };
    let daemon = Daemon::start_in(home_at(Home::new(), &server.endpoint, &key(1))).await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo kept > file; sync").await;
    let home = daemon.stop().await;
    let options = RemoveContainerOptions { force: true, ..Default::default() };
    docker().await.remove_container(&container_name(&sandbox), Some(options)).await.unwrap();
    let daemon = Daemon::start_in(home).await;
    until_stored(&daemon, &sandbox).await;
    let made = snapshots(&daemon, &sandbox).await;
    assert_eq!(file_of(&daemon, "chat:2", &made[0]).await, "kept\n");
    daemon.stop().await;
}
