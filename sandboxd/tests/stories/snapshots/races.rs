//! Snapshots, restores and deletes that concern the same files at the same time.

use std::fmt::Debug;
use std::time::Duration;

use sandbox_api::sandbox::{CreateSandbox, WorkspaceSource};
use sandbox_api::snapshot::{MakeSnapshot, RestoreSnapshot};
use sandbox_api::{ErrorCode, SandboxId, SnapshotId};
use sandbox_client::Error;
use tokio::time::sleep;

use super::{fingerprint, program, snapshot};
use crate::support::harness::Daemon;

/// Rounds of each race. In each the second request is sent a little later.
const ROUNDS: u32 = 5;

const LATER: Duration = Duration::from_millis(15);

/// Enough that a snapshot or a restore takes longer than the rounds' delays.
const FILL: &str =
    "mkdir -p d; for i in $(seq 500); do echo $i > d/$i; done; head -c 8000000 /dev/urandom > random";

#[track_caller]
fn is_one_of<T: Debug>(answer: &Result<T, Error>, codes: &[ErrorCode]) {
    if let Err(error) = answer {
        assert!(error.code().is_some_and(|code| codes.contains(&code)), "{error:?}");
    }
}

/// The files of a new sandbox that begins with this snapshot.
async fn files_of(daemon: &Daemon, snapshot_id: &SnapshotId) -> String {
    let create = CreateSandbox {
        session_key: "chat:copy".into(),
        workspace: Some(WorkspaceSource::snapshot(snapshot_id.clone())),
        ..CreateSandbox::default()
    };
    let copy = daemon.client.create_or_reconnect(&create).await.unwrap();
    assert!(copy.created);
    let files = fingerprint(daemon, &copy.sandbox_id).await;
    daemon.client.delete(&copy.sandbox_id).await.unwrap();
    files
}

async fn restore(daemon: &Daemon, sandbox: &SandboxId, snapshot_id: &SnapshotId) -> Result<(), Error> {
    let restore = RestoreSnapshot { snapshot_id: snapshot_id.clone(), force: None };
    daemon.client.restore_snapshot(sandbox, &restore).await.map(drop)
}

async fn is_sound(daemon: &Daemon) {
    let (code, printed) = program(daemon, &["fsck"]).await;
    assert_eq!(code, Some(0), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_a_sandbox_that_is_deleted_is_whole_or_does_not_exist() {
    let daemon = Daemon::start().await;
    for round in 0..ROUNDS {
        let sandbox = daemon.sandbox("chat:1").await;
        daemon.output(&sandbox, FILL).await;
        let before = fingerprint(&daemon, &sandbox).await;
        let make = MakeSnapshot::default();
        let (made, deleted) = tokio::join!(daemon.client.make_snapshot(&sandbox, &make), async {
            sleep(LATER * round).await;
            daemon.client.delete(&sandbox).await
        });
        deleted.unwrap();
        is_one_of(&made, &[ErrorCode::NotFound, ErrorCode::WrongState, ErrorCode::Unavailable]);
        let listed = daemon.client.snapshots(&sandbox, None).await.unwrap().snapshots;
        match made {
            Ok(made) => assert_eq!(files_of(&daemon, &made.snapshot.snapshot_id).await, before),
            Err(_) => assert_eq!(listed, []),
        }
    }
    is_sound(&daemon).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_during_a_restore_has_the_files_from_before_or_after() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, FILL).await;
    let goal = fingerprint(&daemon, &sandbox).await;
    let target = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    for round in 0..ROUNDS {
        daemon
            .output(&sandbox, &format!("rm -r d; echo {round} > changed; truncate -s 5000000 random"))
            .await;
        let before = fingerprint(&daemon, &sandbox).await;
        let make = MakeSnapshot::default();
        let (made, restored) = tokio::join!(
            async {
                sleep(LATER * round).await;
                daemon.client.make_snapshot(&sandbox, &make).await
            },
            restore(&daemon, &sandbox, &target),
        );
        // One at a time, and the other one is rejected.
        is_one_of(&made, &[ErrorCode::CapacityExhausted]);
        is_one_of(&restored, &[ErrorCode::CapacityExhausted]);
        assert!(made.is_ok() || restored.is_ok());
        let files = fingerprint(&daemon, &sandbox).await;
        assert_eq!(files, if restored.is_ok() { &*goal } else { &*before });
        if let Ok(made) = made {
            let files = files_of(&daemon, &made.snapshot.snapshot_id).await;
            assert!(files == goal || files == before, "a mixture:\n{files}");
        }
    }
    is_sound(&daemon).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_is_deleted_during_its_restore_is_restored_or_changes_nothing() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    for round in 0..ROUNDS {
        daemon.output(&sandbox, FILL).await;
        let goal = fingerprint(&daemon, &sandbox).await;
        let target = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
        daemon.output(&sandbox, "rm -r d; echo changed > changed").await;
        let before = fingerprint(&daemon, &sandbox).await;
        let (restored, deleted) = tokio::join!(restore(&daemon, &sandbox, &target), async {
            sleep(LATER * round).await;
            daemon.client.delete_snapshot(&target).await
        });
        is_one_of(&restored, &[ErrorCode::NotFound]);
        is_one_of(&deleted, &[ErrorCode::WrongState]);
        let files = fingerprint(&daemon, &sandbox).await;
        assert_eq!(files, if restored.is_ok() { &*goal } else { &*before });
        let found = daemon.client.snapshot(&target).await;
        assert_eq!(found.is_err(), deleted.is_ok(), "{found:?}");
    }
    is_sound(&daemon).await;
    daemon.stop().await;
}
