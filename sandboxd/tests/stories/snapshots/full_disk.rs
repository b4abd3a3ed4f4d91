//! The disk of the stored snapshots is full.

use sandbox_api::ErrorCode;
use sandbox_api::snapshot::{MakeSnapshot, RestoreSnapshot};

use super::{fingerprint, program, snapshot};
use crate::support::fault_injection::SmallDisk;
use crate::support::harness::{Daemon, Home, until};

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
