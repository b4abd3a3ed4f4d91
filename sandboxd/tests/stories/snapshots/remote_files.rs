//! Snapshots that move between two remote stores as files, and a damaged object of one of them.

use bytes::Bytes;
use sandbox_api::ErrorCode;
use sandbox_api::sandbox::{CreateSandbox, WorkspaceSource};
use sandbox_api::snapshot::{CheckSnapshots, PackProblem, RestoreSnapshot, SnapshotState};
use sandbox_client::ImportOptions;
use test_s3::{BUCKET, S3, key};

use super::remote::{home_at, sandbox_with_secret};
use super::{fingerprint, program};
use crate::support::harness::{Daemon, Home};

/// Maximum size of an exported file.
const LIMIT: usize = 64 << 20;

/// Packs have more bytes than every other object.
const PACK_BYTES: usize = 1_000_000;

/// A daemon that stores its snapshots in a folder of its own, with a key of its own.
async fn daemon_at(server: &S3, folder: &str, number: u8) -> Daemon {
    let home = home_at(Home::new(), &server.endpoint, &key(number));
    Daemon::start_in(home.set("SANDBOXD_SNAPSHOT_STORE", &format!("s3://{BUCKET}/{folder}"))).await
}

/// The packs in a folder of the server, by their keys.
async fn packs_in(server: &S3, folder: &str) -> Vec<(String, Bytes)> {
    let mut packs = Vec::new();
    for key in server.keys().await.into_iter().filter(|key| key.starts_with(folder)) {
        let bytes = server.get(&key).await;
        packs.extend((bytes.len() > PACK_BYTES).then_some((key, bytes)));
    }
    packs
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_moves_to_another_remote_store_and_heals_it_when_it_is_damaged() {
    let Some(server) = S3::start().await else { return };
    let (first, second) = (daemon_at(&server, "first/", 1).await, daemon_at(&server, "second/", 2).await);
    let (sandbox, made) = sandbox_with_secret(&first).await;
    let before = fingerprint(&first, &sandbox).await;
    let file = first.client.export_snapshot(&made.snapshot_id).await.unwrap().bytes(LIMIT).await.unwrap();
    let imported = second.client.import_snapshot(file.clone(), &ImportOptions::default()).await.unwrap();
    assert_eq!((imported.files, imported.size_bytes), (made.files, made.size_bytes));
    let create = CreateSandbox {
        session_key: "chat:copy".into(),
        workspace: Some(WorkspaceSource::snapshot(imported.snapshot_id.clone())),
        ..CreateSandbox::default()
    };
    let copy = second.client.create_or_reconnect(&create).await.unwrap().sandbox_id;
    assert_eq!(fingerprint(&second, &copy).await, before);
    for daemon in [&first, &second] {
        let (code, printed) = program(daemon, &["fsck"]).await;
        assert!(code == Some(0) && printed.contains("snapshots: 1, 0 of them damaged"), "{printed}");
        assert!(!daemon.home.path().join("state/snapshots").exists());
    }

    let [(pack, bytes)] = <[_; 1]>::try_from(packs_in(&server, "second/").await).unwrap();
    let mut damaged = bytes.to_vec();
    damaged[PACK_BYTES] ^= 1;
    server.put(&pack, damaged.clone().into()).await;
    let checked = second.client.check_snapshots(&CheckSnapshots::default()).await.unwrap();
    assert_eq!((checked.ok, checked.faulty_packs, checked.damaged_snapshots), (false, 1, 1), "{checked:?}");
    assert_eq!(checked.faults[0].problem, PackProblem::Damaged);
    assert!(checked.faults[0].quarantined, "{checked:?}");
    assert!(!server.keys().await.contains(&pack));
    let left = packs_in(&server, "second/").await;
    assert!(left.iter().any(|(_, bytes)| *bytes == damaged), "nothing is deleted");
    let state = second.client.snapshot(&imported.snapshot_id).await.unwrap().state;
    assert_eq!(state, SnapshotState::Damaged);
    second.output(&copy, "rm random; echo changed > secret-name").await;
    let restore = RestoreSnapshot { snapshot_id: imported.snapshot_id.clone(), force: None };
    let rejected = second.client.restore_snapshot(&copy, &restore).await.unwrap_err();
    assert_eq!(rejected.code(), Some(ErrorCode::Refused), "{rejected}");
    let (code, printed) =
        program(&second, &["export", imported.snapshot_id.as_str(), "damaged.snapshot"]).await;
    assert!(code == Some(1) && printed.contains("damaged"), "{code:?} {printed}");
    assert!(!second.home.path().join("damaged.snapshot").exists());
    assert_eq!(program(&first, &["fsck"]).await.0, Some(0));

    // The file has the chunks that were lost.
    second.client.import_snapshot(file, &ImportOptions::default()).await.unwrap();
    let (code, printed) = program(&second, &["fsck"]).await;
    assert!(code == Some(0) && printed.contains(", 0 of them damaged"), "{printed}");
    second.client.restore_snapshot(&copy, &restore).await.unwrap();
    assert_eq!(fingerprint(&second, &copy).await, before);
    first.stop().await;
    second.stop().await;
}
