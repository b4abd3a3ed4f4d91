//! Checks of a remote store that fails meanwhile.

use bytes::Bytes;
use http::{Method, StatusCode};
use sandbox_api::ErrorCode;
use sandbox_api::snapshot::{CheckSnapshots, PackProblem, Snapshot, SnapshotState, SnapshotsChecked};
use test_s3::{Fault, Proxy, S3, key};

use super::remote::{home_at, sandbox_with_secret};
use super::{program, snapshot};
use crate::support::harness::{Daemon, Home};

/// Packs have more bytes than every other object.
const PACK_BYTES: usize = 1_000_000;

async fn check(daemon: &Daemon) -> SnapshotsChecked {
    daemon.client.check_snapshots(&CheckSnapshots { read_only: Some(true) }).await.unwrap()
}

/// Two snapshots, each with a pack. Returns the first one.
async fn two_snapshots(daemon: &Daemon) -> Snapshot {
    let (_, first) = sandbox_with_secret(daemon).await;
    let other = daemon.sandbox("chat:2").await;
    daemon.output(&other, "head -c 3000000 /dev/urandom > random").await;
    snapshot(daemon, &other).await;
    first
}

#[tokio::test(flavor = "multi_thread")]
async fn packs_that_cannot_be_read_are_reported_and_no_snapshot_is_called_damaged() {
    let Some(server) = S3::start().await else { return };
    let proxy = Proxy::start(&server.endpoint).await;
    let daemon = Daemon::start_in(home_at(Home::new(), &proxy.endpoint, &key(1))).await;
    let first = two_snapshots(&daemon).await;
    assert!(check(&daemon).await.ok);

    // The first request lists the packs.
    proxy.fail_after(1, Method::GET, Fault::Status(StatusCode::FORBIDDEN));
    let checked = check(&daemon).await;
    assert!(!checked.ok && !checked.incomplete, "{checked:?}");
    assert_eq!((checked.faulty_packs, checked.packs), (2, 0), "{checked:?}");
    assert!(checked.faults.iter().all(|fault| fault.problem == PackProblem::Unread), "{checked:?}");
    assert_eq!((checked.snapshots, checked.damaged_snapshots, checked.unverified_snapshots), (2, 0, 2));
    assert_eq!(daemon.client.snapshot(&first.snapshot_id).await.unwrap().state, SnapshotState::Complete);

    proxy.mend();
    assert_eq!(program(&daemon, &["fsck"]).await.0, Some(0));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_found_is_reported_although_the_store_fails_later() {
    let Some(server) = S3::start().await else { return };
    let proxy = Proxy::start(&server.endpoint).await;
    let daemon = Daemon::start_in(home_at(Home::new(), &proxy.endpoint, &key(1))).await;
    two_snapshots(&daemon).await;
    let mut packs = Vec::new();
    for key in server.keys().await {
        let bytes = server.get(&key).await.to_vec();
        packs.extend((bytes.len() > PACK_BYTES).then_some((key, bytes)));
    }
    let [(damaged, mut bytes), (missing, _)] = <[_; 2]>::try_from(packs).unwrap();
    bytes[PACK_BYTES] ^= 1;
    server.put(&damaged, Bytes::from(bytes)).await;
    server.delete(&missing).await;

    // Whether a pack is missing is asked last.
    proxy.fail(Method::HEAD, Fault::Status(StatusCode::FORBIDDEN));
    let checked = check(&daemon).await;
    assert!(!checked.ok && checked.incomplete, "{checked:?}");
    assert_eq!((checked.faulty_packs, checked.faults[0].problem), (1, PackProblem::Damaged), "{checked:?}");
    let (code, printed) = program(&daemon, &["fsck", "--read-only"]).await;
    assert!(code == Some(1) && printed.contains("the check has stopped before its end"), "{printed}");

    proxy.mend();
    let checked = check(&daemon).await;
    assert_eq!(
        (checked.incomplete, checked.faulty_packs, checked.damaged_snapshots),
        (false, 2, 2),
        "{checked:?}"
    );
    // Without anything to report, it is an error.
    proxy.fail(Method::GET, Fault::Status(StatusCode::FORBIDDEN));
    let read_only = CheckSnapshots { read_only: Some(true) };
    let failed = daemon.client.check_snapshots(&read_only).await.unwrap_err();
    assert_eq!(failed.code(), Some(ErrorCode::Unavailable), "{failed}");
    daemon.stop().await;
}
