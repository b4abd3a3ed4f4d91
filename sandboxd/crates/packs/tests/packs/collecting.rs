//! Collections, and writers that work meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use sandboxd_packs::{Collection, Error, Index, Packs, Swept};
use snapshot_format::Hash;
use tokio::sync::Semaphore;

use crate::chunks::{Fixture, bytes, check_stored, contents, hashes, put_into, store};
use crate::memory::MemoryIndex;

/// Removes everything but `kept`.
async fn collect(packs: &Packs, kept: &[Vec<u8>]) -> Swept {
    let collection = packs.begin_collection().await.unwrap();
    mark(&collection, kept).await;
    collection.sweep().await.unwrap()
}

async fn mark(collection: &Collection, kept: &[Vec<u8>]) {
    assert!(collection.mark(&hashes(kept)).await.unwrap().into_iter().all(|is_known| is_known));
}

/// Panics unless no chunk is stored. Looks with an empty cache.
async fn check_gone(fixture: &Fixture, contents: &[Vec<u8>]) {
    let packs = fixture.reopened().await;
    for chunk in hashes(contents) {
        let error = packs.get(chunk).await.unwrap_err();
        assert!(matches!(error, Error::Missing { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn packs_without_a_chunk_in_use_are_removed() {
    let fixture = Fixture::new().await;
    let (kept, dead) = (contents(1, 10, 1000), contents(2, 10, 1000));
    store(&fixture.packs, &kept).await.unwrap();
    store(&fixture.packs, &dead).await.unwrap();
    let swept = collect(&fixture.packs, &kept).await;
    assert_eq!((swept.removed_packs, swept.new_packs), (1, 0));
    assert_eq!(fixture.pack_files().len(), 1);
    check_stored(&fixture.reopened().await, &kept).await;
    check_gone(&fixture, &dead).await;
    assert_eq!(collect(&fixture.packs, &kept).await, Swept::default());
}

#[tokio::test]
async fn mostly_dead_packs_are_rewritten_into_one() {
    let fixture = Fixture::new().await;
    let mut kept = Vec::new();
    for seed in 0..4 {
        let all = contents(seed, 100, 20_000);
        store(&fixture.packs, &all).await.unwrap();
        kept.extend_from_slice(&all[20..60]);
    }
    let swept = collect(&fixture.packs, &kept).await;
    assert_eq!((swept.removed_packs, swept.new_packs, swept.damaged_chunks), (4, 1, 0));
    assert_eq!(fixture.pack_files().len(), 1);
    check_stored(&fixture.reopened().await, &kept).await;
    assert_eq!(collect(&fixture.packs, &kept).await, Swept::default());
}

#[tokio::test]
async fn a_rewritten_pack_may_need_two_new_ones() {
    let fixture = Fixture::new().await;
    let mut kept = Vec::new();
    for seed in 0..5 {
        let all = contents(seed, 160, 48_000);
        store(&fixture.packs, &all).await.unwrap();
        kept.extend_from_slice(&all[..70]);
    }
    let swept = collect(&fixture.packs, &kept).await;
    assert_eq!((swept.removed_packs, swept.new_packs), (5, 3));
    check_stored(&fixture.reopened().await, &kept).await;
}

#[tokio::test]
async fn packs_that_are_mostly_in_use_stay() {
    let fixture = Fixture::new().await;
    let all = contents(1, 10, 1000);
    store(&fixture.packs, &all).await.unwrap();
    assert_eq!(collect(&fixture.packs, &all[..6]).await, Swept::default());
    // A dead chunk that is still there is used again.
    assert_eq!(store(&fixture.packs, &all).await.unwrap().new_chunks, 0);
}

/// The writer finds a chunk of a snapshot that was just deleted, and finishes between mark and sweep.
#[tokio::test]
async fn a_known_chunk_of_a_writer_that_began_earlier_is_kept() {
    let fixture = Fixture::new().await;
    let all = contents(1, 4, 1000);
    store(&fixture.packs, &all).await.unwrap();
    collect(&fixture.packs, &all).await;
    let mut writer = fixture.packs.writer();
    assert_eq!(writer.claim(&hashes(&all[..1])).await.unwrap(), [true]);
    // The collection lists no snapshot: the old one is deleted, and the new one is not recorded yet.
    let collection = fixture.packs.begin_collection().await.unwrap();
    assert_eq!(writer.claim(&hashes(&all[1..2])).await.unwrap(), [true]);
    let finished = writer.finish().await.unwrap();
    drop(finished);
    collection.sweep().await.unwrap();
    check_stored(&fixture.reopened().await, &all[..2]).await;
    // The next one lists it.
    collect(&fixture.packs, &all[..2]).await;
    check_stored(&fixture.reopened().await, &all[..2]).await;
}

#[tokio::test]
async fn what_a_writer_that_begins_later_stores_or_finds_is_kept() {
    let fixture = Fixture::new().await;
    let (old, new) = (contents(1, 10, 1000), contents(2, 10, 1000));
    store(&fixture.packs, &old).await.unwrap();
    let collection = fixture.packs.begin_collection().await.unwrap();
    let mut writer = fixture.packs.writer();
    assert_eq!(put_into(&mut writer, &old[..1]).await.unwrap(), [false]);
    put_into(&mut writer, &new).await.unwrap();
    drop(writer.finish().await.unwrap());
    let swept = collection.sweep().await.unwrap();
    assert_eq!((swept.removed_packs, swept.new_packs), (1, 1));
    check_stored(&fixture.reopened().await, &old[..1]).await;
    check_stored(&fixture.reopened().await, &new).await;
    check_gone(&fixture, &old[1..]).await;
}

#[tokio::test]
async fn a_chunk_that_was_swept_is_stored_again() {
    let fixture = Fixture::new().await;
    let all = contents(1, 3, 1000);
    store(&fixture.packs, &all).await.unwrap();
    let mut writer = fixture.packs.writer();
    drop(writer.claim(&[Hash::of(b"another")]).await.unwrap());
    // This writer has no claim on the chunks, but it began before the collection, so what had no later mark stays.
    assert_eq!(collect(&fixture.packs, &[]).await.removed_packs, 0);
    drop(writer);
    assert_eq!(collect(&fixture.packs, &[]).await.removed_packs, 1);
    let mut writer = fixture.packs.writer();
    assert_eq!(put_into(&mut writer, &all).await.unwrap(), [true; 3]);
    writer.finish().await.unwrap();
    check_stored(&fixture.reopened().await, &all).await;
}

/// The writer's pack is stored and not recorded when the strays are removed and a whole collection runs.
#[tokio::test]
async fn a_pack_on_its_way_is_not_a_stray() {
    let fixture = Fixture::new().await;
    let all = contents(1, 3, 1000);
    let held = Arc::new(Semaphore::new(0));
    *fixture.faults.hold_puts.lock().unwrap() = Some(Arc::clone(&held));
    let writing = tokio::spawn({
        let (packs, all) = (fixture.packs.clone(), all.clone());
        async move { store(&packs, &all).await }
    });
    while fixture.pack_files().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    collect(&fixture.packs, &[]).await;
    assert_eq!(fixture.packs.remove_strays().await.unwrap(), 0);
    *fixture.faults.hold_puts.lock().unwrap() = None;
    held.add_permits(1);
    let finished = writing.await.unwrap().unwrap();
    collect(&fixture.packs, &[]).await;
    assert_eq!(fixture.packs.remove_strays().await.unwrap(), 0);
    check_stored(&fixture.reopened().await, &all).await;
    drop(finished);
}

#[tokio::test]
async fn a_dropped_writer_leaves_strays_that_are_removed() {
    let fixture = Fixture::new().await;
    let mut writer = fixture.packs.writer();
    put_into(&mut writer, &contents(1, 200, 60_000)).await.unwrap();
    drop(writer);
    assert_eq!(fixture.pack_files().len(), 1);
    assert_eq!(fixture.packs.remove_strays().await.unwrap(), 0);
    assert_eq!(collect(&fixture.packs, &[]).await.removed_packs, 1);
    assert!(fixture.pack_files().is_empty());
}

/// Dies at each point of a removal.
#[tokio::test]
async fn an_interrupted_sweep_is_repeated() {
    let fixture = Fixture::new().await;
    let (kept, dead) = (contents(1, 40, 20_000), contents(2, 100, 20_000));
    store(&fixture.packs, &[kept.clone(), dead.clone()].concat()).await.unwrap();
    store(&fixture.packs, &contents(3, 5, 1000)).await.unwrap();
    fixture.faults.cannot_delete.store(true, Ordering::SeqCst);
    let collection = fixture.packs.begin_collection().await.unwrap();
    mark(&collection, &kept).await;
    while collection.sweep().await.is_err() {
        check_stored(&fixture.reopened().await, &kept).await;
    }
    fixture.faults.cannot_delete.store(false, Ordering::SeqCst);

    // This one is interrupted before its sweep.
    let collection = fixture.packs.begin_collection().await.unwrap();
    let reopened = fixture.reopened().await;
    let resumed = reopened.begin_collection().await.unwrap();
    assert!(resumed.is_partial());
    // Of a snapshot that is made and deleted after the interruption.
    let garbage = contents(4, 10, 1000);
    store(&reopened, &garbage).await.unwrap();
    assert_eq!(resumed.generation(), collection.generation());
    mark(&resumed, &kept).await;
    resumed.sweep().await.unwrap();
    reopened.remove_strays().await.unwrap();
    check_stored(&fixture.reopened().await, &kept).await;
    check_gone(&fixture, &dead).await;
    // Only the first collection after an interruption is a continued one.
    let next = reopened.begin_collection().await.unwrap();
    assert!(!next.is_partial() && next.generation() == collection.generation() + 1);
    mark(&next, &kept).await;
    next.sweep().await.unwrap();
    assert_eq!(fixture.pack_files().len(), 1);
    check_stored(&fixture.reopened().await, &kept).await;
    check_gone(&fixture, &garbage).await;
}

#[tokio::test]
async fn a_read_follows_a_chunk_that_moves() {
    let fixture = Fixture::new().await;
    let all = contents(1, 100, 20_000);
    store(&fixture.packs, &all).await.unwrap();
    let kept = all[..30].to_vec();
    // The stream has located its chunks and read the first ones.
    let mut stream = fixture.packs.get_many([hashes(&kept), hashes(&kept)].concat());
    assert_eq!(stream.next().await.unwrap().unwrap().1, kept[0]);
    assert_eq!(collect(&fixture.packs, &kept).await.new_packs, 1);
    let mut read = 1;
    while let Some(next) = stream.next().await {
        assert_eq!(next.unwrap().1, kept[read % kept.len()]);
        read += 1;
    }
    assert_eq!(read, 60);
}

/// Snapshots come and go while collections run, on several threads. Whatever a finished writer referred to is there until its
/// snapshot is deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_in_use_is_lost_among_writers_and_collections() {
    let index: Arc<dyn Index> = Arc::new(MemoryIndex::default());
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let packs = Packs::open_dir(&root, Arc::clone(&index)).await.unwrap();
    let snapshots = Arc::new(Mutex::new(Vec::new()));
    // Writers may be much faster than collections, so they write until enough packs were removed.
    let is_enough = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3)
        .map(|writer| make_snapshots(packs.clone(), Arc::clone(&snapshots), writer, Arc::clone(&is_enough)))
        .map(tokio::spawn)
        .collect();
    let mut removed = 0;
    while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
        is_enough.store(removed >= REMOVED_PACKS, Ordering::SeqCst);
        let collection = packs.begin_collection().await.unwrap();
        let listed = snapshots.lock().unwrap().concat();
        mark(&collection, &listed).await;
        removed += collection.sweep().await.unwrap().removed_packs;
        packs.remove_strays().await.unwrap();
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(removed >= REMOVED_PACKS);
    let kept = snapshots.lock().unwrap().concat();
    collect(&packs, &kept).await;
    check_stored(&Packs::open_dir(&root, index).await.unwrap(), &kept).await;
}

const REMOVED_PACKS: u64 = 10;
/// Far more rounds than that takes, so that the test ends.
const MAX_ROUNDS: u64 = 20_000;
/// So few that most chunks are in no snapshot.
const MAX_SNAPSHOTS: usize = 4;

type Snapshots = Arc<Mutex<Vec<Vec<Vec<u8>>>>>;

async fn make_snapshots(packs: Packs, snapshots: Snapshots, writer: u64, is_enough: Arc<AtomicBool>) {
    for round in (0..MAX_ROUNDS).take_while(|round| *round < 25 || !is_enough.load(Ordering::SeqCst)) {
        // From a small set, so that chunks die and are found again.
        let seed = |chunk: u64| (writer * 31 + round * 7 + chunk * 13) % 60 + 1;
        let all: Vec<_> = (0..8).map(|chunk| bytes(seed(chunk), 3000)).collect();
        let finished = store(&packs, &all).await.unwrap();
        tokio::task::yield_now().await;
        let mut snapshots = snapshots.lock().unwrap();
        snapshots.push(all);
        drop(finished);
        if snapshots.len() > MAX_SNAPSHOTS {
            drop(snapshots.remove(0));
        }
    }
}
