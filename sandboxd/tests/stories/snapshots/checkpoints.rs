//! Snapshots that are made automatically.

use sandbox_api::command::StartCommand;
use sandbox_api::sandbox::{Checkpoints, CreateSandbox};
use sandbox_api::snapshot::{MakeSnapshot, RestoreSnapshot, Snapshot};
use sandbox_api::{ErrorCode, SandboxId, SnapshotId};

use super::snapshot;
use crate::support::files::{file, write};
use crate::support::harness::{Daemon, Home, outcome, script, until};

const AFTER_COMMAND: Checkpoints = Checkpoints { after_command: Some(true), every_ms: None, keep: None };

async fn sandbox(daemon: &Daemon, checkpoints: Checkpoints) -> SandboxId {
    let request = CreateSandbox {
        session_key: "chat:1".into(),
        checkpoints: Some(checkpoints),
        ..CreateSandbox::default()
    };
    daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id
}

/// Runs a command. Returns the id of the checkpoint after it.
async fn run(daemon: &Daemon, sandbox: &SandboxId, text: &str) -> Option<SnapshotId> {
    let ran = outcome(daemon.client.run(sandbox, &script(text)).await.unwrap()).await;
    assert_eq!(ran.exit_code, 0, "{text}");
    ran.checkpoint_id
}

/// Runs a command and waits for the checkpoint after it.
async fn checkpoint(daemon: &Daemon, sandbox: &SandboxId, text: &str) -> Snapshot {
    let id = run(daemon, sandbox, text).await.expect("its end names a checkpoint");
    until("the checkpoint is made", || async { daemon.client.snapshot(&id).await.is_ok() }).await;
    daemon.client.snapshot(&id).await.unwrap()
}

async fn automatic(daemon: &Daemon, sandbox: &SandboxId) -> Vec<SnapshotId> {
    let listed = daemon.client.snapshots(sandbox, None).await.unwrap().snapshots;
    listed.into_iter().filter(|made| made.automatic).map(|made| made.snapshot_id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_command_can_be_undone() {
    let daemon = Daemon::start().await;
    let id = sandbox(&daemon, AFTER_COMMAND).await;
    let first = checkpoint(&daemon, &id, "echo first > file").await;
    assert!(first.automatic && first.command_id.is_some() && first.expires_at.is_some());
    let second = checkpoint(&daemon, &id, "echo second > file; touch other").await;
    assert_ne!(first.snapshot_id, second.snapshot_id);
    run(&daemon, &id, "rm *").await.unwrap();

    // A restore waits for a checkpoint that is being made.
    for (made, expected) in [(&second, "second\nfile\nother\n"), (&first, "first\nfile\n")] {
        let restore = RestoreSnapshot { snapshot_id: made.snapshot_id.clone(), force: None };
        daemon.client.restore_snapshot(&id, &restore).await.unwrap();
        assert_eq!(daemon.output(&id, "cat file; ls").await, expected);
    }
    daemon.stop().await;
}

/// Another task records the end of a command that runs longer than 5 s.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_command_names_its_checkpoint() {
    let daemon = Daemon::start().await;
    let id = sandbox(&daemon, Checkpoints { every_ms: Some(3_600_000), ..AFTER_COMMAND }).await;
    let first = run(&daemon, &id, "echo 1 > file").await.unwrap();
    for number in 2..4 {
        let named =
            run(&daemon, &id, &format!("sleep 5.5; echo {number} > file")).await.expect("it is named");
        assert_ne!(named, first);
        assert_eq!(daemon.client.get(&id).await.unwrap().checkpoint_id.as_ref(), Some(&named));
        until("it is made", || async { daemon.client.snapshot(&named).await.is_ok() }).await;
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_does_not_change_an_earlier_checkpoint() {
    let daemon = Daemon::start().await;
    let id = sandbox(&daemon, AFTER_COMMAND).await;
    let first = checkpoint(&daemon, &id, "echo first > file").await.snapshot_id;
    let second = run(&daemon, &id, "echo second > file").await.unwrap();
    for (snapshot_id, expected) in [(&first, "first\n"), (&second, "second\n")] {
        let restore = RestoreSnapshot { snapshot_id: snapshot_id.clone(), force: None };
        daemon.client.restore_snapshot(&id, &restore).await.unwrap();
        assert_eq!(daemon.client.get(&id).await.unwrap().checkpoint_id.as_ref(), Some(snapshot_id));
        let reads = StartCommand { read_only: Some(true), ..script("cat file") };
        assert_eq!(outcome(daemon.client.run(&id, &reads).await.unwrap()).await.text(), expected);
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_checkpoints_make_room_and_other_snapshots_stay() {
    let daemon = Daemon::start().await;
    let id = sandbox(&daemon, Checkpoints { keep: Some(2), ..AFTER_COMMAND }).await;
    let mut made = Vec::new();
    for number in 0..2 {
        made.push(checkpoint(&daemon, &id, &format!("echo {number} > file")).await.snapshot_id);
    }
    let named = snapshot(&daemon, &id).await.snapshot;
    assert!(!named.automatic && named.command_id.is_none());
    for number in 2..5 {
        made.push(checkpoint(&daemon, &id, &format!("echo {number} > file")).await.snapshot_id);
    }
    made.reverse();
    until("only the newest are left", || async { automatic(&daemon, &id).await == made[..2] }).await;
    daemon.client.snapshot(&named.snapshot_id).await.unwrap();
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_no_files_leads_to_no_checkpoint() {
    let daemon = Daemon::start().await;
    let id = sandbox(&daemon, AFTER_COMMAND).await;
    let reads = StartCommand { read_only: Some(true), ..script("ls") };
    let ran = outcome(daemon.client.run(&id, &reads).await.unwrap()).await;
    assert_eq!(ran.checkpoint_id, None);
    daemon.client.read_file(&id, "absent").await.unwrap();
    assert_eq!(daemon.client.get(&id).await.unwrap().checkpoint_id, None);

    write(&daemon, &id, [file("file", "text")]).await.unwrap();
    let next = daemon.client.get(&id).await.unwrap().checkpoint_id.expect("a file was written");
    until("it is made", || async { daemon.client.snapshot(&next).await.is_ok() }).await;
    assert_eq!(automatic(&daemon, &id).await, [next]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_in_close_succession_share_a_checkpoint() {
    let daemon = Daemon::start().await;
    let id = sandbox(&daemon, AFTER_COMMAND).await;
    let mut ids = Vec::new();
    for number in 0..20 {
        ids.push(run(&daemon, &id, &format!("echo {number} > file")).await.unwrap());
    }
    let last = ids.last().unwrap();
    until("the last one is made", || async { daemon.client.snapshot(last).await.is_ok() }).await;
    ids.dedup();
    let mut made = automatic(&daemon, &id).await;
    made.reverse();
    assert_eq!(made, ids);
    // A request is not rejected because an automatic snapshot is being made.
    let next = run(&daemon, &id, "head -c 100000000 /dev/urandom > large").await.unwrap();
    while daemon.client.snapshot(&next).await.is_err() {
        daemon.client.make_snapshot(&id, &MakeSnapshot::default()).await.unwrap();
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_at_intervals_are_made_if_something_ran() {
    let daemon = Daemon::start().await;
    let every = Checkpoints { after_command: None, every_ms: Some(10_000), keep: None };
    let id = sandbox(&daemon, every).await;
    assert_eq!(run(&daemon, &id, "echo 1 > file").await, None, "its time is unknown");
    until("the first is made", || async { automatic(&daemon, &id).await.len() == 1 }).await;
    // A command that does not end counts as well.
    daemon.client.start(&id, &script("sleep 300")).await.unwrap();
    until("the second is made", || async { automatic(&daemon, &id).await.len() == 2 }).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_can_be_set_later_and_outlive_the_daemon() {
    let daemon = Daemon::start_in(Home::new()).await;
    let id = daemon.sandbox("chat:1").await;
    assert_eq!(run(&daemon, &id, "echo 1 > file").await, None);
    assert_eq!(daemon.client.get(&id).await.unwrap().checkpoints, None);
    assert_eq!(sandbox(&daemon, Checkpoints { keep: Some(7), ..AFTER_COMMAND }).await, id);
    checkpoint(&daemon, &id, "echo 2 > file").await;
    let daemon = Daemon::start_in(daemon.stop().await).await;
    let set = daemon.client.get(&id).await.unwrap().checkpoints.unwrap();
    assert_eq!((set.after_command, set.every_ms, set.keep), (Some(true), None, Some(7)));
    checkpoint(&daemon, &id, "echo 3 > file").await;

    sandbox(&daemon, Checkpoints::default()).await;
    assert_eq!(daemon.client.get(&id).await.unwrap().checkpoints, None);
    assert_eq!(run(&daemon, &id, "echo 4 > file").await, None);
    let often = CreateSandbox {
        session_key: "chat:2".into(),
        checkpoints: Some(Checkpoints { every_ms: Some(1), ..Checkpoints::default() }),
        ..CreateSandbox::default()
    };
    let rejected = daemon.client.create_or_reconnect(&often).await.unwrap_err();
    assert_eq!(rejected.code(), Some(ErrorCode::InvalidRequest));
    assert!(rejected.to_string().contains("checkpoints.everyMs"), "{rejected}");
    daemon.stop().await;
}

/// Nothing of a checkpoint delays these, and none of them is undone.
#[tokio::test(flavor = "multi_thread")]
async fn a_park_and_a_delete_do_not_wait_for_a_checkpoint() {
    let daemon = Daemon::start().await;
    let id = sandbox(&daemon, AFTER_COMMAND).await;
    run(&daemon, &id, "head -c 50000000 /dev/urandom > file").await.unwrap();
    daemon.client.park(&id, false).await.unwrap();
    checkpoint(&daemon, &id, "echo awake > other").await;
    run(&daemon, &id, "head -c 50000000 /dev/urandom > file").await.unwrap();
    daemon.client.delete(&id).await.unwrap();
    let gone = daemon.client.get(&id).await.unwrap_err();
    assert_eq!(gone.code(), Some(ErrorCode::NotFound));
    daemon.stop().await;
}
