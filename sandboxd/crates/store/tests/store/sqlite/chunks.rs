//! The index of the chunks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use sandboxd_store::{ChunkHash, ChunkIndex, ChunkLocation, ChunkPack, ErrorKind};
use tempfile::TempDir;

async fn new_index() -> (TempDir, ChunkIndex) {
    let dir = tempfile::tempdir().unwrap();
    let index = ChunkIndex::open(dir.path(), None).await.unwrap();
    (dir, index)
}

/// A hash that is different for each number, and in no order.
fn hash(number: u32) -> ChunkHash {
    let mut hash = [0; 32];
    let mut state = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for bytes in hash.chunks_mut(8) {
        state = (state ^ (state >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bytes.copy_from_slice(&state.to_le_bytes());
    }
    hash[..4].copy_from_slice(&number.wrapping_mul(0x9e37_79b1).to_be_bytes());
    hash
}

fn pack(number: u32) -> ChunkPack {
    ChunkPack { name: hash(1_000_000 + number), size_bytes: 8 << 20 }
}

/// Chunks of consecutive numbers in a pack.
fn chunks(pack: &ChunkPack, numbers: std::ops::Range<u32>) -> Vec<(ChunkHash, ChunkLocation)> {
    let at = |(number, position): (u32, u32)| {
        let location =
            ChunkLocation { pack: pack.name, offset: 32 + 10 * position, stored_len: 10, raw_len: 20 };
        (hash(number), location)
    };
    numbers.zip(0..).map(at).collect()
}

fn names(chunks: &[(ChunkHash, ChunkLocation)]) -> Vec<ChunkHash> {
    chunks.iter().map(|(chunk, _)| *chunk).collect()
}

#[tokio::test]
async fn the_first_location_of_a_chunk_stays() {
    let (dir, index) = new_index().await;
    let (first, second) = (pack(1), pack(2));
    let stored = chunks(&first, 0..1200);
    index.record(0, &first, &stored).await.unwrap();
    index.record(0, &first, &stored).await.unwrap();
    index.record(0, &second, &chunks(&second, 1190..1210)).await.unwrap();
    index.close().await;
    let index = ChunkIndex::open(dir.path(), None).await.unwrap();
    let located = index.locate(&names(&stored)).await.unwrap();
    assert!(located.into_iter().zip(&stored).all(|(found, (_, at))| found == Some(*at)));
    let located = index.locate(&[hash(1205), hash(9999), hash(0), hash(0)]).await.unwrap();
    assert_eq!(located[0].unwrap().pack, second.name);
    assert_eq!((located[1], located[2]), (None, located[3]));
    assert_eq!(index.has_packs(&[second.name, hash(1), first.name]).await.unwrap(), [true, false, true]);
    assert!(index.locate(&[]).await.unwrap().is_empty() && index.mark(1, &[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn marks_only_increase_and_decide_what_is_in_use() {
    let (_dir, index) = new_index().await;
    let pack = pack(1);
    let stored = chunks(&pack, 0..4);
    index.record(2, &pack, &stored).await.unwrap();
    index.record(1, &pack, &stored).await.unwrap();
    assert_eq!(
        index.mark(3, &[hash(3), hash(99), hash(1), hash(1)]).await.unwrap(),
        [true, false, true, true]
    );
    assert_eq!(index.mark(2, &names(&stored)).await.unwrap(), [true; 4]);
    let usage = |keep_from| index.packs(keep_from, None, 10);
    assert_eq!(usage(2).await.unwrap()[0].live_chunks, 4);
    let used = usage(3).await.unwrap()[0];
    assert_eq!((used.pack, used.live_chunks, used.live_bytes), (pack, 2, 20));
    assert_eq!(index.chunks_of(pack.name, 3).await.unwrap(), [stored[1], stored[3]]);
    index.record(4, &pack, &stored[..1]).await.unwrap();
    assert_eq!(usage(4).await.unwrap()[0].live_chunks, 1);

    assert!(!index.remove_pack(pack.name, Some(4)).await.unwrap());
    assert!(index.remove_pack(pack.name, Some(5)).await.unwrap());
    assert!(index.remove_pack(pack.name, Some(5)).await.unwrap());
    assert_eq!(index.locate(&names(&stored)).await.unwrap(), [None; 4]);
    assert_eq!(index.mark(9, &names(&stored)).await.unwrap(), [false; 4]);
}

#[tokio::test]
async fn a_pack_is_removed_in_any_case_on_request() {
    let (_dir, index) = new_index().await;
    let pack = pack(1);
    index.record(u64::MAX - 1, &pack, &chunks(&pack, 0..4)).await.unwrap();
    assert!(index.remove_pack(pack.name, None).await.unwrap());
    assert!(index.packs(0, None, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn chunks_move_and_keep_their_marks() {
    let (_dir, index) = new_index().await;
    let (from, other, to) = (pack(1), pack(2), pack(3));
    index.record(5, &from, &chunks(&from, 0..3)).await.unwrap();
    index.record(5, &other, &chunks(&other, 10..11)).await.unwrap();
    let moved = chunks(&to, 9..12);
    index.move_chunks(from.name, &to, &moved).await.unwrap();
    assert_eq!(index.locate(&[hash(10), hash(9)]).await.unwrap()[0].unwrap().pack, other.name);
    let moved = chunks(&to, 1..3);
    index.move_chunks(from.name, &to, &moved).await.unwrap();
    assert_eq!(index.chunks_of(to.name, 5).await.unwrap(), moved);
    assert_eq!(index.chunks_of(from.name, 0).await.unwrap().len(), 1);
    assert_eq!(index.has_packs(&[to.name]).await.unwrap(), [true]);
}

#[tokio::test]
async fn packs_are_listed_in_pages_in_order_of_their_names() {
    let (_dir, index) = new_index().await;
    for number in 0..7 {
        index.record(0, &pack(number), &[]).await.unwrap();
    }
    let mut listed = Vec::new();
    loop {
        let page = index.packs(0, listed.last().copied(), 3).await.unwrap();
        if page.is_empty() {
            break;
        }
        listed.extend(page.iter().map(|used| used.pack.name));
    }
    let names: BTreeSet<_> = (0..7).map(|number| pack(number).name).collect();
    assert_eq!(listed, names.into_iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn the_generation_and_completeness_are_kept() {
    let (dir, index) = new_index().await;
    assert_eq!((index.generation().await.unwrap(), index.is_complete().await.unwrap()), (0, false));
    assert_eq!(index.begin_collection(true).await.unwrap(), 1);
    assert_eq!(index.begin_collection(true).await.unwrap(), 1, "the first one has not finished");
    assert_eq!(index.begin_collection(false).await.unwrap(), 2);
    index.finish_collection().await.unwrap();
    assert_eq!(index.begin_collection(true).await.unwrap(), 3);
    index.set_complete().await.unwrap();
    index.close().await;
    let index = ChunkIndex::open(dir.path(), None).await.unwrap();
    assert_eq!((index.generation().await.unwrap(), index.is_complete().await.unwrap()), (3, true));
    assert_eq!(index.begin_collection(true).await.unwrap(), 3);
}

#[tokio::test]
async fn a_file_that_is_not_an_index_is_rejected_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("chunks.sqlite"), "This is not a database. ".repeat(400)).unwrap();
    let error = ChunkIndex::open(dir.path(), None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    assert!(error.advice().unwrap().contains("rebuilt from the packs"));
}

/// Printed for the reader of the test run; for numbers, run it with `--release`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_chunks_are_recorded_quickly() {
    const PACKS: u32 = 21;
    const CHUNKS: u32 = 1000;
    let (_dir, index) = new_index().await;
    let packs: Vec<_> = (0..PACKS)
        .map(|number| (pack(number), chunks(&pack(number), number * CHUNKS..(number + 1) * CHUNKS)))
        .collect();
    let all: Vec<_> = packs.iter().flat_map(|(_, chunks)| names(chunks)).collect();
    let begun = Instant::now();
    assert!(index.mark(1, &all).await.unwrap().into_iter().all(|known| !known));
    let (unknown, begun) = (begun.elapsed(), Instant::now());
    for (pack, chunks) in &packs {
        index.record(0, pack, chunks).await.unwrap();
    }
    let (recorded, begun) = (begun.elapsed(), Instant::now());
    assert!(index.locate(&all).await.unwrap().iter().all(Option::is_some));
    let (located, begun) = (begun.elapsed(), Instant::now());
    assert!(index.mark(1, &all).await.unwrap().into_iter().all(|known| known));
    let (marked, begun) = (begun.elapsed(), Instant::now());
    assert!(index.mark(1, &all).await.unwrap().into_iter().all(|known| known));
    let again = begun.elapsed();
    println!("{} chunks: unknown {unknown:?}, record {recorded:?}, locate {located:?}", all.len());
    println!("mark {marked:?}, mark again {again:?}");
    assert!(recorded < Duration::from_secs(30));
}

#[derive(Debug, Clone)]
enum Step {
    Record { generation: u64, pack: u32, from: u32, count: u32 },
    Mark { generation: u64, from: u32, count: u32 },
    Move { from: u32, to: u32, first: u32, count: u32 },
    Remove { pack: u32, keep_from: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..5_u64, 0..4_u32, 0..30_u32, 0..12_u32).prop_map(|(generation, pack, from, count)| Step::Record {
            generation,
            pack,
            from,
            count
        }),
        (0..5_u64, 0..30_u32, 0..12_u32).prop_map(|(generation, from, count)| Step::Mark {
            generation,
            from,
            count
        }),
        (0..4_u32, 0..4_u32, 0..30_u32, 0..12_u32).prop_map(|(from, to, first, count)| Step::Move {
            from,
            to,
            first,
            count
        }),
        (0..4_u32, 0..6_u64).prop_map(|(pack, keep_from)| Step::Remove { pack, keep_from }),
    ]
}

/// The same in the simplest way.
#[derive(Debug, Default)]
struct Model {
    packs: BTreeSet<ChunkHash>,
    chunks: BTreeMap<ChunkHash, (ChunkLocation, u64)>,
}

impl Model {
    async fn apply(&mut self, index: &ChunkIndex, step: &Step) {
        match *step {
            Step::Record { generation, pack: number, from, count } => {
                let chunks = chunks(&pack(number), from..from + count);
                index.record(generation, &pack(number), &chunks).await.unwrap();
                self.packs.insert(pack(number).name);
                for (chunk, at) in chunks {
                    let (_, mark) = self.chunks.entry(chunk).or_insert((at, generation));
                    *mark = generation.max(*mark);
                }
            }
            Step::Mark { generation, from, count } => {
                let wanted: Vec<_> = (from..from + count).map(hash).collect();
                let known: Vec<_> = wanted.iter().map(|chunk| self.chunks.contains_key(chunk)).collect();
                assert_eq!(index.mark(generation, &wanted).await.unwrap(), known);
                for chunk in wanted {
                    self.chunks.entry(chunk).and_modify(|(_, mark)| *mark = generation.max(*mark));
                }
            }
            Step::Move { from, to, first, count } => {
                let moved = chunks(&pack(to), first..first + count);
                index.move_chunks(pack(from).name, &pack(to), &moved).await.unwrap();
                self.packs.insert(pack(to).name);
                for (chunk, to) in moved {
                    let is_there = |at: &ChunkLocation| at.pack == pack(from).name;
                    self.chunks.entry(chunk).and_modify(|(at, _)| {
                        if is_there(at) {
                            *at = to
                        }
                    });
                }
            }
            Step::Remove { pack: number, keep_from } => {
                let name = pack(number).name;
                let is_live = self.chunks.values().any(|(at, mark)| at.pack == name && *mark >= keep_from);
                assert_eq!(index.remove_pack(name, Some(keep_from)).await.unwrap(), !is_live);
                if !is_live {
                    self.packs.remove(&name);
                    self.chunks.retain(|_, (at, _)| at.pack != name);
                }
            }
        }
    }

    async fn check(&self, index: &ChunkIndex) {
        let all: Vec<_> = (0..50).map(hash).collect();
        let located = index.locate(&all).await.unwrap();
        assert!(
            located
                .into_iter()
                .zip(&all)
                .all(|(found, chunk)| found == self.chunks.get(chunk).map(|(at, _)| *at))
        );
        for keep_from in 0..6 {
            let packs = index.packs(keep_from, None, 100).await.unwrap();
            assert!(packs.iter().map(|used| &used.pack.name).eq(&self.packs));
            for used in packs {
                let live =
                    |(at, mark): &&(ChunkLocation, u64)| at.pack == used.pack.name && *mark >= keep_from;
                let live = self.chunks.values().filter(live).count() as u64;
                assert_eq!((used.live_chunks, used.live_bytes), (live, 10 * live));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn the_index_agrees_with_a_model(steps in prop::collection::vec(step(), 1..20)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (_dir, index) = new_index().await;
            let mut model = Model::default();
            for step in &steps {
                model.apply(&index, step).await;
            }
            model.check(&index).await;
        });
    }
}
