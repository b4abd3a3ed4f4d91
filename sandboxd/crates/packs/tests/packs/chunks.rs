//! Chunks and stores for the tests.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::local::LocalFileSystem;
use sandboxd_packs::{Error, Finished, NewChunk, Packs, Writer};
use snapshot_format::{Compressor, Hash};
use tempfile::TempDir;

use crate::faulty::Faulty;
use crate::memory::MemoryIndex;

/// A store on a real file system, with faults.
pub(crate) struct Fixture {
    pub(crate) dir: TempDir,
    pub(crate) index: Arc<MemoryIndex>,
    pub(crate) faults: Arc<Faulty>,
    pub(crate) packs: Packs,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let index = Arc::new(MemoryIndex::default());
        // Creates the directories as the daemon does.
        Packs::open_dir(&dir.path().join("store"), Arc::clone(&index) as _).await.unwrap();
        let files = LocalFileSystem::new_with_prefix(dir.path().join("store")).unwrap();
        let faults = Arc::new(Faulty::new(Arc::new(files)));
        let packs = Packs::open(Arc::clone(&faults) as _, Arc::clone(&index) as _).await.unwrap();
        Self { dir, index, faults, packs }
    }

    /// The same store after a restart: nothing in memory is left.
    pub(crate) async fn reopened(&self) -> Packs {
        Packs::open(Arc::clone(&self.faults) as _, Arc::clone(&self.index) as _).await.unwrap()
    }

    /// The same store with a new index.
    pub(crate) async fn with_new_index(&self) -> (Packs, Arc<MemoryIndex>) {
        let index = Arc::new(MemoryIndex::default());
        (Packs::open(Arc::clone(&self.faults) as _, Arc::clone(&index) as _).await.unwrap(), index)
    }

    /// Files of packs.
    pub(crate) fn pack_files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        files_below(&self.dir.path().join("store/packs"), &mut found);
        found
    }
}

fn files_below(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files_below(&path, found) } else { found.push(path) }
    }
}

/// Bytes that do not compress, different for each seed.
pub(crate) fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let words = std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.flatten().take(length).collect()
}

pub(crate) fn chunk(content: &[u8]) -> NewChunk {
    NewChunk {
        hash: Hash::of(content),
        raw_len: content.len().try_into().unwrap(),
        compressed: Compressor::new().unwrap().compress(content).unwrap(),
    }
}

/// Contents of `count` chunks of `length` bytes. Those of different seeds have none in common.
pub(crate) fn contents(seed: u64, count: u64, length: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| bytes(seed * 1_000_000 + number + 1, length)).collect()
}

pub(crate) fn hashes(contents: &[Vec<u8>]) -> Vec<Hash> {
    contents.iter().map(|content| Hash::of(content)).collect()
}

pub(crate) async fn put_into(writer: &mut Writer, contents: &[Vec<u8>]) -> Result<Vec<bool>, Error> {
    writer.put_all(contents.iter().map(|content| chunk(content)).collect()).await
}

/// Stores chunks with a writer of their own.
pub(crate) async fn store(packs: &Packs, contents: &[Vec<u8>]) -> Result<Finished, Error> {
    let mut writer = packs.writer();
    put_into(&mut writer, contents).await?;
    writer.finish().await
}

pub(crate) async fn get_all(packs: &Packs, chunks: Vec<Hash>) -> Result<Vec<Bytes>, Error> {
    packs.get_many(chunks).map_ok(|(_, bytes)| bytes).try_collect().await
}

/// Panics unless every chunk comes back, alone and in a stream.
pub(crate) async fn check_stored(packs: &Packs, contents: &[Vec<u8>]) {
    assert_eq!(get_all(packs, hashes(contents)).await.unwrap(), contents);
    for content in contents {
        assert_eq!(packs.get(Hash::of(content)).await.unwrap(), content);
    }
}
