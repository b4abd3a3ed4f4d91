//! Small chunks that were recently written or read. Directories are small, and are read again soon after they are written.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use snapshot_format::Hash;

/// Maximum size of the compressed chunks in the cache, in bytes.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Maximum compressed size of a chunk in the cache, in bytes.
const MAX_CHUNK_BYTES: usize = 16 * 1024;

/// Memory of an entry beside the chunk's bytes.
const ENTRY_BYTES: usize = 160;

/// A compressed chunk.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) compressed: Bytes,
    pub(crate) raw_len: u32,
}

/// The cache. The oldest entries are removed first.
#[derive(Debug, Default)]
pub(crate) struct TreeCache(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    by_hash: HashMap<Hash, Stored>,
    oldest_first: VecDeque<Hash>,
    bytes: usize,
}

impl TreeCache {
    /// Returns a chunk that is in the cache.
    pub(crate) fn get(&self, hash: Hash) -> Option<Stored> {
        self.entries().by_hash.get(&hash).cloned()
    }

    /// Adds a copy of a chunk if it is small. A copy, because the bytes may be a part of a much larger buffer.
    pub(crate) fn insert(&self, hash: Hash, raw_len: u32, compressed: &[u8]) {
        if compressed.len() > MAX_CHUNK_BYTES {
            return;
        }
        let mut entries = self.entries();
        if !entries.by_hash.contains_key(&hash) {
            entries.push(hash, Stored { compressed: Bytes::copy_from_slice(compressed), raw_len });
        }
    }

    /// Entries are changed as a whole, so they are valid after a panic elsewhere.
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn push(&mut self, hash: Hash, chunk: Stored) {
        self.bytes += chunk.compressed.len() + ENTRY_BYTES;
        self.by_hash.insert(hash, chunk);
        self.oldest_first.push_back(hash);
        while self.bytes > MAX_BYTES {
            let Some(oldest) = self.oldest_first.pop_front() else { break };
            if let Some(chunk) = self.by_hash.remove(&oldest) {
                self.bytes -= chunk.compressed.len() + ENTRY_BYTES;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_chunks_make_room_for_the_newest() {
        let cache = TreeCache::default();
        let hash = |number: u32| Hash::of(&number.to_le_bytes());
        let count = 2 * u32::try_from(MAX_BYTES / MAX_CHUNK_BYTES).unwrap();
        for number in 0..count {
            cache.insert(hash(number), 1, &vec![0; MAX_CHUNK_BYTES]);
        }
        assert!(cache.get(hash(0)).is_none() && cache.get(hash(count - 1)).is_some());
        let entries = cache.entries();
        assert!(entries.bytes <= MAX_BYTES && entries.by_hash.len() == entries.oldest_first.len());
    }

    #[test]
    fn a_large_chunk_is_not_kept() {
        let cache = TreeCache::default();
        let hash = Hash::of(b"a");
        cache.insert(hash, 1, &vec![0; MAX_CHUNK_BYTES + 1]);
        assert!(cache.get(hash).is_none());
        cache.insert(hash, 1, b"a");
        assert_eq!(cache.get(hash).unwrap().compressed, b"a"[..]);
    }
}
