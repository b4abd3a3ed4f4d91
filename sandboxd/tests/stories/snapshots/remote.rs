//! Snapshots in a remote store: encrypted, and unharmed by a wrong or missing key and an unavailable store.

use std::io::ErrorKind;
use std::path::PathBuf;

use http::{Method, StatusCode};
use sandbox_api::SandboxId;
use sandbox_api::snapshot::{MakeSnapshot, RestoreSnapshot, Snapshot};
use test_s3::{BUCKET, Fault, Proxy, S3, key};

use super::snapshot;
use crate::support::harness::{Daemon, Home, until};

const SECRET: &str = "an exceedingly secret text of a session";

/// A home whose snapshots are in a folder of the server, with the master keys of a key file.
pub(super) fn home_at(home: Home, endpoint: &str, keys: &str) -> Home {
    let file = key_file(&home);
    std::fs::write(&file, keys).unwrap();
    home.set("SANDBOXD_SNAPSHOT_STORE", &format!("s3://{BUCKET}/folder"))
        .set("SANDBOXD_SNAPSHOT_ENDPOINT", endpoint)
        .set("SANDBOXD_SNAPSHOT_ACCESS_KEY_ID", "test")
        .set("SANDBOXD_SNAPSHOT_SECRET_ACCESS_KEY", "test")
        .set("SANDBOXD_SNAPSHOT_KEY_FILE", &file.to_string_lossy())
}

fn key_file(home: &Home) -> PathBuf {
    home.path().join("snapshot-keys")
}

/// A sandbox with a secret text, and a snapshot of it.
pub(super) async fn sandbox_with_secret(daemon: &Daemon) -> (SandboxId, Snapshot) {
    let sandbox = daemon.sandbox("chat:1").await;
    let write = format!("printf '%s' '{SECRET}' > secret-name; head -c 3000000 /dev/urandom > random; ");
    daemon.output(&sandbox, &write).await;
    let made = snapshot(daemon, &sandbox).await.snapshot;
    (sandbox, made)
}

/// Restores the snapshot after everything was removed.
async fn assert_restored(daemon: &Daemon, sandbox: &SandboxId, made: &Snapshot) {
    daemon.output(sandbox, "rm -rf secret-name random").await;
    restore(daemon, sandbox, made).await.unwrap();
    assert_eq!(daemon.output(sandbox, "cat secret-name; wc -c < random").await, format!("{SECRET}3000000\n"));
}

async fn restore(daemon: &Daemon, sandbox: &SandboxId, made: &Snapshot) -> Result<(), sandbox_client::Error> {
    let request = RestoreSnapshot { snapshot_id: made.snapshot_id.clone(), force: None };
    daemon.client.restore_snapshot(sandbox, &request).await.map(drop)
}

/// Snapshots are made and restored again, soon.
async fn until_restored(daemon: &Daemon, sandbox: &SandboxId, made: &Snapshot) {
    until("the store is open", || async { restore(daemon, sandbox, made).await.is_ok() }).await;
    assert_restored(daemon, sandbox, made).await;
}

/// Everything that needs the store is rejected with this reason, and everything else works.
async fn assert_unavailable(daemon: &Daemon, sandbox: &SandboxId, made: &Snapshot, reason: &str) {
    let rejected = [
        daemon.client.make_snapshot(sandbox, &MakeSnapshot::default()).await.map(drop).unwrap_err(),
        restore(daemon, sandbox, made).await.unwrap_err(),
        daemon.client.delete_snapshot(&made.snapshot_id).await.unwrap_err(),
    ];
    for error in rejected {
        let sandbox_client::Error::Refused { status, body, .. } = &error else { panic!("{error:?}") };
        assert_eq!((*status, &body.details["reason"]), (503, &reason.into()), "{error}");
    }
    assert_eq!(daemon.client.snapshot(&made.snapshot_id).await.unwrap(), *made);
    assert_eq!(daemon.output(sandbox, "echo works").await, "works\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remote_store_keeps_snapshots_and_its_operator_reads_nothing() {
    let Some(server) = S3::start().await else { return };
    let daemon = Daemon::start_in(home_at(Home::new(), &server.endpoint, &key(1))).await;
    let (sandbox, made) = sandbox_with_secret(&daemon).await;
    // Contents are compressed, so the search covers what is stored uncompressed.
    for key in server.keys().await {
        let bytes = server.get(&key).await;
        for word in ["secret", "chat:1", "packs", "manifests", made.snapshot_id.as_str()] {
            assert!(!key.contains(word), "{key}");
            assert!(!bytes.windows(word.len()).any(|part| part == word.as_bytes()), "{key} has {word}");
        }
        assert!(bytes.starts_with(b"sbxseal\n"), "{key}");
    }
    let home = daemon.stop().await;
    assert!(!home.path().join("state/snapshots").exists());

    let daemon = Daemon::start_in(home).await;
    until_restored(&daemon, &sandbox, &made).await;
    daemon.client.delete_snapshot(&made.snapshot_id).await.unwrap();
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_in_a_remote_store_outlive_the_database_and_the_index() {
    let Some(server) = S3::start().await else { return };
    let daemon = Daemon::start_in(home_at(Home::new(), &server.endpoint, &key(1))).await;
    let (sandbox, made) = sandbox_with_secret(&daemon).await;
    let home = daemon.stop().await;
    for entry in std::fs::read_dir(home.path().join("state")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("sandboxd.db") || name.starts_with("chunks") {
            // SQLite removes its log with the last connection, which a stop does not wait for.
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => panic!("{error}"),
                _ => {}
            }
        }
    }

    let daemon = Daemon::start_in(home).await;
    until("the snapshot is found", || async { daemon.client.snapshot(&made.snapshot_id).await.is_ok() })
        .await;
    assert_eq!(daemon.client.snapshot(&made.snapshot_id).await.unwrap(), made);
    until_restored(&daemon, &sandbox, &made).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_rejects_snapshots_and_a_new_one_beside_the_old_is_a_rotation() {
    let Some(server) = S3::start().await else { return };
    let daemon = Daemon::start_in(home_at(Home::new(), &server.endpoint, &key(1))).await;
    let (sandbox, made) = sandbox_with_secret(&daemon).await;
    let home = daemon.stop().await;
    let before = server.keys().await;

    std::fs::write(key_file(&home), key(2)).unwrap();
    let daemon = Daemon::start_in(home).await;
    assert_unavailable(&daemon, &sandbox, &made, "key_wrong").await;
    assert_eq!(server.keys().await, before);
    let home = daemon.stop().await;

    std::fs::write(key_file(&home), format!("{}{}", key(2), key(1))).unwrap();
    let daemon = Daemon::start_in(home).await;
    until_restored(&daemon, &sandbox, &made).await;
    let home = daemon.stop().await;

    std::fs::write(key_file(&home), key(2)).unwrap();
    let daemon = Daemon::start_in(home).await;
    until_restored(&daemon, &sandbox, &made).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_unavailable_at_the_start_is_opened_later() {
    let Some(server) = S3::start().await else { return };
    let proxy = Proxy::start(&server.endpoint).await;
    let daemon = Daemon::start_in(home_at(Home::new(), &proxy.endpoint, &key(1))).await;
    let (sandbox, made) = sandbox_with_secret(&daemon).await;
    let home = daemon.stop().await;
    for (status, reason) in
        [(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable"), (StatusCode::FORBIDDEN, "store_denied")]
    {
        proxy.mend();
        proxy.fail_all(Fault::Status(status));
        let daemon = Daemon::start_in(home_at(Home::new(), &proxy.endpoint, &key(1))).await;
        let other = daemon.sandbox("chat:1").await;
        let error = daemon.client.make_snapshot(&other, &MakeSnapshot::default()).await.unwrap_err();
        let sandbox_client::Error::Refused { body, .. } = &error else { panic!("{error:?}") };
        assert_eq!(body.details["reason"], reason);
        daemon.stop().await;
    }
    let daemon = Daemon::start_in(home).await;
    assert_unavailable(&daemon, &sandbox, &made, "store_denied").await;
    proxy.mend();
    until_restored(&daemon, &sandbox, &made).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_between_packs_and_manifest_leaves_no_snapshot() {
    let Some(server) = S3::start().await else { return };
    let proxy = Proxy::start(&server.endpoint).await;
    let daemon = Daemon::start_in(home_at(Home::new(), &proxy.endpoint, &key(1))).await;
    let (sandbox, made) = sandbox_with_secret(&daemon).await;
    daemon.output(&sandbox, "head -c 2000000 /dev/urandom > more").await;
    // The second time, the pack is stored already.
    for (packs, fault) in [(1, Fault::Status(StatusCode::INTERNAL_SERVER_ERROR)), (0, Fault::Forget)] {
        proxy.fail_after(packs, Method::PUT, fault);
        let error = daemon.client.make_snapshot(&sandbox, &MakeSnapshot::default()).await.unwrap_err();
        let sandbox_client::Error::Refused { body, .. } = &error else { panic!("{error:?}") };
        assert_eq!(body.details["reason"], "store_unavailable", "{error}");
        let listed = daemon.client.snapshots(&sandbox, None).await.unwrap().snapshots;
        assert_eq!(listed.as_slice(), std::slice::from_ref(&made));
        proxy.mend();
    }
    let second = snapshot(&daemon, &sandbox).await.snapshot;
    daemon.output(&sandbox, "rm more").await;
    restore(&daemon, &sandbox, &second).await.unwrap();
    assert_eq!(daemon.output(&sandbox, "wc -c < more").await, "2000000\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pack_that_the_store_has_changed_is_not_restored() {
    let Some(server) = S3::start().await else { return };
    let daemon = Daemon::start_in(home_at(Home::new(), &server.endpoint, &key(1))).await;
    let (sandbox, made) = sandbox_with_secret(&daemon).await;
    for key in server.keys().await {
        let mut bytes = server.get(&key).await.to_vec();
        if bytes.len() > 1_000_000 {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            server.put(&key, bytes.into()).await;
        }
    }
    daemon.output(&sandbox, "rm random; echo kept > kept").await;
    let error = restore(&daemon, &sandbox, &made).await.unwrap_err();
    let sandbox_client::Error::Refused { body, .. } = &error else { panic!("{error:?}") };
    assert!(body.error.contains("damaged"), "{error}");
    assert_eq!(daemon.output(&sandbox, "ls").await, "kept\nsecret-name\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_or_another_store_makes_no_snapshot_disappear() {
    let Some(server) = S3::start().await else { return };
    let daemon = Daemon::start_in(home_at(Home::new(), &server.endpoint, &key(1))).await;
    let (sandbox, made) = sandbox_with_secret(&daemon).await;
    let home = daemon.stop().await.set("SANDBOXD_SNAPSHOT_STORE", &format!("s3://{BUCKET}/wrong"));
    let before = server.keys().await;

    let daemon = Daemon::start_in(home).await;
    assert_unavailable(&daemon, &sandbox, &made, "key_lost").await;
    assert_eq!(server.keys().await, before);
    let home = daemon.stop().await.set("SANDBOXD_SNAPSHOT_STORE", "");

    let daemon = Daemon::start_in(home).await;
    assert_unavailable(&daemon, &sandbox, &made, "store_changed").await;
    let home = daemon.stop().await.set("SANDBOXD_SNAPSHOT_STORE", &format!("s3://{BUCKET}/folder"));

    let daemon = Daemon::start_in(home).await;
    until_restored(&daemon, &sandbox, &made).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_in_the_state_dir_are_not_left_for_a_remote_store() {
    let Some(server) = S3::start().await else { return };
    let daemon = Daemon::start().await;
    let (sandbox, made) = sandbox_with_secret(&daemon).await;
    let daemon = Daemon::start_in(home_at(daemon.stop().await, &server.endpoint, &key(1))).await;
    assert_unavailable(&daemon, &sandbox, &made, "store_changed").await;
    assert_eq!(server.keys().await, [""; 0]);

    let home = daemon.stop().await.set("SANDBOXD_SNAPSHOT_STORE", "");
    let daemon = Daemon::start_in(home).await;
    assert_restored(&daemon, &sandbox, &made).await;
    // Once there are none, the store may be another one.
    for one in daemon.client.snapshots(&sandbox, None).await.unwrap().snapshots {
        daemon.client.delete_snapshot(&one.snapshot_id).await.unwrap();
    }
    let daemon = Daemon::start_in(home_at(daemon.stop().await, &server.endpoint, &key(1))).await;
    let made = snapshot(&daemon, &sandbox).await.snapshot;
    assert!(made.new_bytes > 3_000_000, "{made:?}");
    assert_restored(&daemon, &sandbox, &made).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_installation_does_not_use_the_same_folder() {
    let Some(server) = S3::start().await else { return };
    let daemon = Daemon::start_in(home_at(Home::new(), &server.endpoint, &key(1))).await;
    let (_, made) = sandbox_with_secret(&daemon).await;
    daemon.stop().await;

    let other = Daemon::start_in(home_at(Home::new(), &server.endpoint, &key(1))).await;
    let sandbox = other.sandbox("chat:1").await;
    let error = other.client.make_snapshot(&sandbox, &MakeSnapshot::default()).await.unwrap_err();
    let sandbox_client::Error::Refused { body, .. } = &error else { panic!("{error:?}") };
    assert_eq!(body.details["reason"], "store_owned");
    assert!(other.client.snapshot(&made.snapshot_id).await.is_err());

    // The first daemon is permanently lost, so the second one takes over its snapshots: workspaces outlive a machine.
    server.delete("folder/default/owner").await;
    let other = Daemon::start_in(other.stop().await).await;
    until("the snapshot is found", || async { other.client.snapshot(&made.snapshot_id).await.is_ok() }).await;
    until_restored(&other, &sandbox, &made).await;
    other.stop().await;
}
