//! Receives a snapshot from an agent, which may be hostile.
//!
//! Each chunk is verified before it is stored. The agent names chunks of unchanged files without sending them, so the new
//! tree is compared with the parent's: every chunk must have been sent with this snapshot, or be that of the same path in
//! the parent. A sandbox can therefore not obtain the content of another one by naming its hash.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use futures::TryStreamExt;
use snapshot_format::content::decode_node;
use snapshot_format::{
    Change, ChunkSource, Content, Decompressor, Differ, Difference, Entry, Hash, Kind, ReadError, Segment,
};
use tokio::task::spawn_blocking;

use super::chunks::PackSource;
use crate::agent::{self, SnapshotPart, SnapshotStream};
use crate::model::layout::{LOCAL_NAME, OUTPUTS_NAME, WORKSPACE_NAME};
use crate::model::snapshot::{MadeSnapshot, SentChunk};
use crate::model::{Refusal, limits};
use crate::packs::{Finished, NewChunk, Packs, Writer};
use crate::service::{Error, SnapshotError};

/// Directories of a sandbox's volume that a snapshot has.
const ROOTS: [&str; 3] = [LOCAL_NAME, OUTPUTS_NAME, WORKSPACE_NAME];

/// A snapshot whose chunks are stored.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) made: MadeSnapshot,
    /// The values of the sandbox, if they are stored with the files.
    pub(super) values: Option<Content>,
    /// Protects the chunks until the snapshot is recorded.
    pub(super) finished: Finished,
    /// Bytes that the agent has sent, before compression.
    pub(super) sent_bytes: u64,
}

/// Receives everything and stores it, with what the writer has already.
pub(super) async fn receive(
    packs: &Packs,
    writer: Writer,
    parts: SnapshotStream,
    parent: Option<&Content>,
) -> Result<Received, Error> {
    receive_within(packs, writer, parts, parent, limits::MAX_SNAPSHOT_VISITS).await
}

/// As [`receive`], with a maximum number of entries and chunks that differ from the parent.
async fn receive_within(
    packs: &Packs,
    writer: Writer,
    mut parts: SnapshotStream,
    parent: Option<&Content>,
    max_visits: usize,
) -> Result<Received, Error> {
    let mut receiver = Receiver::new(writer)?;
    let made = loop {
        match parts.try_next().await? {
            Some(SnapshotPart::Chunks(chunks)) => receiver.add(chunks).await?,
            Some(SnapshotPart::End(made)) => break made,
            None => return Err(malformed("end of the snapshot")),
        }
    };
    let Receiver { writer, sent, sent_bytes, .. } = receiver;
    let finished = writer.finish().await?;
    let mut verifier = Verifier { source: PackSource(packs.clone()), sent, visited: 0, max_visits };
    verifier.verify(&made.root, parent).await?;
    Ok(Received { made, values: None, finished, sent_bytes })
}

struct Receiver {
    writer: Writer,
    sent: Sent,
    sent_bytes: u64,
    decompressor: Option<Decompressor>,
}

impl Receiver {
    fn new(writer: Writer) -> Result<Self, Error> {
        let decompressor = Decompressor::new().map_err(crate::packs::Error::System)?;
        let sent = Sent::default();
        Ok(Self { writer, sent, sent_bytes: 0, decompressor: Some(decompressor) })
    }

    async fn add(&mut self, chunks: Vec<SentChunk>) -> Result<(), Error> {
        if chunks.is_empty() {
            return Ok(());
        }
        self.sent.add(&chunks)?;
        self.sent_bytes += chunks.iter().map(|chunk| u64::from(chunk.length)).sum::<u64>();
        let mut decompressor = match self.decompressor.take() {
            Some(decompressor) => decompressor,
            None => Decompressor::new().map_err(crate::packs::Error::System)?,
        };
        let verified = spawn_blocking(move || {
            let verified = chunks.into_iter().map(|chunk| verify(chunk, &mut decompressor)).collect();
            (verified, decompressor)
        });
        let (verified, decompressor): (Result<Vec<NewChunk>, Error>, _) =
            verified.await.map_err(|source| Error::Task { source })?;
        self.decompressor = Some(decompressor);
        self.writer.put_all(verified?).await?;
        Ok(())
    }
}

fn verify(chunk: SentChunk, decompressor: &mut Decompressor) -> Result<NewChunk, Error> {
    let SentChunk { hash, length, data } = chunk;
    match decompressor.verified(hash, length as usize, &data) {
        Ok(_) => Ok(NewChunk { hash, raw_len: length, compressed: data }),
        Err(_) => Err(malformed("content of a chunk")),
    }
}

/// The chunks that were sent, with their lengths. Keeps 8 bytes of each, by a key that the sandbox does not know.
#[derive(Debug, Default)]
struct Sent {
    key: RandomState,
    hashes: HashSet<u64>,
}

impl Sent {
    fn add(&mut self, chunks: &[SentChunk]) -> Result<(), Error> {
        let sent = chunks.iter().map(|chunk| self.key.hash_one((chunk.hash, u64::from(chunk.length))));
        self.hashes.extend(sent.collect::<Vec<_>>());
        within("new chunks in one snapshot", self.hashes.len(), limits::MAX_SNAPSHOT_CHUNKS)
    }

    fn has(&self, hash: Hash, length: u64) -> bool {
        self.hashes.contains(&self.key.hash_one((hash, length)))
    }
}

fn within(what: &str, number: usize, limit: usize) -> Result<(), Error> {
    match number <= limit {
        true => Ok(()),
        false => Err(Refusal::TooMany { what: what.into(), limit: limit as u64 }.into()),
    }
}

/// Checks that a tree has no chunk which its sandbox does not know.
struct Verifier {
    source: PackSource,
    sent: Sent,
    /// Entries and segments that were looked at. A tree can name the same directory again and again.
    visited: usize,
    max_visits: usize,
}

impl Verifier {
    async fn verify(&mut self, root: &Content, parent: Option<&Content>) -> Result<(), Error> {
        self.verify_tree(root, parent).await.map_err(|error| match error {
            // Not yet a snapshot: if a chunk is not a valid part of a tree, that is the agent's fault. If the packs have lost
            // a chunk, it is not: the agent may have named it.
            Error::Snapshot(SnapshotError::Damaged { source }) if !source.is::<crate::packs::Error>() => {
                malformed("valid tree")
            }
            error => error,
        })
    }

    async fn verify_tree(&mut self, root: &Content, parent: Option<&Content>) -> Result<(), Error> {
        self.check(root, parent).await?;
        let mut differ = Differ::new(self.source.clone(), parent, Some(root))?;
        while let Some(difference) = differ.next().await? {
            self.visit(1)?;
            match difference {
                Difference::Enter(Change { path, old, new: Some(new) }) => {
                    check_root(&path, &new)?;
                    self.check_entry(&new, old.as_ref()).await?;
                }
                Difference::Enter(_) => differ.skip_directory(),
                Difference::Entry(Change { path, old, new: Some(new) }) => {
                    check_root(&path, &new)?;
                    self.check_entry(&new, old.as_ref()).await?;
                }
                Difference::Entry(_) | Difference::Leave(_) => {}
            }
        }
        Ok(())
    }

    fn visit(&mut self, number: usize) -> Result<(), Error> {
        self.visited += number;
        within("entries and chunks in one snapshot", self.visited, self.max_visits)
    }

    async fn check_entry(&mut self, new: &Entry, old: Option<&Entry>) -> Result<(), Error> {
        let old = old.and_then(|old| old.content.as_ref());
        match &new.content {
            Some(new) if Some(new) != old => self.check(new, old).await,
            _ => Ok(()),
        }
    }

    /// Checks one content. A segment must have been sent, or be one of the old content's own at the same depth: the bytes
    /// of a file are not a list of chunks, even if they look like one.
    async fn check(&mut self, new: &Content, old: Option<&Content>) -> Result<(), Error> {
        let known = old.map(Content::segments).transpose().map_err(ReadError::Content)?.unwrap_or_default();
        let known_depth = old.map(|old| old.depth);
        let mut levels = vec![(new.segments().map_err(ReadError::Content)?, new.depth)];
        while let Some((segments, depth)) = levels.pop() {
            self.visit(segments.len())?;
            for segment in segments {
                let Segment::Chunk { hash, length } = segment else { continue };
                if known_depth == Some(depth) && known.contains(&segment) {
                    continue;
                }
                if !self.sent.has(hash, length) {
                    return Err(malformed("chunk of the snapshot"));
                }
                if depth > 0 {
                    let node = self.source.chunk(hash, length).await.map_err(ReadError::Chunk)?;
                    levels.push((decode_node(&node, depth).map_err(ReadError::Content)?, depth - 1));
                }
            }
        }
        Ok(())
    }
}

/// The root has only the directories that a snapshot has.
fn check_root(path: &[u8], entry: &Entry) -> Result<(), Error> {
    if is_root_known(path, entry) { Ok(()) } else { Err(malformed("known directory")) }
}

/// Whether an entry is not in the root, or is one of the directories that a snapshot has there.
pub(super) fn is_root_known(path: &[u8], entry: &Entry) -> bool {
    let is_root = !path.contains(&b'/');
    let is_known = ROOTS.iter().any(|root| root.as_bytes() == path) && entry.kind() == Kind::Directory;
    !is_root || is_known
}

fn malformed(missing: &'static str) -> Error {
    agent::Error::Malformed { missing }.into()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures::StreamExt;
    use prost::Message;
    use snapshot_format::{Compressor, ContentBuilder};

    use super::super::chunks;
    use super::*;

    fn sent(chunk: &[u8]) -> SentChunk {
        let data = Compressor::new().unwrap().compress(chunk).unwrap();
        SentChunk { hash: Hash::of(chunk), length: chunk.len() as u32, data }
    }

    fn content(chunks: &[&[u8]]) -> Content {
        let mut builder = ContentBuilder::default();
        let mut node = |_: &[u8]| Err(());
        for chunk in chunks {
            let segment = Segment::Chunk { hash: Hash::of(chunk), length: chunk.len() as u64 };
            builder.push(&segment, &mut node).unwrap();
        }
        builder.finish(node).unwrap()
    }

    /// An entry of this kind with these chunks, as a directory with nothing else.
    fn directory(name: &'static str, kind: Kind, content: Content) -> Vec<u8> {
        let content = Some(content);
        Entry { name: name.into(), kind: kind.into(), content, ..Entry::default() }
            .encode_length_delimited_to_vec()
    }

    /// A tree whose workspace has one file. Returns the root, and the chunks of its directories.
    fn tree(name: &'static str, file: Content) -> (Content, Vec<Vec<u8>>) {
        let workspace = directory(name, Kind::File, file);
        let root = directory("workspace", Kind::Directory, content(&[&workspace]));
        (content(&[&root]), vec![workspace, root])
    }

    fn parts(chunks: Vec<SentChunk>, root: Content) -> SnapshotStream {
        let made = MadeSnapshot {
            root,
            files: 1,
            directories: 0,
            bytes: 1,
            torn: Vec::new(),
            torn_files: 0,
            paused: false,
        };
        let parts = [Ok(SnapshotPart::Chunks(chunks)), Ok(SnapshotPart::End(made))];
        futures::stream::iter(parts).boxed()
    }

    /// Receives with a writer that has nothing yet.
    async fn receive(
        packs: &Packs,
        parts: SnapshotStream,
        parent: Option<&Content>,
    ) -> Result<Received, Error> {
        super::receive(packs, packs.writer(), parts, parent).await
    }

    async fn receive_from(
        packs: &Packs,
        chunks: &[&[u8]],
        root: &Content,
        parent: Option<&Content>,
    ) -> Result<MadeSnapshot, Error> {
        let chunks = chunks.iter().map(|chunk| sent(chunk)).collect();
        receive(packs, parts(chunks, root.clone()), parent).await.map(|received| received.made)
    }

    async fn packs() -> (tempfile::TempDir, Packs) {
        let dir = tempfile::tempdir().unwrap();
        let packs = chunks::open(dir.path()).await.unwrap();
        (dir, packs)
    }

    /// What is sent: a file's chunks, and the directories.
    fn with<'a>(chunks: &[&'a [u8]], directories: &'a [Vec<u8>]) -> Vec<&'a [u8]> {
        chunks.iter().copied().chain(directories.iter().map(Vec::as_slice)).collect()
    }

    fn is_malformed(received: &Result<MadeSnapshot, Error>) -> bool {
        matches!(received, Err(Error::Agent { source: agent::Error::Malformed { .. } }))
    }

    #[tokio::test]
    async fn a_sandbox_cannot_name_the_chunks_of_another_one() {
        let (_dir, packs) = packs().await;
        let secret: &[u8] = b"a secret of another sandbox";
        let (their_root, theirs) = tree("a", content(&[secret]));
        receive_from(&packs, &with(&[secret], &theirs), &their_root, None).await.unwrap();

        // The file, the whole tree, and a file below another name than in the parent.
        assert!(is_malformed(&receive_from(&packs, &with(&[], &theirs), &their_root, None).await));
        assert!(is_malformed(&receive_from(&packs, &[], &their_root, None).await));
        let (moved_root, moved) = tree("b", content(&[secret]));
        let stolen = receive_from(&packs, &with(&[], &moved), &moved_root, Some(&their_root)).await;
        assert!(is_malformed(&stolen));

        // A sandbox may name chunks that it has or sends.
        receive_from(&packs, &[], &their_root, Some(&their_root)).await.unwrap();
        receive_from(&packs, &with(&[secret], &moved), &moved_root, None).await.unwrap();
    }

    /// The directory is compared with the one of the parent, which cannot be read.
    #[tokio::test]
    async fn a_parent_that_is_damaged_is_not_a_fault_of_the_agent() {
        let (dir, packs) = packs().await;
        let (old_root, old) = tree("a", content(&[b"old"]));
        receive_from(&packs, &with(&[b"old"], &old), &old_root, None).await.unwrap();
        for folder in std::fs::read_dir(dir.path().join("snapshots/packs")).unwrap() {
            std::fs::remove_dir_all(folder.unwrap().path()).unwrap();
        }
        // Without what is in memory.
        let packs = chunks::open(dir.path()).await.unwrap();
        let (root, new) = tree("a", content(&[b"new"]));
        let received = receive_from(&packs, &with(&[b"new"], &new), &root, Some(&old_root)).await;
        assert!(matches!(received, Err(Error::Snapshot(SnapshotError::Damaged { .. }))), "{received:?}");
        receive_from(&packs, &with(&[b"new"], &new), &root, None).await.unwrap();
    }

    /// A file whose bytes are a list of chunks does not become one.
    #[tokio::test]
    async fn a_list_of_chunks_in_a_file_names_nothing() {
        let (_dir, packs) = packs().await;
        let secret: &[u8] = b"a secret of another sandbox";
        let (their_root, theirs) = tree("a", content(&[secret]));
        receive_from(&packs, &with(&[secret], &theirs), &their_root, None).await.unwrap();

        let list = content(&[secret]).segments;
        let (my_root, mine) = tree("a", content(&[&list]));
        receive_from(&packs, &with(&[&list], &mine), &my_root, None).await.unwrap();
        let deeper = Content { size: secret.len() as u64, depth: 1, ..content(&[&list]) };
        let (stolen_root, stolen) = tree("a", deeper);
        let received = receive_from(&packs, &with(&[], &stolen), &stolen_root, Some(&my_root)).await;
        assert!(is_malformed(&received));
        // It is sent now, but what it names is not.
        let received = receive_from(&packs, &with(&[&list], &stolen), &stolen_root, Some(&my_root)).await;
        assert!(is_malformed(&received));
    }

    #[tokio::test]
    async fn a_length_that_the_chunk_does_not_have_is_rejected() {
        let (_dir, packs) = packs().await;
        let mut longer = content(&[b"chunk"]);
        let mut segments = longer.segments.to_vec();
        segments[Hash::BYTES] += 1;
        (longer.size, longer.segments) = (6, segments.into());
        let (root, directories) = tree("a", longer);
        assert!(is_malformed(&receive_from(&packs, &with(&[b"chunk"], &directories), &root, None).await));
    }

    /// Visits less than the daemon would, to save time.
    async fn receive_bomb(packs: &Packs, chunks: &[&[u8]], root: Content) -> Result<MadeSnapshot, Error> {
        let chunks = chunks.iter().map(|chunk| sent(chunk)).collect();
        let received = receive_within(packs, packs.writer(), parts(chunks, root), None, 100_000).await;
        received.map(|received| received.made)
    }

    /// A few chunks can describe more directories, or more parts of a file, than can be visited.
    #[tokio::test]
    async fn a_bomb_is_rejected() {
        let (_dir, packs) = packs().await;
        let mut chunks = vec![directory("a", Kind::File, Content::default())];
        for _ in 0..100 {
            let inner = content(&[chunks.last().unwrap()]);
            let twice = ["a", "b"].map(|name| directory(name, Kind::Directory, inner.clone()));
            chunks.push(twice.concat());
        }
        let root = directory("workspace", Kind::Directory, content(&[chunks.last().unwrap()]));
        let root_content = content(&[&root]);
        let bomb = receive_bomb(&packs, &with(&[&root], &chunks), root_content).await;
        assert!(matches!(bomb, Err(Error::Refused(Refusal::TooMany { .. }))), "{bomb:?}");

        let mut nodes = vec![vec![7; 16]];
        for _ in 0..4 {
            let segment = content(&[nodes.last().unwrap()]).segments;
            nodes.push(segment.repeat(1024));
        }
        let bomb = Content { size: 16 << 40, depth: 4, ..content(&[nodes.last().unwrap()]) };
        let (root, directories) = tree("a", bomb);
        let nodes: Vec<&[u8]> = nodes.iter().map(Vec::as_slice).collect();
        let bomb = receive_bomb(&packs, &with(&nodes, &directories), root).await;
        assert!(matches!(bomb, Err(Error::Refused(Refusal::TooMany { .. }))), "{bomb:?}");
    }

    #[tokio::test]
    async fn a_chunk_with_other_bytes_and_a_stream_without_its_end_are_rejected() {
        let (_dir, packs) = packs().await;
        let wrong = SentChunk { hash: Hash::of(b"other"), ..sent(b"bytes") };
        let root = content(&[]);
        let rejected = receive(&packs, parts(vec![wrong], root), None).await;
        assert!(matches!(rejected, Err(Error::Agent { .. })));
        let cut_off = futures::stream::iter([Ok(SnapshotPart::Chunks(vec![sent(b"a")]))]).boxed();
        assert!(matches!(receive(&packs, cut_off, None).await, Err(Error::Agent { .. })));
    }

    #[tokio::test]
    async fn a_directory_that_is_not_valid_is_rejected() {
        let (_dir, packs) = packs().await;
        let escape = Entry { name: Bytes::from_static(b".."), kind: Kind::Fifo.into(), ..Entry::default() };
        let elsewhere = directory("etc", Kind::Directory, Content::default());
        for directory in [escape.encode_length_delimited_to_vec(), b"no entry at all".to_vec(), elsewhere] {
            let rejected = receive_from(&packs, &[&directory], &content(&[&directory]), None).await;
            assert!(is_malformed(&rejected), "{rejected:?}");
        }
    }
}
