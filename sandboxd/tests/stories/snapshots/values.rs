//! Values that are kept with a sandbox, as a part of its snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use sandbox_api::quota::Quotas;
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes, WorkspaceSource};
use sandbox_api::snapshot::{CheckSnapshots, ForkSandbox, RestoreSnapshot};
use sandbox_api::{ErrorCode, SandboxId, SnapshotId};
use sandbox_client::{Client, ImportOptions};

use super::{damage, packs_of, snapshot};
use crate::projects::token_of;
use crate::support::fault_injection::{connect, execute};
use crate::support::harness::Daemon;

/// The values of a sandbox, with the times when they were written.
pub(super) async fn values_of(client: &Client, sandbox: &SandboxId) -> BTreeMap<String, (Vec<u8>, String)> {
    let mut found = BTreeMap::new();
    let mut cursor = None;
    loop {
        let page = client.values(sandbox, "", cursor.as_deref()).await.unwrap();
        for value in page.values {
            let bytes = client.get_value(sandbox, &value.key).await.unwrap().to_vec();
            found.insert(value.key, (bytes, format!("{:?}", value.updated_at)));
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return found;
        }
    }
}

async fn keys_of(daemon: &Daemon, sandbox: &SandboxId) -> Vec<String> {
    values_of(&daemon.client, sandbox).await.into_keys().collect()
}

async fn restore(daemon: &Daemon, sandbox: &SandboxId, snapshot: &SnapshotId) -> SnapshotId {
    let body = RestoreSnapshot { snapshot_id: snapshot.clone(), force: None };
    daemon.client.restore_snapshot(sandbox, &body).await.unwrap().checkpoint_id
}

fn from_snapshot(session_key: &str, snapshot: &SnapshotId) -> CreateSandbox {
    let workspace = Some(WorkspaceSource::snapshot(snapshot.clone()));
    CreateSandbox { session_key: session_key.into(), workspace, ..CreateSandbox::default() }
}

async fn copy_of(client: &Client, session_key: &str, snapshot: &SnapshotId) -> SandboxId {
    client.create_or_reconnect(&from_snapshot(session_key, snapshot)).await.unwrap().sandbox_id
}

pub(super) async fn used_bytes(client: &Client, project: &str) -> u64 {
    let usage = client.project_usage(project).await.unwrap();
    usage.now.into_iter().find(|found| found.quota == "valueBytes").unwrap().used
}

/// Bytes that do not compress.
fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_replaces_the_values_and_is_undone_with_them() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    let empty = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    for (key, value) in [("a", "one"), ("b/ключ", "\0two"), ("c", "")] {
        client.put_value(&sandbox, key, value).await.unwrap();
    }
    daemon.output(&sandbox, "echo old > file").await;
    let before = values_of(client, &sandbox).await;
    let made = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    client.put_value(&sandbox, "a", "changed").await.unwrap();
    client.delete_value(&sandbox, "c").await.unwrap();
    client.put_value(&sandbox, "d", "new").await.unwrap();
    daemon.output(&sandbox, "echo new > file").await;
    let after = values_of(client, &sandbox).await;

    // Also while it is parked, and after a restart.
    client.park(&sandbox, false).await.unwrap();
    let daemon = Daemon::start_in(daemon.stop().await).await;
    let client = &daemon.client;
    assert_eq!(values_of(client, &sandbox).await, after);
    let undo = restore(&daemon, &sandbox, &made).await;
    assert_eq!(values_of(client, &sandbox).await, before);
    assert_eq!(used_bytes(client, "default").await, 4 + 14 + 1);
    restore(&daemon, &sandbox, &undo).await;
    assert_eq!(values_of(client, &sandbox).await, after);
    assert_eq!(daemon.output(&sandbox, "cat file").await, "new\n");
    restore(&daemon, &sandbox, &empty).await;
    assert_eq!(values_of(client, &sandbox).await, BTreeMap::new());
    assert_eq!(used_bytes(client, "default").await, 0);
    client.park(&sandbox, false).await.unwrap();
    restore(&daemon, &sandbox, &undo).await;
    let daemon = Daemon::start_in(daemon.stop().await).await;
    assert_eq!(values_of(&daemon.client, &sandbox).await, after);
    assert_eq!(used_bytes(&daemon.client, "default").await, 8 + 14 + 4);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_sandboxes_begin_with_the_values_and_keep_their_own() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    client.put_value(&sandbox, "a", "one").await.unwrap();
    let before = values_of(client, &sandbox).await;
    let made = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    let copy = copy_of(client, "chat:2", &made).await;
    assert_eq!(values_of(client, &copy).await, before);
    client.put_value(&copy, "a", "mine").await.unwrap();
    copy_of(client, "chat:2", &made).await;
    assert_eq!(client.get_value(&copy, "a").await.unwrap(), "mine", "an existing sandbox keeps its values");

    let fork = ForkSandbox { session_keys: vec!["chat:3".into(), "chat:4".into()] };
    let forked = client.fork(&sandbox, &fork).await.unwrap().sandboxes;
    for fork in &forked {
        assert_eq!(values_of(client, &fork.sandbox_id).await, before);
    }
    client.delete_value(&forked[0].sandbox_id, "a").await.unwrap();
    assert_eq!(values_of(client, &forked[1].sandbox_id).await, before);
    assert_eq!(client.get_value(&sandbox, "a").await.unwrap(), "one");

    // Files enough for a base, over which nothing is written one by one.
    daemon.output(&sandbox, "mkdir many; for i in $(seq 1200); do echo $i > many/$i; done").await;
    let large = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    for key in ["chat:5", "chat:6"] {
        let over_base = copy_of(client, key, &large).await;
        assert_eq!(values_of(client, &over_base).await, before);
    }
    let daemon = Daemon::start_in(daemon.stop().await).await;
    assert_eq!(values_of(&daemon.client, &forked[1].sandbox_id).await, before);
    assert_eq!(used_bytes(&daemon.client, "default").await, 4 + 5 + 4 + 2 * 4);
    daemon.stop().await;
}

/// Values that make many chunks, of which most do not change.
#[tokio::test(flavor = "multi_thread")]
async fn large_values_are_stored_once_and_outlive_the_database() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    for number in 0..40 {
        client.put_value(&sandbox, &format!("{number:02}"), noise(1 << 20)).await.unwrap();
    }
    let before = values_of(client, &sandbox).await;
    let first = snapshot(&daemon, &sandbox).await.snapshot;
    assert!(first.new_bytes >= 40 << 20, "{first:?}");
    assert_eq!(snapshot(&daemon, &sandbox).await.snapshot.new_bytes, 0);
    client.put_value(&sandbox, "17", noise(100)).await.unwrap();
    let changed = snapshot(&daemon, &sandbox).await.snapshot;
    assert!((100..1 << 20).contains(&changed.new_bytes), "{changed:?}");
    let home = daemon.stop().await;
    for name in ["sandboxd.db", "chunks.sqlite"] {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(home.path().join("state").join(format!("{name}{end}")));
        }
    }

    let daemon = Daemon::start_in(home).await;
    assert_eq!(keys_of(&daemon, &sandbox).await, [""; 0], "they are lost with the database");
    restore(&daemon, &sandbox, &first.snapshot_id).await;
    assert!(values_of(&daemon.client, &sandbox).await == before);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exported_snapshot_has_the_values() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    client.put_value(&sandbox, "a", "one").await.unwrap();
    client.put_value(&sandbox, "large", noise(1 << 20)).await.unwrap();
    let before = values_of(client, &sandbox).await;
    let made = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    let file = client.export_snapshot(&made).await.unwrap().bytes(8 << 20).await.unwrap();

    let other = Daemon::start().await;
    let options = ImportOptions { name: None, ttl_ms: None };
    let imported = other.client.import_snapshot(file.clone(), &options).await.unwrap();
    let copy = copy_of(&other.client, "chat:copy", &imported.snapshot_id).await;
    assert_eq!(values_of(&other.client, &copy).await, before);
    let cut = other.client.import_snapshot(file[..file.len() - 100].to_vec(), &options).await.unwrap_err();
    assert_eq!(cut.code(), Some(ErrorCode::Refused), "{cut}");
    other.stop().await;
    daemon.stop().await;
}

/// A snapshot of an older version does not know the values. It must not delete them.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_without_values_changes_none() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    daemon.output(&sandbox, "echo old > file").await;
    let made = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    let mut database = connect(&daemon.home.config().state_dir).await;
    execute(&mut database, "UPDATE snapshots SET kept_values = NULL").await;
    client.put_value(&sandbox, "a", "one").await.unwrap();
    daemon.output(&sandbox, "echo new > file").await;
    restore(&daemon, &sandbox, &made).await;
    assert_eq!(daemon.output(&sandbox, "cat file").await, "old\n");
    assert_eq!(client.get_value(&sandbox, "a").await.unwrap(), "one");
    let copy = copy_of(client, "chat:2", &made).await;
    assert_eq!(keys_of(&daemon, &copy).await, [""; 0]);
    let exported = client.export_snapshot(&made).await.unwrap().bytes(1 << 20).await.unwrap();
    let options = ImportOptions { name: None, ttl_ms: None };
    let imported = client.import_snapshot(exported, &options).await.unwrap().snapshot_id;
    restore(&daemon, &sandbox, &imported).await;
    assert_eq!(client.get_value(&sandbox, "a").await.unwrap(), "one");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_values_are_found_and_never_restored() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    daemon.output(&sandbox, "echo old > file").await;
    snapshot(&daemon, &sandbox).await;
    let earlier = packs_of(&daemon.home);
    client.put_value(&sandbox, "a", noise(200_000)).await.unwrap();
    // Nothing but values in a pack of its own.
    let lost = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    let pack = packs_of(&daemon.home).into_iter().find(|pack| !earlier.contains(pack)).unwrap();
    client.put_value(&sandbox, "a", "new").await.unwrap();
    daemon.output(&sandbox, "echo new > file").await;
    damage(&pack);

    let body = RestoreSnapshot { snapshot_id: lost.clone(), force: None };
    for read_only in [None, Some(true), Some(false)] {
        if read_only.is_some() {
            let checked = client.check_snapshots(&CheckSnapshots { read_only }).await.unwrap();
            let damaged: Vec<_> = checked.damaged.iter().map(|snapshot| &snapshot.snapshot_id).collect();
            assert_eq!(damaged, [&lost]);
        }
        let rejected = client.restore_snapshot(&sandbox, &body).await.unwrap_err();
        assert_eq!(rejected.code(), Some(ErrorCode::Refused), "{rejected}");
        assert!(rejected.to_string().contains("the snapshot is damaged"), "{rejected}");
        let rejected = client.create_or_reconnect(&from_snapshot("chat:2", &lost)).await.unwrap_err();
        assert_eq!(rejected.code(), Some(ErrorCode::Refused), "{rejected}");
        assert_eq!(client.get_value(&sandbox, "a").await.unwrap(), "new");
        assert_eq!(daemon.output(&sandbox, "cat file").await, "new\n");
    }
    assert_eq!(client.list(&ListSandboxes::default()).await.unwrap().sandboxes.len(), 1);
    snapshot(&daemon, &sandbox).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_a_snapshot_count_in_the_quotas_of_the_project() {
    let daemon = Daemon::start().await;
    let token = token_of(&daemon, "lab", None, &["use", "manage"]).await.token;
    let lab = Client::new(&daemon.base, &token).unwrap();
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let sandbox = lab.create_or_reconnect(&request).await.unwrap().sandbox_id;
    lab.put_value(&sandbox, "a", noise(600)).await.unwrap();
    let made = lab.make_snapshot(&sandbox, &Default::default()).await.unwrap().snapshot;
    assert!(made.new_bytes >= 600, "{made:?}");
    let quotas = Quotas { value_bytes: Some(1000), ..Quotas::default() };
    daemon.client.set_quotas("lab", &quotas).await.unwrap();

    let refused = lab.create_or_reconnect(&from_snapshot("chat:2", &made.snapshot_id)).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::CapacityExhausted), "{refused}");
    let fork = ForkSandbox { session_keys: vec!["chat:3".into()] };
    let refused = lab.fork(&sandbox, &fork).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::CapacityExhausted), "{refused}");
    assert_eq!(lab.list(&ListSandboxes::default()).await.unwrap().sandboxes.len(), 1);
    assert_eq!(used_bytes(&lab, "lab").await, 601);

    lab.delete_value(&sandbox, "a").await.unwrap();
    let other = CreateSandbox { session_key: "chat:4".into(), ..CreateSandbox::default() };
    let other = lab.create_or_reconnect(&other).await.unwrap().sandbox_id;
    lab.put_value(&other, "b", noise(500)).await.unwrap();
    let body = RestoreSnapshot { snapshot_id: made.snapshot_id, force: None };
    let refused = lab.restore_snapshot(&sandbox, &body).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::CapacityExhausted), "{refused}");
    assert_eq!(used_bytes(&lab, "lab").await, 501);
    lab.delete_value(&other, "b").await.unwrap();
    lab.restore_snapshot(&sandbox, &body).await.unwrap();
    assert_eq!(used_bytes(&lab, "lab").await, 601);
    daemon.stop().await;
}

/// A change that was answered is in the snapshot from before the restore, or was made after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_loses_no_value_that_is_written_meanwhile() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let empty = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    daemon.output(&sandbox, "mkdir d; for i in $(seq 300); do echo $i > d/$i; done").await;
    let is_restored = AtomicBool::new(false);
    let writing = async {
        let mut written = BTreeSet::new();
        for number in 0.. {
            let is_last = is_restored.load(Ordering::SeqCst);
            let key = format!("{number:05}");
            daemon.client.put_value(&sandbox, &key, "v").await.unwrap();
            written.insert(key);
            if is_last {
                break;
            }
        }
        written
    };
    let restoring = async {
        let undo = restore(&daemon, &sandbox, &empty).await;
        is_restored.store(true, Ordering::SeqCst);
        undo
    };
    let (written, undo) = tokio::join!(writing, restoring);
    let mut found: BTreeSet<String> = keys_of(&daemon, &sandbox).await.into_iter().collect();
    assert!(!found.is_empty() && found.len() < written.len(), "{found:?}");
    restore(&daemon, &sandbox, &undo).await;
    found.extend(keys_of(&daemon, &sandbox).await);
    assert_eq!(found, written);
    daemon.stop().await;
}
