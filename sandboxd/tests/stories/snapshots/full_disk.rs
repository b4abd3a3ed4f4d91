//! The disk of the stored snapshots is full.

use std::cell::Cell;
use std::path::Path;

use sandbox_api::snapshot::{CheckSnapshots, MakeSnapshot, RestoreSnapshot};
use sandbox_api::{ErrorCode, SandboxId};

use super::{fingerprint, packs_in, program, snapshot};
use crate::support::fault_injection::SmallDisk;
use crate::support::harness::{Daemon, Home, SOON, until, until_within};

/// Directories that are the same are one directory in a snapshot.
const FILL: &str = "head -c 8M /dev/urandom > kept; mkdir same; cd same; seq 50 | split -l 1; head -c 2M /dev/urandom > own; \
                    cd ..; cp -a same again; mkdir below; cp -a same below";

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_does_not_fit_on_the_disk_is_refused_and_loses_nothing() {
    let disk = SmallDisk::new("96m");
    let home = Home::new().set("SANDBOXD_STATE_DIR", &disk.path().to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, FILL).await;
    let kept = snapshot(&daemon, &sandbox).await.snapshot;
    let before = fingerprint(&daemon, &sandbox).await;

    daemon.output(&sandbox, "head -c 150M /dev/urandom > large").await;
    let refused = daemon.client.make_snapshot(&sandbox, &MakeSnapshot::default()).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::InsufficientStorage), "{refused:?}");
    let listed = daemon.client.snapshots(&sandbox, None).await.unwrap().snapshots;
    assert_eq!(listed.iter().map(|one| &one.snapshot_id).collect::<Vec<_>>(), [&kept.snapshot_id]);

    // What the refused one has stored is removed, so that there is room again.
    daemon.output(&sandbox, "rm large; head -c 40M /dev/urandom > medium").await;
    until("there is room for another snapshot", || async {
        daemon.client.make_snapshot(&sandbox, &MakeSnapshot::default()).await.is_ok()
    })
    .await;
    daemon.output(&sandbox, "rm -r *").await;
    let request = RestoreSnapshot { snapshot_id: kept.snapshot_id, force: None };
    daemon.client.restore_snapshot(&sandbox, &request).await.unwrap();
    assert_eq!(fingerprint(&daemon, &sandbox).await, before);
    assert_eq!(program(&daemon, &["fsck"]).await.0, Some(0));
    daemon.stop().await;
}

/// A snapshot that does not fit. Returns the number of packs that the disk has then.
async fn fill(daemon: &Daemon, sandbox: &SandboxId, state: &Path) -> usize {
    let refused = daemon.client.make_snapshot(sandbox, &MakeSnapshot::default()).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::InsufficientStorage), "{refused:?}");
    packs_in(state).len()
}

/// A collection reads all trees. A client that repeats a snapshot which does not fit must not keep the daemon busy with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full_again_a_moment_later_is_not_collected_at_once() {
    let disk = SmallDisk::new("96m");
    let home = Home::new().set("SANDBOXD_STATE_DIR", &disk.path().to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "echo kept > kept").await;
    snapshot(&daemon, &sandbox).await;
    let kept = packs_in(disk.path()).len();
    daemon.output(&sandbox, "head -c 150M /dev/urandom > large").await;
    let packs = || packs_in(disk.path()).len();
    let full = fill(&daemon, &sandbox, disk.path()).await;
    until("the first collection has made room", || async { packs() < full }).await;

    // The regular collection may come in between, but not each time.
    let left = Cell::new(0);
    until_within(3 * SOON, "what does not fit stays for a while", || async {
        left.set(fill(&daemon, &sandbox, disk.path()).await);
        // The second check waits for a collection that has begun before the first one.
        for _ in 0..2 {
            daemon.client.check_snapshots(&CheckSnapshots { read_only: Some(true) }).await.unwrap();
        }
        left.get() > kept && packs() == left.get()
    })
    .await;
    // It is only delayed.
    until_within(3 * SOON, "the next collection has made room", || async { packs() < left.get() }).await;
    daemon.stop().await;
}
