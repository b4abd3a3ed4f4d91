//! A container that is killed while its files are stored, restored or created.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use bollard::query_parameters::KillContainerOptions;
use sandbox_api::SandboxId;
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes, WorkspaceSource};
use sandbox_api::snapshot::{MakeSnapshot, RestoreSnapshot};
use sandboxd::model::layout::container_name;

use super::{fingerprint, snapshot};
use crate::support::harness::{Daemon, Home, docker, until};
use crate::support::host_view::HostView;

/// Enough that every step takes a while.
const FILL: &str = "mkdir many; for i in $(seq 500); do head -c 1000 /dev/urandom > many/$i; done
for i in 1 2 3 4 5; do head -c 60000000 /dev/urandom > large$i; done";

async fn kill(sandbox: &SandboxId) {
    let options = KillContainerOptions { signal: "SIGKILL".into() };
    docker().await.kill_container(&container_name(sandbox), Some(options)).await.unwrap();
}

async fn filled(daemon: &Daemon) -> SandboxId {
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, FILL).await;
    sandbox
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_is_killed_during_a_snapshot_leaves_no_snapshot() {
    let daemon = Daemon::start().await;
    let sandbox = filled(&daemon).await;
    let before = fingerprint(&daemon, &sandbox).await;
    let (client, id) = (daemon.client.clone(), sandbox.clone());
    let making = tokio::spawn(async move { client.make_snapshot(&id, &MakeSnapshot::default()).await });
    let packs = daemon.home.path().join("state/snapshots/packs");
    until("chunks are stored", || async { std::fs::read_dir(&packs).is_ok_and(|dir| dir.count() > 0) }).await;
    kill(&sandbox).await;
    making.await.unwrap().unwrap_err();
    assert_eq!(daemon.client.all_snapshots(None).await.unwrap().snapshots, []);
    assert_eq!(fingerprint(&daemon, &sandbox).await, before);
    let made = snapshot(&daemon, &sandbox).await.snapshot;
    daemon.output(&sandbox, "rm -r many large1").await;
    let restore = RestoreSnapshot { snapshot_id: made.snapshot_id, force: None };
    daemon.client.restore_snapshot(&sandbox, &restore).await.unwrap();
    assert_eq!(fingerprint(&daemon, &sandbox).await, before);
    daemon.stop().await;
}

/// The agent lets itself read directories whose mode does not let their owner. A dead agent cannot put the mode back.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_agent_puts_modes_back_that_a_killed_one_has_changed() {
    const CLOSE: &str = "mkdir -p closed/inner
for i in 1 2 3 4 5 6; do head -c 60000000 /dev/urandom > closed/inner/large$i; done
chmod 200 closed/inner; chmod 010 closed";
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, CLOSE).await;
    let workspace = format!("/proc/{}/root/vercel/sandbox/workspace", HostView::of(&sandbox).await.pid());
    let mode = |path: &str| {
        let found = std::fs::metadata(PathBuf::from(&workspace).join(path)).unwrap();
        found.permissions().mode() & 0o7777
    };
    assert_eq!((mode("closed"), mode("closed/inner")), (0o010, 0o200));
    let (client, id) = (daemon.client.clone(), sandbox.clone());
    let making = tokio::spawn(async move { client.make_snapshot(&id, &MakeSnapshot::default()).await });
    until("the agent reads the inner directory", || async { mode("closed/inner") == 0o700 }).await;
    assert_eq!(mode("closed"), 0o510);
    kill(&sandbox).await;
    making.await.unwrap().unwrap_err();
    let look = "stat -c %a closed; chmod 700 closed; stat -c %a closed/inner; chmod 700 closed/inner
wc -c closed/inner/large6 | cut -d ' ' -f 1; ls -A /vercel/sandbox/.staging | sed /stat-cache/d";
    assert_eq!(daemon.output(&sandbox, look).await, "10\n200\n60000000\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_during_which_the_container_is_killed_is_finished_or_undone() {
    let daemon = Daemon::start().await;
    let sandbox = filled(&daemon).await;
    let before = fingerprint(&daemon, &sandbox).await;
    let made = snapshot(&daemon, &sandbox).await.snapshot;
    daemon.output(&sandbox, "rm -r many large*; echo new > new").await;
    let changed = fingerprint(&daemon, &sandbox).await;
    let (client, id) = (daemon.client.clone(), sandbox.clone());
    let restore = RestoreSnapshot { snapshot_id: made.snapshot_id, force: None };
    let restoring = tokio::spawn(async move { client.restore_snapshot(&id, &restore).await });
    let root = PathBuf::from(format!("/proc/{}/root/vercel/sandbox", HostView::of(&sandbox).await.pid()));
    until("files come back", || async { root.join("workspace/many").exists() }).await;
    kill(&sandbox).await;
    let restored = restoring.await.unwrap();
    let after = fingerprint(&daemon, &sandbox).await;
    assert!(after == before || after == changed, "neither finished nor undone");
    assert!(restored.is_err() || after == before, "not restored, but reported as such");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_sandbox_whose_container_is_killed_has_all_files_or_does_not_exist() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_BASES_MB", "0")).await;
    let original = filled(&daemon).await;
    let before = fingerprint(&daemon, &original).await;
    let snapshot_id = snapshot(&daemon, &original).await.snapshot.snapshot_id;
    let workspace = Some(WorkspaceSource::snapshot(snapshot_id));
    let create = CreateSandbox { session_key: "chat:2".into(), workspace, ..CreateSandbox::default() };
    let (client, request) = (daemon.client.clone(), create.clone());
    let creating = tokio::spawn(async move { client.create_or_reconnect(&request).await });
    let new = async || {
        let listed = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
        listed.into_iter().map(|found| found.sandbox_id).find(|id| *id != original)
    };
    let runs = async || {
        let Some(id) = new().await else { return false };
        let container = docker().await.inspect_container(&container_name(&id), None).await;
        container.is_ok_and(|container| container.state.is_some_and(|state| state.running == Some(true)))
    };
    until("the container runs", runs).await;
    if let Some(id) = new().await {
        kill(&id).await;
    }
    let created = creating.await.unwrap();
    if created.is_err() {
        until("the sandbox is deleted", || async { new().await.is_none() }).await;
    }
    let again = daemon.client.create_or_reconnect(&create).await.unwrap();
    assert_eq!(again.created, created.is_err());
    assert_eq!(fingerprint(&daemon, &again.sandbox_id).await, before);
    daemon.stop().await;
}
