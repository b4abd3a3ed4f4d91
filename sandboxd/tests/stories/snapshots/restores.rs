//! Restores in place.

use sandbox_api::ErrorCode;
use sandbox_api::command::StartCommand;
use sandbox_api::sandbox::{CreateSandbox, Resources};
use sandbox_api::snapshot::RestoreSnapshot;

use super::{fingerprint, snapshot};
use crate::support::harness::{Daemon, script, until};
use crate::support::screens::{Viewer, shell};

#[tokio::test(flavor = "multi_thread")]
async fn a_running_command_prevents_a_restore_unless_it_is_forced() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo old > a").await;
    let snapshot_id = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    daemon.output(&sandbox, "echo new > a").await;
    let sleep = StartCommand { detached: Some(true), ..script("sleep 600") };
    let command = daemon.client.start(&sandbox, &sleep).await.unwrap().command_id;
    let restore = |force| RestoreSnapshot { snapshot_id: snapshot_id.clone(), force };
    let rejected = daemon.client.restore_snapshot(&sandbox, &restore(None)).await.unwrap_err();
    assert_eq!(rejected.code(), Some(ErrorCode::WrongState), "{rejected}");
    assert_eq!(daemon.output(&sandbox, "cat a").await, "new\n");
    daemon.client.restore_snapshot(&sandbox, &restore(Some(true))).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "cat a").await, "old\n");
    daemon.client.wait(&sandbox, &command, None).await.unwrap();
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_on_a_terminal_prevents_a_restore_unless_it_is_forced() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo old > a").await;
    let snapshot_id = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    daemon.output(&sandbox, "echo new > a").await;
    let terminal = shell(&daemon, &sandbox).await;
    let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    viewer.type_in("echo $((6 * 7)); sleep 600\r").await;
    viewer.until_seen("\r42\r\n").await;
    until("the program sleeps", || async { daemon.run(&sandbox, "pgrep -x sleep").await.exit_code == 0 })
        .await;
    let restore = |force| RestoreSnapshot { snapshot_id: snapshot_id.clone(), force };
    let rejected = daemon.client.restore_snapshot(&sandbox, &restore(None)).await.unwrap_err();
    assert_eq!(rejected.code(), Some(ErrorCode::WrongState), "{rejected}");
    assert_eq!(daemon.output(&sandbox, "cat a").await, "new\n");
    daemon.client.restore_snapshot(&sandbox, &restore(Some(true))).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "cat a; pgrep -c sleep || true").await, "old\n0\n");
    daemon.stop().await;
}

/// A shell that only waits for input has nothing to lose.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_shell_on_a_terminal_does_not_prevent_a_restore() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo old > a").await;
    let snapshot_id = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    daemon.output(&sandbox, "echo new > a").await;
    let terminal = shell(&daemon, &sandbox).await;
    let mut viewer = Viewer::attach(&daemon.client, &sandbox, &terminal).await;
    viewer.type_in("cat a\r").await;
    viewer.until_seen("\rnew\r\n").await;
    let restore = RestoreSnapshot { snapshot_id, force: None };
    until("the shell waits for input", || async {
        daemon.client.restore_snapshot(&sandbox, &restore).await.is_ok()
    })
    .await;
    assert_eq!(daemon.output(&sandbox, "cat a").await, "old\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_does_not_fit_changes_nothing() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "head -c 80000000 /dev/urandom > large").await;
    let snapshot_id = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    let small = CreateSandbox {
        session_key: "chat:2".into(),
        resources: Some(Resources { disk_mb: Some(64), ..Resources::default() }),
        ..CreateSandbox::default()
    };
    let small = daemon.client.create_or_reconnect(&small).await.unwrap().sandbox_id;
    daemon.output(&small, "echo mine > a").await;
    let before = fingerprint(&daemon, &small).await;
    let restore = RestoreSnapshot { snapshot_id, force: None };
    let rejected = daemon.client.restore_snapshot(&small, &restore).await.unwrap_err();
    assert_eq!(rejected.code(), Some(ErrorCode::InsufficientStorage), "{rejected}");
    assert_eq!(fingerprint(&daemon, &small).await, before);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_does_not_exist_is_not_restored() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let snapshot_id = sandbox_api::SnapshotId::random().unwrap();
    let restore = RestoreSnapshot { snapshot_id, force: Some(true) };
    let rejected = daemon.client.restore_snapshot(&sandbox, &restore).await.unwrap_err();
    assert_eq!(rejected.code(), Some(ErrorCode::NotFound));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_without_any_space_left_has_a_snapshot_and_is_restored() {
    let daemon = Daemon::start().await;
    let small = CreateSandbox {
        session_key: "chat:1".into(),
        resources: Some(Resources { disk_mb: Some(64), ..Resources::default() }),
        ..CreateSandbox::default()
    };
    let sandbox = daemon.client.create_or_reconnect(&small).await.unwrap().sandbox_id;
    daemon.output(&sandbox, "echo old > a; mkdir d; echo 1 > d/1").await;
    let before = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    daemon.output(&sandbox, "rm -r d; cat /dev/zero > zeros 2> /dev/null || true").await;
    let more = daemon.run(&sandbox, "head -c 1000000 /dev/zero > more").await;
    assert_eq!(more.exit_code, 1, "the disk is full");
    daemon.output(&sandbox, "rm -f more").await;
    let full = fingerprint(&daemon, &sandbox).await;
    let made = snapshot(&daemon, &sandbox).await.snapshot;

    // What the snapshot does not need is removed first, which makes room for the rest.
    let restore = |snapshot_id| RestoreSnapshot { snapshot_id, force: None };
    daemon.client.restore_snapshot(&sandbox, &restore(before)).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "cat a d/1; ls").await, "old\n1\na\nd\n");
    daemon.client.restore_snapshot(&sandbox, &restore(made.snapshot_id)).await.unwrap();
    assert_eq!(fingerprint(&daemon, &sandbox).await, full);
    daemon.stop().await;
}
