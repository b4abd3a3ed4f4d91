//! Snapshots as files: exported by one daemon, and imported by another one.

use std::path::PathBuf;

use bytes::Bytes;
use futures::StreamExt;
use sandbox_api::sandbox::{CreateSandbox, WorkspaceSource};
use sandbox_api::snapshot::MakeSnapshot;
use sandbox_api::{ErrorCode, SandboxId, SnapshotId};
use sandbox_client::{Client, Error, ImportOptions, upload_stream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{FILL, damage, fingerprint, packs_of, program, snapshot};
use crate::support::harness::{Daemon, DaemonProcess, Home, SOON, free_port, until};

const LIMIT: usize = 64 << 20;

async fn exported(daemon: &Daemon, snapshot: &SnapshotId) -> Vec<u8> {
    daemon.client.export_snapshot(snapshot).await.unwrap().bytes(LIMIT).await.unwrap()
}

async fn sandbox_of(daemon: &Daemon, snapshot_id: &SnapshotId) -> SandboxId {
    let create = CreateSandbox {
        session_key: "chat:copy".into(),
        workspace: Some(WorkspaceSource::snapshot(snapshot_id.clone())),
        ..CreateSandbox::default()
    };
    daemon.client.create_or_reconnect(&create).await.unwrap().sandbox_id
}

/// The objects in the store: manifests make a snapshot visible.
fn manifests(home: &Home) -> Vec<PathBuf> {
    let dir = std::fs::read_dir(home.path().join("state/snapshots/manifests"));
    dir.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_moves_to_another_daemon() {
    let first = Daemon::start().await;
    let sandbox = first.sandbox("chat:1").await;
    first.output(&sandbox, FILL).await;
    let before = fingerprint(&first, &sandbox).await;
    let named = MakeSnapshot { name: Some("to move".into()), ..MakeSnapshot::default() };
    let made = first.client.make_snapshot(&sandbox, &named).await.unwrap().snapshot;
    let file = exported(&first, &made.snapshot_id).await;
    first.client.delete(&sandbox).await.unwrap();
    first.stop().await;

    let second = Daemon::start().await;
    let imported = second.client.import_snapshot(file.clone(), &ImportOptions::default()).await.unwrap();
    assert_eq!(
        (imported.name.as_deref(), imported.created_at, imported.files, imported.size_bytes),
        (Some("to move"), made.created_at, made.files, made.size_bytes)
    );
    assert_ne!(imported.snapshot_id, made.snapshot_id);
    assert_ne!(imported.sandbox_id, made.sandbox_id, "no sandbox may read its chunks by naming them");
    let copy = sandbox_of(&second, &imported.snapshot_id).await;
    assert_eq!(fingerprint(&second, &copy).await, before);

    let again = ImportOptions { name: Some("again"), ttl_ms: Some(60_000) };
    let again = second.client.import_snapshot(file.clone(), &again).await.unwrap();
    assert_eq!((again.name.as_deref(), again.new_bytes), (Some("again"), 0));
    assert!(again.expires_at.is_some());
    assert!(exported(&second, &imported.snapshot_id).await == file, "an import is exported as the same file");
    second.client.delete_snapshot(&imported.snapshot_id).await.unwrap();
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_not_whole_is_rejected_and_nothing_of_it_is_visible() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, FILL).await;
    let snapshot_id = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    let file = exported(&daemon, &snapshot_id).await;
    let before = manifests(&daemon.home);
    let flipped = |at: usize| {
        let mut file = file.clone();
        file[at] ^= 0x10;
        file
    };
    // The magic, the version, the header, the first chunk's name, its bytes, a later chunk, the trailer's count and hash.
    let places = [0, 8, 20, 130, 250, file.len() / 2, file.len() - 36, file.len() - 1];
    let cases = places.map(flipped).into_iter();
    let cut = [file[..file.len() - 1].to_vec(), file[..file.len() / 2].to_vec(), b"PK".to_vec(), Vec::new()];
    for (number, case) in cases.chain(cut).chain([[&file[..], b"x"].concat()]).enumerate() {
        let rejected = daemon.client.import_snapshot(case, &ImportOptions::default()).await.unwrap_err();
        assert_eq!(rejected.code(), Some(ErrorCode::Refused), "{number}: {rejected}");
    }
    assert_eq!(manifests(&daemon.home), before);
    for name in ["", "a\nb", &"x".repeat(201)] {
        let options = ImportOptions { name: Some(name), ttl_ms: None };
        let rejected = daemon.client.import_snapshot(file.clone(), &options).await.unwrap_err();
        assert_eq!(rejected.code(), Some(ErrorCode::InvalidRequest), "{name:?}: {rejected}");
    }
    daemon.client.import_snapshot(file, &ImportOptions::default()).await.unwrap();
    daemon.stop().await;
}

/// Sends a part of a file, and then nothing.
fn stalled(client: &Client, part: Bytes) -> (mpsc::Sender<Result<Bytes, std::io::Error>>, Upload) {
    let (sender, receiver) = mpsc::channel(1);
    let body = upload_stream(tokio_stream::iter([Ok(part)]).chain(ReceiverStream::new(receiver)));
    let client = client.clone();
    let upload = tokio::spawn(async move {
        client.import_snapshot(body, &ImportOptions::default()).await.map(|snapshot| snapshot.snapshot_id)
    });
    (sender, upload)
}

type Upload = tokio::task::JoinHandle<Result<SnapshotId, Error>>;

/// A stalled import that is seen to exclude another one. Each of the two may be the first at the daemon.
async fn running_import(
    daemon: &Daemon,
    part: Bytes,
) -> (mpsc::Sender<Result<Bytes, std::io::Error>>, Upload) {
    let mut first = stalled(&daemon.client, part.clone());
    loop {
        let other = daemon.client.import_snapshot(Bytes::new(), &ImportOptions::default()).await.unwrap_err();
        if first.1.is_finished() {
            first = stalled(&daemon.client, part.clone());
        } else if other.code() == Some(ErrorCode::CapacityExhausted) {
            return first;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_file_is_imported_at_a_time_and_one_that_breaks_off_makes_room() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, FILL).await;
    let snapshot_id = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id;
    let file = Bytes::from(exported(&daemon, &snapshot_id).await);
    let running = running_import(&daemon, file.slice(..file.len() / 2));
    let (sender, upload) = tokio::time::timeout(SOON, running).await.expect("the first import runs");
    drop(sender);
    let cut = upload.await.unwrap().unwrap_err();
    assert_eq!(cut.code(), Some(ErrorCode::Refused), "{cut}");
    daemon.client.import_snapshot(file, &ImportOptions::default()).await.unwrap();
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_that_is_killed_during_an_import_has_nothing_of_it() {
    let first = Daemon::start().await;
    let sandbox = first.sandbox("chat:1").await;
    first.output(&sandbox, "head -c 40000000 /dev/urandom > large").await;
    let snapshot_id = snapshot(&first, &sandbox).await.snapshot.snapshot_id;
    let file = Bytes::from(exported(&first, &snapshot_id).await);
    first.stop().await;

    let home = Home::new();
    let port = free_port();
    let daemon = DaemonProcess::start(&home, port).await;
    let (_sender, upload) = stalled(&daemon.client, file.slice(..file.len() - 1000));
    let packs = home.path().join("state/snapshots/packs");
    until("chunks are stored", || async { std::fs::read_dir(&packs).is_ok_and(|dir| dir.count() > 0) }).await;
    daemon.kill().await;
    tokio::time::timeout(SOON, upload).await.unwrap().unwrap().unwrap_err();

    let daemon = Daemon::start_in(home).await;
    assert_eq!(manifests(&daemon.home), Vec::<PathBuf>::new());
    daemon.client.import_snapshot(file, &ImportOptions::default()).await.unwrap();
    assert_eq!(manifests(&daemon.home).len(), 1);
    daemon.stop().await;
}

/// The files in the daemon's home whose names begin so.
fn found(daemon: &Daemon, prefix: &str) -> usize {
    let entries = std::fs::read_dir(daemon.home.path()).unwrap();
    entries.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(prefix)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_exports_and_imports_whole_files_only() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "head -c 20000000 /dev/urandom > large").await;
    let snapshot_id = snapshot(&daemon, &sandbox).await.snapshot.snapshot_id.to_string();
    assert_eq!(program(&daemon, &["export", &snapshot_id]).await, (Some(0), String::new()));
    let file = format!("{snapshot_id}.snapshot");
    let (code, printed) = program(&daemon, &["import", &file, "--name", "from a file"]).await;
    assert!(code == Some(0) && printed.starts_with("snap_") && printed.contains("from a file"), "{printed}");

    let whole = std::fs::read(daemon.home.path().join(&file)).unwrap();
    std::fs::write(daemon.home.path().join("half"), &whole[..whole.len() / 2]).unwrap();
    let (code, printed) = program(&daemon, &["import", "half"]).await;
    assert!(code == Some(1) && printed.contains("it is incomplete"), "{printed}");

    // A pack that is read late is damaged.
    let packs = packs_of(&daemon.home);
    let newest =
        packs.iter().max_by_key(|pack| std::fs::metadata(pack).unwrap().modified().unwrap()).unwrap();
    damage(newest);
    let (code, printed) = program(&daemon, &["export", &snapshot_id, "damaged"]).await;
    assert!(code == Some(1) && printed.contains("the file is incomplete"), "{printed}");
    assert_eq!((found(&daemon, "damaged"), found(&daemon, ".sandboxd-export-")), (0, 0));
    daemon.stop().await;
}
