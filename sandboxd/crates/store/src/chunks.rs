//! Values of the index of the chunks: where the chunks of snapshots are stored, and when each was last in use.

/// BLAKE3 hash: of a chunk's bytes, or of a pack's bytes.
pub type ChunkHash = [u8; 32];

/// Number of a collection of unused chunks. 0 is before the first one.
pub type Generation = u64;

/// Where a chunk is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkLocation {
    /// Name of the pack.
    pub pack: ChunkHash,
    /// Offset in the pack, in bytes.
    pub offset: u32,
    /// Size in the pack in bytes, compressed.
    pub stored_len: u32,
    /// Size of the chunk in bytes.
    pub raw_len: u32,
}

/// A pack of chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkPack {
    /// Its name.
    pub name: ChunkHash,
    /// Its size in bytes.
    pub size_bytes: u32,
}

/// How much of a pack is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkPackUse {
    /// The pack.
    pub pack: ChunkPack,
    /// Number of its chunks in use.
    pub live_chunks: u64,
    /// Size of those chunks in the pack, in bytes.
    pub live_bytes: u64,
}
