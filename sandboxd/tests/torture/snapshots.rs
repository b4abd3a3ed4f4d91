//! The seams of snapshots: what the requests need that reach them, and what must hold after the daemon's death there.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sandbox_api::sandbox::{CreateSandbox, ListSandboxes, WorkspaceSource};
use sandbox_api::snapshot::{CheckSnapshots, ForkSandbox, MakeSnapshot, RestoreSnapshot};
use sandbox_api::{ErrorCode, SandboxId, SnapshotId};
use sandbox_client::{Client, Error};
use tokio::time::sleep;

use crate::seams::{SEAM, create};
use crate::world::{POLL, SETTLED, World};
use test_daemon::{outcome, script};

/// What a case needs of snapshots.
pub(crate) enum Needed {
    Nothing,
    /// A snapshot of the first sandbox, from which all of them differ.
    Changed(SnapshotId),
    /// A snapshot of each sandbox, to be deleted.
    Each(Vec<SnapshotId>),
    /// A snapshot that a collection must keep.
    Kept(Kept),
    /// A snapshot that has intact chunks in a damaged pack, and the name of the pack.
    Repaired(Kept, OsString),
}

/// A snapshot that shares a pack with deleted ones.
pub(crate) struct Kept {
    sandbox: SandboxId,
    snapshot: SnapshotId,
    /// Its files, as [`LIST`] prints them.
    files: String,
}

const LIST: &str = "sha256sum *";

async fn run(client: &Client, sandbox: &SandboxId, text: &str) -> Result<String, Error> {
    Ok(outcome(client.run(sandbox, &script(text)).await?).await.text())
}

async fn make(client: &Client, sandbox: &SandboxId) -> Result<SnapshotId, Error> {
    Ok(client.make_snapshot(sandbox, &MakeSnapshot::default()).await?.snapshot.snapshot_id)
}

async fn restore(client: &Client, sandbox: &SandboxId, snapshot: &SnapshotId) -> Result<(), Error> {
    let body = RestoreSnapshot { snapshot_id: snapshot.clone(), force: Some(true) };
    client.restore_snapshot(sandbox, &body).await.map(drop)
}

/// Makes what the request needs that reaches the seams of this act.
pub(crate) async fn prepare(world: &World, act: &str, sandboxes: &[SandboxId]) -> Needed {
    match act {
        "restore" | "seed" => Needed::Changed(changed_since_snapshot(&world.client, sandboxes).await),
        "discard" => {
            let mut made = Vec::new();
            for sandbox in sandboxes {
                made.push(make(&world.client, sandbox).await.unwrap());
            }
            Needed::Each(made)
        }
        _ => Needed::Nothing,
    }
}

/// Makes a snapshot of the first sandbox, and changes all of them.
async fn changed_since_snapshot(client: &Client, sandboxes: &[SandboxId]) -> SnapshotId {
    let fill = "mkdir -p d; for i in $(seq 500); do echo $i > d/$i; done; echo snapshot > state";
    run(client, &sandboxes[0], fill).await.unwrap();
    client.put_value(&sandboxes[0], "state", "snapshot").await.unwrap();
    let made = make(client, &sandboxes[0]).await.unwrap();
    for sandbox in sandboxes {
        let change = "rm -rf d; mkdir d; echo changed > state; echo other > d/7; echo new > d/new";
        run(client, sandbox, change).await.unwrap();
        client.put_value(sandbox, "state", "changed").await.unwrap();
    }
    made
}

/// Sends the request that reaches the seams of this act.
pub(crate) async fn reach(
    client: &Client,
    act: &str,
    sandbox: &SandboxId,
    number: usize,
    needed: &Needed,
) -> Result<(), Error> {
    let session_key = format!("chat:seam-{}", number + 3);
    match (act, needed) {
        ("restore", Needed::Changed(snapshot)) => restore(client, sandbox, snapshot).await,
        ("seed", Needed::Changed(snapshot)) => {
            let workspace = Some(WorkspaceSource::snapshot(snapshot.clone()));
            let request = CreateSandbox { session_key, workspace, ..CreateSandbox::default() };
            client.create_or_reconnect(&request).await.map(drop)
        }
        ("discard", Needed::Each(snapshots)) => client.delete_snapshot(&snapshots[number]).await,
        ("fork", _) => client.fork(sandbox, &ForkSandbox { session_keys: vec![session_key] }).await.map(drop),
        _ => make(client, sandbox).await.map(drop),
    }
}

/// Checks the snapshots after the death at a seam.
pub(crate) async fn check(world: &mut World, case: &str, needed: Needed) {
    match needed {
        Needed::Nothing => {}
        Needed::Changed(_) if case.starts_with("seed.") => {}
        Needed::Changed(_) => are_whole(world, case).await,
        Needed::Each(snapshots) => are_deleted(world, case, &snapshots).await,
        Needed::Kept(kept) => is_kept(world, case, &kept).await,
        Needed::Repaired(kept, pack) => {
            is_kept(world, case, &kept).await;
            is_repaired(world, case, &pack).await;
            is_kept(world, case, &kept).await;
        }
    }
    if case.starts_with("fork.") {
        // The first fork of the second visit was answered.
        let key = if case.ends_with(":2") { "chat:seam-4" } else { "chat:seam-3" };
        does_not_exist(world, case, key).await;
    }
    if ["snapshot.", "fork.", "restore.", "seed.", "discard.", "collect.", "quarantine."]
        .iter()
        .any(|act| case.contains(act))
    {
        are_sound(world, case).await;
    }
}

/// Checks that the files and values of each sandbox are those of the snapshot, or those from before the restore.
async fn are_whole(world: &mut World, case: &str) {
    for key in ["chat:seam-1", "chat:seam-2"] {
        let files = async {
            let sandbox = create(&world.client, key).await?;
            let files = run(&world.client, &sandbox, "cat state; ls d | wc -l; cat d/7").await?;
            let value = world.client.get_value(&sandbox, "state").await?;
            Ok::<_, Error>((files, String::from_utf8_lossy(&value).into_owned()))
        };
        match files.await.as_ref().map(|(files, value)| (files.as_str(), value.as_str())) {
            Ok(("snapshot\n500\n7\n", "snapshot") | ("changed\n2\nother\n", "changed")) => {}
            other => world.found(format!("{case}: {key} has the state of two snapshots: {other:?}")),
        }
    }
}

/// Checks that a fork that was interrupted has left nothing.
async fn does_not_exist(world: &mut World, case: &str, key: &str) {
    let session = ListSandboxes { session_key: Some(key.into()), ..ListSandboxes::default() };
    match world.client.list(&session).await {
        Ok(listed) if listed.sandboxes.is_empty() => {}
        other => world.found(format!("{case}: {key} is part of a fork that was not answered: {other:?}")),
    }
}

/// Checks that snapshots whose delete was interrupted can be deleted.
async fn are_deleted(world: &mut World, case: &str, snapshots: &[SnapshotId]) {
    for snapshot in snapshots {
        match world.client.delete_snapshot(snapshot).await {
            Ok(()) => {}
            Err(error) if error.code() == Some(ErrorCode::NotFound) => {}
            Err(error) => world.found(format!("{case}: {snapshot} cannot be deleted: {error:?}")),
        }
        let found = world.client.snapshot(snapshot).await;
        if !found.as_ref().is_err_and(|error| error.code() == Some(ErrorCode::NotFound)) {
            world.found(format!("{case}: {snapshot} is deleted and found: {found:?}"));
        }
    }
}

/// Makes two snapshots that share a pack. The second one does not need the last `unneeded_bytes` of it. Returns the first
/// one, too.
async fn share_a_pack(client: &Client, unneeded_bytes: u64) -> (SnapshotId, Kept) {
    let sandbox = create(client, "chat:seam-1").await.unwrap();
    let fill = format!("head -c 100000 /dev/urandom > kept; head -c {unneeded_bytes} /dev/urandom > large");
    run(client, &sandbox, &fill).await.unwrap();
    let first = make(client, &sandbox).await.unwrap();
    run(client, &sandbox, "rm large").await.unwrap();
    let snapshot = make(client, &sandbox).await.unwrap();
    let files = run(client, &sandbox, LIST).await.unwrap();
    (first, Kept { sandbox, snapshot, files })
}

/// Ends the daemon while it collects the chunks of deleted snapshots, which a start does that has too little space.
pub(crate) async fn die_in_a_collection(world: &mut World, seam: &str) -> Kept {
    let client = world.client.clone();
    let (first, kept) = share_a_pack(&client, 2_000_000).await;
    let sandbox = &kept.sandbox;
    run(&client, sandbox, "head -c 2000000 /dev/urandom > large").await.unwrap();
    let last = make(&client, sandbox).await.unwrap();
    for deleted in [first, last] {
        client.delete_snapshot(&deleted).await.unwrap();
    }
    world.kill().await;
    world.arm(seam);
    world.spawn();
    if !world.dies_within(SEAM).await {
        world.found(format!("{seam} was not come to in a start"));
        world.kill().await;
    }
    kept
}

/// Ends the daemon while it moves a damaged pack aside, in which a snapshot has intact chunks.
pub(crate) async fn die_in_a_repair(world: &mut World, seam: &str) -> Needed {
    let client = world.client.clone();
    let earlier = packs(world);
    let (first, kept) = share_a_pack(&client, 50_000).await;
    client.delete_snapshot(&first).await.unwrap();
    let added = packs(world).into_iter().filter(|pack| !earlier.contains(pack));
    let pack = added.max_by_key(|(_, bytes)| *bytes).unwrap().0;
    let file = std::fs::OpenOptions::new().write(true).open(&pack).unwrap();
    file.write_all_at(&[0; 64], 125_000).unwrap();
    world.arm(seam);
    let _no_response = client.check_snapshots(&CheckSnapshots::default()).await;
    if !world.dies_within(SEAM).await {
        world.found(format!("{seam} was not come to"));
        world.kill().await;
    }
    Needed::Repaired(kept, pack.file_name().unwrap().to_owned())
}

/// All packs, with their sizes in bytes.
fn packs(world: &World) -> Vec<(PathBuf, u64)> {
    files_below(&world.home.path().join("state/snapshots/packs"))
}

fn files_below(directory: &Path) -> Vec<(PathBuf, u64)> {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let below = |entry: std::fs::DirEntry| match entry.metadata().unwrap() {
        found if found.is_dir() => files_below(&entry.path()),
        found => vec![(entry.path(), found.len())],
    };
    entries.flat_map(below).collect()
}

/// Checks that another check finishes what the interrupted one began, and that the damaged pack still exists.
async fn is_repaired(world: &mut World, case: &str, pack: &OsStr) {
    if let Err(error) = world.client.check_snapshots(&CheckSnapshots::default()).await {
        world.found(format!("{case}: the check cannot be repeated: {error:?}"));
    }
    if !world.home.path().join("state/snapshots/quarantine").join(pack).exists() {
        world.found(format!("{case}: the damaged pack is not in the quarantine"));
    }
}

async fn is_kept(world: &mut World, case: &str, kept: &Kept) {
    let files = async {
        restore(&world.client, &kept.sandbox, &kept.snapshot).await?;
        run(&world.client, &kept.sandbox, LIST).await
    };
    match files.await {
        Ok(files) if files == kept.files => {}
        other => world.found(format!("{case}: a snapshot that was kept has other files: {other:?}")),
    }
}

/// Checks that every chunk of every snapshot is intact.
pub(crate) async fn are_sound(world: &mut World, case: &str) {
    let deadline = Instant::now() + SETTLED;
    loop {
        match world.client.check_snapshots(&CheckSnapshots::default()).await {
            Ok(checked) if checked.ok && !checked.incomplete => return,
            Ok(checked) => return world.found(format!("{case}: snapshots are damaged: {checked:?}")),
            // A collection or another check is under way.
            Err(_) if Instant::now() < deadline => sleep(POLL).await,
            Err(error) => return world.found(format!("{case}: snapshots cannot be checked: {error:?}")),
        }
    }
}
