//! Snapshots and restores of a sandbox whose last snapshot is damaged.

use std::path::PathBuf;

use sandbox_api::snapshot::{MakeSnapshot, RestoreSnapshot, SnapshotState};
use sandbox_api::{ErrorCode, SandboxId, SnapshotId};
use sandbox_client::Error;

use super::{damage, fingerprint, packs_of, program, snapshot};
use crate::support::harness::Daemon;

/// A directory whose list of entries is the largest part of a snapshot.
const MANY: &str =
    "mkdir -p many && cd many && head -c 60000 /dev/urandom | od -An -vtx1 -w20 | tr -d ' ' | xargs touch";

/// Damages the packs that are not among these. The daemon has nothing of them in memory.
async fn damage_new(daemon: Daemon, old: &[PathBuf]) -> Daemon {
    let home = daemon.stop().await;
    packs_of(&home).iter().filter(|pack| !old.contains(pack)).for_each(|pack| damage(pack));
    Daemon::start_in(home).await
}

async fn restore(daemon: &Daemon, sandbox: &SandboxId, snapshot_id: &SnapshotId) -> Result<(), Error> {
    let request = RestoreSnapshot { snapshot_id: snapshot_id.clone(), force: None };
    daemon.client.restore_snapshot(sandbox, &request).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_snapshot_is_made_without_a_damaged_one() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, MANY).await;
    let first = snapshot(&daemon, &sandbox).await.snapshot;
    let daemon = damage_new(daemon, &[]).await;

    daemon.output(&sandbox, "rm -r many; mkdir many; touch many/other").await;
    let second = snapshot(&daemon, &sandbox).await.snapshot;
    assert_eq!((&second.parent_id, second.state), (&None, SnapshotState::Complete));
    let first = daemon.client.snapshot(&first.snapshot_id).await.unwrap();
    assert_eq!(first.state, SnapshotState::Damaged);
    let third = snapshot(&daemon, &sandbox).await.snapshot;
    assert_eq!(third.parent_id, Some(second.snapshot_id));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_present_files_need_of_a_damaged_one_is_stored_again_after_a_check() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "mkdir many; touch many/other").await;
    let target = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    let intact = packs_of(&daemon.home);
    daemon.output(&sandbox, MANY).await;
    let last = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    let before = fingerprint(&daemon, &sandbox).await;
    let daemon = damage_new(daemon, &intact).await;

    let restored = restore(&daemon, &sandbox, &target).await;
    let made = daemon.client.make_snapshot(&sandbox, &MakeSnapshot::default()).await;
    for rejected in [restored.unwrap_err(), made.unwrap_err()] {
        let message = rejected.to_string();
        assert_eq!(rejected.code(), Some(ErrorCode::Refused), "{message}");
        assert!(message.contains("the last snapshot of the sandbox, snap_"), "{message}");
        assert!(message.contains("run `sandboxd fsck`"), "{message}");
    }
    assert_eq!(fingerprint(&daemon, &sandbox).await, before);

    assert_eq!(program(&daemon, &["fsck"]).await.0, Some(1));
    restore(&daemon, &sandbox, &target).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "ls many").await, "other\n");
    restore(&daemon, &sandbox, &last).await.unwrap();
    assert_eq!(fingerprint(&daemon, &sandbox).await, before, "the restore had stored again what was lost");
    daemon.stop().await;
}
