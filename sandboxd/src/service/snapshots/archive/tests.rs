//! Files of hand-made trees, valid and hostile ones.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use prost::Message;
use sandbox_api::{SandboxId, SnapshotId};
use snapshot_format::archive::{Encoder, Header, MAX_DEPTH, MAX_SIZE_BYTES, Totals};
use snapshot_format::content::NODE_SEGMENTS;
use snapshot_format::{Compressor, Content, ContentBuilder, Entry, Hash, Kind, Segment};

use super::super::chunks;
use super::super::pins::Pins;
use super::export::Exporter;
use super::import::{Stopped, receive_tree};
use super::incoming::Incoming;
use crate::model::{Owner, Refusal, SnapshotRecord, SnapshotState};
use crate::packs::Packs;
use crate::service::{Error, SnapshotError};

/// Chunks in the order of a file, and the tree that they are.
#[derive(Debug, Default)]
struct Tree {
    chunks: Vec<Vec<u8>>,
    root: Content,
}

/// Names chunks, without storing them.
pub(super) fn content_of(chunks: &[&[u8]]) -> Content {
    let mut builder = ContentBuilder::default();
    let mut node = |_: &[u8]| Err(());
    for chunk in chunks {
        let segment = Segment::Chunk { hash: Hash::of(chunk), length: chunk.len() as u64 };
        builder.push(&segment, &mut node).unwrap();
    }
    builder.finish(node).unwrap()
}

fn entry(name: impl Into<Bytes>, kind: Kind, content: Option<Content>) -> Entry {
    Entry { name: name.into(), kind: kind.into(), mode: 0o644, content, ..Entry::default() }
}

fn link(kind: Kind, name: &'static str, target: &'static str) -> Entry {
    Entry { mode: 0, target: target.into(), ..entry(name, kind, None) }
}

fn directory(entries: &[Entry]) -> Vec<u8> {
    entries.iter().flat_map(Message::encode_length_delimited_to_vec).collect()
}

/// A tree whose workspace has these entries. `contents` are their chunks, in the order of a walk.
fn tree(entries: &[Entry], contents: &[&[u8]]) -> Tree {
    let workspace = directory(entries);
    let root = directory(&[entry("workspace", Kind::Directory, Some(content_of(&[&workspace])))]);
    let contents = contents.iter().map(|chunk| chunk.to_vec());
    Tree { root: content_of(&[&root]), chunks: [root, workspace].into_iter().chain(contents).collect() }
}

/// A tree with what a tree can have.
fn sample() -> Tree {
    let inner = directory(&[entry("same", Kind::File, Some(content_of(&[b"first", b"second"])))]);
    let entries = [
        entry("a", Kind::File, Some(content_of(&[b"first", b"second", b"first"]))),
        link(Kind::HardLink, "b", "workspace/a"),
        entry(&b"c\xff"[..], Kind::File, Some(Content::default())),
        entry("d", Kind::Directory, Some(content_of(&[&inner]))),
        entry("e", Kind::Directory, Some(content_of(&[&inner]))),
        entry("f", Kind::Directory, Some(Content::default())),
        link(Kind::SymbolicLink, "g", "/etc/passwd"),
        entry("h", Kind::Fifo, None),
    ];
    tree(&entries, &[b"first", b"second", &inner])
}

fn file_of(Tree { chunks, root }: &Tree) -> Vec<u8> {
    let header = Header { name: Some("name".into()), root: root.clone(), ..Header::default() };
    let mut out = Vec::new();
    let mut encoder = Encoder::new(&header, &mut out);
    let mut compressor = Compressor::new().unwrap();
    for chunk in chunks {
        let compressed = compressor.compress(chunk).unwrap();
        encoder.chunk(Hash::of(chunk), chunk.len() as u32, &compressed, &mut out);
    }
    encoder.finish(&mut out);
    out
}

pub(super) async fn packs() -> (tempfile::TempDir, Packs) {
    let dir = tempfile::tempdir().unwrap();
    let packs = chunks::open(dir.path()).await.unwrap();
    (dir, packs)
}

pub(super) async fn received(packs: &Packs, file: &[u8]) -> Result<(Header, Totals), Error> {
    let pieces: Vec<_> = file.chunks(1000).map(Bytes::copy_from_slice).map(Ok::<_, Infallible>).collect();
    let incoming = Incoming::new(packs, futures::stream::iter(pieces).boxed()).unwrap();
    match receive_tree(&incoming).await {
        Ok(received) => {
            incoming.seal().await.unwrap();
            Ok(received)
        }
        Err(Stopped::Failed(error)) => Err(error),
        Err(Stopped::Source) => panic!("the source does not fail"),
    }
}

/// Exports what was imported.
pub(super) async fn exported(packs: &Packs, header: &Header, totals: Totals) -> Result<Vec<u8>, Error> {
    let record = SnapshotRecord {
        id: SnapshotId::random().unwrap(),
        sandbox: SandboxId::random().unwrap(),
        owner: Owner::default(),
        session_key: None,
        name: header.name.clone(),
        created_at_ms: header.created_at_ms,
        expires_at_ms: None,
        root: header.root.encode_to_vec(),
        values: header.values.as_ref().map(Message::encode_to_vec),
        parent: None,
        size_bytes: totals.size_bytes,
        new_bytes: 0,
        files: totals.files,
        automatic: false,
        command: None,
        state: SnapshotState::Complete,
    };
    let pin = Pins::default().pin(&record.id).unwrap();
    let permit = Arc::new(tokio::sync::Semaphore::new(1)).try_acquire_owned().unwrap();
    let mut exporter = Exporter::new(packs, &record, pin, permit)?;
    let mut file = Vec::new();
    while let Some(bytes) = exporter.next_batch().await? {
        file.extend(bytes);
    }
    Ok(file)
}

/// Why a file is rejected.
pub(super) async fn problem(packs: &Packs, file: &[u8]) -> String {
    match received(packs, file).await {
        Err(Error::Snapshot(SnapshotError::ImportRejected { source })) => source.to_string(),
        other => panic!("not rejected as a file: {other:?}"),
    }
}

#[tokio::test]
async fn an_import_is_exported_as_the_same_file() {
    let (_dir, first) = packs().await;
    let (_dir, second) = packs().await;
    let tree = sample();
    let (header, totals) = received(&first, &file_of(&tree)).await.unwrap();
    assert_eq!((header.name.as_deref(), &header.root), (Some("name"), &tree.root));
    let size_bytes = (5 + 6 + 5) + 2 * (5 + 6);
    let expected = Totals { entries: 11, files: 4, size_bytes, stored_bytes: size_bytes };
    assert_eq!(totals, expected);

    let file = exported(&first, &header, totals).await.unwrap();
    let (copied, copied_totals) = received(&second, &file).await.unwrap();
    assert_eq!((&copied.root, copied_totals), (&header.root, totals));
    assert_eq!(exported(&second, &copied, totals).await.unwrap(), file);
}

#[tokio::test]
async fn a_file_with_more_chunks_than_a_batch_and_a_node_comes_back() {
    let (_dir, first) = packs().await;
    let (_dir, second) = packs().await;
    let chunks: Vec<Vec<u8>> = (0..NODE_SEGMENTS as u32 + 100).map(|at| at.to_le_bytes().to_vec()).collect();
    let mut nodes = Vec::new();
    let mut builder = ContentBuilder::default();
    let mut node = |node: &[u8]| {
        nodes.push(node.to_vec());
        Ok::<_, Infallible>(Hash::of(node))
    };
    for chunk in &chunks {
        let segment = Segment::Chunk { hash: Hash::of(chunk), length: chunk.len() as u64 };
        builder.push(&segment, &mut node).unwrap();
    }
    builder.push(&Segment::Hole { length: 1 << 40 }, &mut node).unwrap();
    let content = builder.finish(&mut node).unwrap();
    let (full, rest) = chunks.split_at(NODE_SEGMENTS);
    let ordered: Vec<&[u8]> =
        [&nodes[..1], full, &nodes[1..], rest].concat().leak().iter().map(|c| &c[..]).collect();
    let tree = tree(&[entry("large", Kind::File, Some(content))], &ordered);
    let (header, totals) = received(&first, &file_of(&tree)).await.unwrap();
    assert_eq!((totals.size_bytes, totals.stored_bytes), ((1 << 40) + 4496, 4496));
    let file = exported(&first, &header, totals).await.unwrap();
    received(&second, &file).await.unwrap();
}

#[tokio::test]
async fn a_damaged_store_ends_an_export_with_an_error() {
    let (dir, packs) = packs().await;
    let (header, totals) = received(&packs, &file_of(&sample())).await.unwrap();
    for found in std::fs::read_dir(dir.path().join("snapshots/packs")).unwrap() {
        for pack in std::fs::read_dir(found.unwrap().path()).unwrap() {
            std::fs::remove_file(pack.unwrap().path()).unwrap();
        }
    }
    let packs = chunks::open(dir.path()).await.unwrap();
    let damaged = exported(&packs, &header, totals).await;
    assert!(matches!(damaged, Err(Error::Snapshot(SnapshotError::Damaged { .. }))), "{damaged:?}");
}

#[tokio::test]
async fn only_the_chunks_of_the_tree_in_their_order_are_accepted() {
    let (_dir, packs) = packs().await;
    // Chunks in the store do not replace chunks that the file lacks.
    received(&packs, &file_of(&sample())).await.unwrap();
    let count = sample().chunks.len();
    for at in 0..count {
        let mut missing = sample();
        missing.chunks.remove(at);
        let why = problem(&packs, &file_of(&missing)).await;
        assert!(why.contains(if at + 1 < count { "comes next" } else { "is missing" }), "{at}: {why}");
        let mut twice = sample();
        twice.chunks.insert(at, twice.chunks[at].clone());
        let why = problem(&packs, &file_of(&twice)).await;
        assert!(why.contains(if at + 1 < count { "comes next" } else { "nothing refers to" }), "{at}: {why}");
    }
    let mut unused = sample();
    unused.chunks.push(b"nothing names this".to_vec());
    assert!(problem(&packs, &file_of(&unused)).await.contains("nothing refers to"));
    let mut other = sample();
    other.chunks.swap(2, 3);
    assert!(problem(&packs, &file_of(&other)).await.contains("comes next"));
    let trailing = [file_of(&sample()), b"x".to_vec()].concat();
    assert_eq!(problem(&packs, &trailing).await, "more bytes follow its end");
}

#[tokio::test]
async fn trees_that_no_workspace_can_have_are_rejected() {
    let (_dir, packs) = packs().await;
    let file = |name: &'static str| entry(name, Kind::File, Some(Content::default()));
    let cases: Vec<(Vec<Entry>, &str)> = vec![
        (vec![file("..")], "not valid"),
        (vec![file(".")], "not valid"),
        (vec![file("")], "not valid"),
        (vec![file("a/b")], "not valid"),
        (vec![file("a\0")], "not valid"),
        (vec![file("b"), file("a")], "not in order"),
        (vec![file("a"), file("a")], "not in order"),
        (vec![Entry { kind: 7, ..file("device") }], "kind is unknown"),
        (vec![Entry { mode: 0o20_644, ..file("device") }], "mode"),
        (vec![link(Kind::HardLink, "a", "/etc/passwd")], "relative path"),
        (vec![link(Kind::HardLink, "a", "workspace/b"), file("b")], "does not have"),
        (vec![link(Kind::HardLink, "a", "workspace/a")], "does not have"),
        (vec![entry("a", Kind::File, None)], "content"),
    ];
    for (entries, why) in cases {
        let rejected = problem(&packs, &file_of(&tree(&entries, &[]))).await;
        assert!(rejected.contains(why), "{entries:?}: {rejected}");
    }
    let elsewhere = directory(&[entry("etc", Kind::Directory, Some(Content::default()))]);
    let elsewhere = Tree { root: content_of(&[&elsewhere]), chunks: vec![elsewhere] };
    assert!(problem(&packs, &file_of(&elsewhere)).await.contains("in its root"));
    let mut longer = content_of(&[b"chunk"]);
    longer.size += 1;
    let longer = tree(&[entry("a", Kind::File, Some(longer))], &[b"chunk"]);
    assert!(problem(&packs, &file_of(&longer)).await.contains("another size"));
}

fn nested(depth: usize) -> Tree {
    let mut chunks = vec![directory(&[])];
    let mut content = Content::default();
    for _ in 0..depth {
        let outer = directory(&[entry("workspace", Kind::Directory, Some(content))]);
        content = content_of(&[&outer]);
        chunks.push(outer);
    }
    chunks.remove(0);
    chunks.reverse();
    Tree { root: content, chunks }
}

#[tokio::test]
async fn a_tree_is_as_deep_as_a_snapshot_can_be() {
    let (_dir, packs) = packs().await;
    received(&packs, &file_of(&nested(MAX_DEPTH))).await.unwrap();
    assert!(problem(&packs, &file_of(&nested(MAX_DEPTH + 1))).await.contains("deeper than"));
}

fn assert_too_large(received: Result<(Header, Totals), Error>) {
    let is_too_large = matches!(&received, Err(Error::Refused(Refusal::TooMany { .. })));
    assert!(is_too_large, "{received:?}");
}

#[tokio::test]
async fn sizes_that_no_disk_has_are_rejected() {
    let (_dir, packs) = packs().await;
    let hole = [&[0; Hash::BYTES][..], &(1_u64 << 44).to_le_bytes()].concat();
    let sparse = Content { size: 1 << 44, depth: 0, segments: hole.into() };
    let names = (0..=MAX_SIZE_BYTES >> 44).map(|number| format!("{number:08}"));
    let entries: Vec<Entry> = names.map(|name| entry(name, Kind::File, Some(sparse.clone()))).collect();
    let workspace = directory(&entries);
    let parts: Vec<&[u8]> = workspace.chunks(snapshot_format::MAX_CHUNK_BYTES).collect();
    let root = directory(&[entry("workspace", Kind::Directory, Some(content_of(&parts)))]);
    let chunks = std::iter::once(&root[..]).chain(parts.iter().copied()).map(<[u8]>::to_vec).collect();
    assert_too_large(received(&packs, &file_of(&Tree { root: content_of(&[&root]), chunks })).await);
}

#[tokio::test]
async fn a_header_that_no_export_has_is_rejected() {
    let (_dir, packs) = packs().await;
    let with = |header: Header| {
        let mut out = Vec::new();
        Encoder::new(&header, &mut out).finish(&mut out);
        out
    };
    let name = |name: &str| with(Header { name: Some(name.to_owned()), ..Header::default() });
    for file in [name(""), name("a\u{1b}[2J"), name(&"x".repeat(201))] {
        assert!(problem(&packs, &file).await.contains("its name"));
    }
    let early = with(Header { created_at_ms: -1, ..Header::default() });
    assert!(problem(&packs, &early).await.contains("its time"));
    received(&packs, &name("a snapshot of nothing")).await.unwrap();
}

/// A change of a file.
#[derive(Debug, Clone)]
enum Mutation {
    Flip { at: usize, bit: u8 },
    Set { at: usize, byte: u8 },
    Remove { at: usize, length: usize },
    Insert { at: usize, bytes: Vec<u8> },
    Repeat { at: usize, length: usize },
    Cut { at: usize },
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let at = any::<usize>;
    prop_oneof![
        (at(), 0..8_u8).prop_map(|(at, bit)| Mutation::Flip { at, bit }),
        (at(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set { at, byte }),
        (at(), 1..100_usize).prop_map(|(at, length)| Mutation::Remove { at, length }),
        (at(), prop::collection::vec(any::<u8>(), 1..50))
            .prop_map(|(at, bytes)| Mutation::Insert { at, bytes }),
        (at(), 1..300_usize).prop_map(|(at, length)| Mutation::Repeat { at, length }),
        at().prop_map(|at| Mutation::Cut { at }),
    ]
}

impl Mutation {
    fn apply(self, file: &mut Vec<u8>) {
        let place = |at: usize| at % file.len().max(1);
        let range = |at: usize, length: usize| place(at)..(place(at) + length).min(file.len());
        match self {
            _ if file.is_empty() => {}
            Self::Flip { at, bit } => {
                let at = place(at);
                file[at] ^= 1 << bit;
            }
            Self::Set { at, byte } => {
                let at = place(at);
                file[at] = byte;
            }
            Self::Remove { at, length } => drop(file.drain(range(at, length))),
            Self::Insert { at, bytes } => {
                let at = place(at);
                file.splice(at..at, bytes);
            }
            Self::Repeat { at, length } => file.extend_from_within(range(at, length)),
            Self::Cut { at } => file.truncate(place(at)),
        }
    }
}

/// Also if the changed file has the right checksum, so that only the tree can tell.
#[test]
fn a_changed_file_is_never_another_snapshot() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_dir, packs) = runtime.block_on(packs());
    let original = file_of(&sample());
    let mut runner = TestRunner::new(ProptestConfig { cases: 2000, ..ProptestConfig::default() });
    let changes = (prop::collection::vec(mutation(), 1..4), any::<bool>());
    let tested = runner.run(&changes, |(mutations, is_resealed)| {
        let mut file = original.clone();
        if is_resealed {
            file.truncate(original.len() - Hash::BYTES);
        }
        mutations.into_iter().for_each(|mutation| mutation.apply(&mut file));
        if is_resealed {
            let seal = *Hash::of(&file).as_bytes();
            file.extend(seal);
        }
        match runtime.block_on(received(&packs, &file)) {
            Ok((header, _)) => prop_assert_eq!(header.root, sample().root),
            Err(
                Error::Snapshot(SnapshotError::ImportRejected { .. })
                | Error::Refused(Refusal::TooMany { .. }),
            ) => {}
            Err(error) => prop_assert!(false, "{:?}", error),
        }
        Ok(())
    });
    tested.unwrap();
}
