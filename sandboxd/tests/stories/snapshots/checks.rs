//! Damaged packs: found, named, moved aside, and never restored.

use sandbox_api::snapshot::{CheckSnapshots, PackProblem, RestoreSnapshot, Snapshot};
use sandbox_api::{ErrorCode, SandboxId};

use super::{damage, fingerprint, packs_of, program, snapshot};
use crate::support::harness::Daemon;

const FILL: &str = "head -c 3000000 /dev/urandom > large; echo small > small";

/// A sandbox with its own files, and its snapshot.
async fn filled(daemon: &Daemon, key: &str) -> (SandboxId, Snapshot) {
    let sandbox = daemon.sandbox(key).await;
    daemon.output(&sandbox, FILL).await;
    let made = snapshot(daemon, &sandbox).await.snapshot;
    (sandbox, made)
}

fn restore(snapshot: &Snapshot) -> RestoreSnapshot {
    RestoreSnapshot { snapshot_id: snapshot.snapshot_id.clone(), force: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_pack_is_named_with_its_snapshots_and_moved_aside() {
    let daemon = Daemon::start().await;
    let (first, lost) = filled(&daemon, "chat:1").await;
    let pack = packs_of(&daemon.home).pop().unwrap();
    let (second, kept) = filled(&daemon, "chat:2").await;
    let name = pack.file_name().unwrap().to_string_lossy().into_owned();
    assert_eq!(program(&daemon, &["fsck"]).await.0, Some(0));
    damage(&pack);
    let damaged = std::fs::read(&pack).unwrap();

    // First without a change, and then with one.
    for args in [&["fsck", "--read-only"][..], &["fsck"]] {
        let (code, printed) = program(&daemon, args).await;
        assert!(code == Some(1) && printed.contains(&name), "{printed}");
        assert!(printed.contains(lost.snapshot_id.as_str()), "{printed}");
        assert!(!printed.contains(kept.snapshot_id.as_str()), "{printed}");
        assert_eq!(pack.exists(), args.len() == 2);
    }
    let (code, printed) = program(&daemon, &["snapshots"]).await;
    let line =
        |snapshot: &Snapshot| printed.lines().find(|line| line.starts_with(snapshot.snapshot_id.as_str()));
    assert!(code == Some(0) && line(&lost).is_some_and(|line| line.contains("damaged")), "{printed}");
    assert!(line(&kept).is_some_and(|line| line.contains("complete")), "{printed}");
    let quarantine = daemon.home.path().join("state/snapshots/quarantine").join(&name);
    assert!(std::fs::read(quarantine).unwrap() == damaged, "nothing is deleted");

    let before = fingerprint(&daemon, &second).await;
    let rejected = daemon.client.restore_snapshot(&second, &restore(&lost)).await.unwrap_err();
    assert_eq!(rejected.code(), Some(ErrorCode::Refused), "{rejected}");
    assert!(rejected.to_string().contains("the snapshot is damaged"), "{rejected}");
    assert_eq!(fingerprint(&daemon, &second).await, before);
    daemon.output(&second, "rm large").await;
    daemon.client.restore_snapshot(&second, &restore(&kept)).await.unwrap();
    assert_eq!(fingerprint(&daemon, &second).await, before);

    // The sandbox still has the files, so its next snapshot stores again what was lost.
    let files = fingerprint(&daemon, &first).await;
    let again = snapshot(&daemon, &first).await.snapshot;
    assert!(again.parent_id.is_none() && again.new_bytes > 0, "{again:?}");
    daemon.client.restore_snapshot(&second, &restore(&lost)).await.unwrap();
    assert_eq!(fingerprint(&daemon, &second).await, files);
    let (code, printed) = program(&daemon, &["fsck"]).await;
    assert!(code == Some(0) && printed.contains("0 of them damaged"), "{printed}");
    let next = snapshot(&daemon, &first).await.snapshot;
    assert_eq!(next.parent_id, Some(again.snapshot_id));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pack_that_is_missing_is_named_with_its_snapshots() {
    let daemon = Daemon::start().await;
    let (_, lost) = filled(&daemon, "chat:1").await;
    let pack = packs_of(&daemon.home).pop().unwrap();
    std::fs::remove_file(&pack).unwrap();
    for read_only in [Some(true), None] {
        let checked = daemon.client.check_snapshots(&CheckSnapshots { read_only }).await.unwrap();
        assert!(!checked.ok);
        assert_eq!((checked.faulty_packs, checked.faults[0].problem), (1, PackProblem::Missing));
        assert_eq!(pack.file_name().unwrap().to_str(), Some(&*checked.faults[0].pack));
        assert_eq!((checked.snapshots, checked.damaged_snapshots), (1, 1));
        assert_eq!(checked.damaged[0].snapshot_id, lost.snapshot_id);
    }
    daemon.stop().await;
}
