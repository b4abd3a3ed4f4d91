//! The trait of an index of chunks.

use std::fmt::Debug;

use async_trait::async_trait;
use snapshot_format::Hash;

use crate::IndexError;

/// Number of a collection. 0 is before the first one.
pub type Generation = u64;

/// Where a chunk is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// Name of the pack.
    pub pack: Hash,
    /// Offset in the pack, in bytes.
    pub offset: u32,
    /// Size in the pack in bytes, compressed.
    pub stored_len: u32,
    /// Size of the chunk in bytes.
    pub raw_len: u32,
}

impl Location {
    /// Offset of the first byte after the chunk.
    pub fn end(&self) -> u32 {
        self.offset.saturating_add(self.stored_len)
    }
}

/// A pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackInfo {
    /// Its name: the hash of its bytes.
    pub name: Hash,
    /// Its size in bytes, at most [`MAX_PACK_BYTES`](crate::MAX_PACK_BYTES).
    pub size_bytes: u32,
}

/// How much of a pack is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackUse {
    /// The pack.
    pub pack: PackInfo,
    /// Number of its chunks in use.
    pub live_chunks: u64,
    /// Size of those chunks in the pack, in bytes.
    pub live_bytes: u64,
}

/// The index of the chunks: where each is stored, and when it was last in use.
///
/// Each call is atomic, and what it writes is durable or is lost as a whole. A list of chunks has at most a few thousand
/// hashes. Answers are in the order of the questions. Every error means that the index is unavailable.
#[async_trait]
pub trait Index: Debug + Send + Sync + 'static {
    /// Where chunks are stored. `None` if the index does not have the chunk.
    async fn locate(&self, chunks: &[Hash]) -> Result<Vec<Option<Location>>, IndexError>;

    /// Marks chunks as in use in `generation`, unless their mark is later. Returns for each whether the index has it.
    async fn mark(&self, generation: Generation, chunks: &[Hash]) -> Result<Vec<bool>, IndexError>;

    /// Adds a pack and its chunks, with the mark `generation`. Idempotent. A chunk that the index already has keeps its
    /// location, and gets the mark unless its own is later.
    async fn record(
        &self,
        generation: Generation,
        pack: &PackInfo,
        chunks: &[(Hash, Location)],
    ) -> Result<(), IndexError>;

    /// Whether the index lists all packs of the store. False in a new index until [`Self::set_complete`].
    async fn is_complete(&self) -> Result<bool, IndexError>;

    /// Notes that the index lists all packs of the store.
    async fn set_complete(&self) -> Result<(), IndexError>;

    /// Size of all packs in bytes.
    async fn stored_bytes(&self) -> Result<u64, IndexError>;

    /// The current generation.
    async fn generation(&self) -> Result<Generation, IndexError>;

    /// Begins a collection and returns its generation. With `continues`, that is the last one if it has not finished.
    async fn begin_collection(&self, continues: bool) -> Result<Generation, IndexError>;

    /// Notes that the last collection has finished.
    async fn finish_collection(&self) -> Result<(), IndexError>;

    /// Up to `limit` packs in order of their names, after the name `after`. The chunks with a mark from `keep_from` on are
    /// in use.
    async fn packs(
        &self,
        keep_from: Generation,
        after: Option<Hash>,
        limit: u32,
    ) -> Result<Vec<PackUse>, IndexError>;

    /// Which of these packs the index has.
    async fn has_packs(&self, packs: &[Hash]) -> Result<Vec<bool>, IndexError>;

    /// The chunks of a pack with a mark from `keep_from` on, in order of their offsets.
    async fn chunks_of(&self, pack: Hash, keep_from: Generation)
    -> Result<Vec<(Hash, Location)>, IndexError>;

    /// Adds the pack `to` if it is missing, and moves chunks to it that are in the pack `from`. Keeps their marks. Skips
    /// chunks that are elsewhere.
    async fn move_chunks(
        &self,
        from: Hash,
        to: &PackInfo,
        chunks: &[(Hash, Location)],
    ) -> Result<(), IndexError>;

    /// Removes a pack and its chunks, unless one of them has a mark from `keep_from` on. `None` removes it in any case.
    /// Returns whether the index no longer has the pack.
    async fn remove_pack(&self, pack: Hash, keep_from: Option<Generation>) -> Result<bool, IndexError>;
}
