//! How a chunk is sent and stored: as one zstd frame.

use std::io;

use bytes::Bytes;

use crate::{Hash, MAX_CHUNK_BYTES};

/// Level of compression. Higher levels take much longer and save little of source code.
const LEVEL: i32 = 1;

/// Maximum size of a compressed chunk in bytes, not less than zstd's own bound (ZSTD_COMPRESSBOUND).
pub const MAX_COMPRESSED_BYTES: usize = MAX_CHUNK_BYTES + MAX_CHUNK_BYTES / 256 + 64;

/// Compresses chunks, and keeps its tables between them.
pub struct Compressor(zstd::bulk::Compressor<'static>);

/// Decompresses chunks, and keeps its tables between them.
pub struct Decompressor(zstd::bulk::Decompressor<'static>);

/// Why the bytes of a chunk were rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CorruptChunk {
    /// It is larger than a chunk can be.
    #[error("a chunk of {length} bytes exceeds the limit of {MAX_CHUNK_BYTES}")]
    TooLarge {
        /// The declared size, before compression.
        length: usize,
    },
    /// It is not a zstd frame of the declared size.
    #[error("the chunk {hash} is not a zstd frame of {length} bytes")]
    NotCompressed {
        /// The chunk's name.
        hash: Hash,
        /// The declared size, before compression.
        length: usize,
    },
    /// Its bytes have another hash.
    #[error("the chunk {hash} has other bytes than its name says")]
    OtherBytes {
        /// The chunk's name.
        hash: Hash,
    },
}

impl Compressor {
    /// Creates the tables.
    pub fn new() -> io::Result<Self> {
        zstd::bulk::Compressor::new(LEVEL).map(Self)
    }

    /// Compresses a chunk of at most [`MAX_CHUNK_BYTES`].
    pub fn compress(&mut self, chunk: &[u8]) -> io::Result<Bytes> {
        self.0.compress(chunk).map(Bytes::from)
    }
}

impl Decompressor {
    /// Creates the tables.
    pub fn new() -> io::Result<Self> {
        zstd::bulk::Decompressor::new().map(Self)
    }

    /// Returns the bytes of the chunk `hash`, which has `length` of them.
    pub fn verified(&mut self, hash: Hash, length: usize, compressed: &[u8]) -> Result<Bytes, CorruptChunk> {
        if length > MAX_CHUNK_BYTES {
            return Err(CorruptChunk::TooLarge { length });
        }
        let chunk = self.0.decompress(compressed, length).ok().filter(|chunk| chunk.len() == length);
        let chunk = chunk.ok_or(CorruptChunk::NotCompressed { hash, length })?;
        if Hash::of(&chunk) != hash {
            return Err(CorruptChunk::OtherBytes { hash });
        }
        Ok(chunk.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compressed(chunk: &[u8]) -> (Hash, Bytes) {
        (Hash::of(chunk), Compressor::new().unwrap().compress(chunk).unwrap())
    }

    #[test]
    fn a_chunk_comes_back() {
        let mut decompressor = Decompressor::new().unwrap();
        for chunk in [Vec::new(), vec![7; MAX_CHUNK_BYTES], (0..=255).cycle().take(100_000).collect()] {
            let (hash, compressed) = compressed(&chunk);
            assert!(compressed.len() <= MAX_COMPRESSED_BYTES);
            assert_eq!(decompressor.verified(hash, chunk.len(), &compressed).unwrap(), chunk);
        }
    }

    #[test]
    fn another_size_other_bytes_and_garbage_are_rejected() {
        let mut decompressor = Decompressor::new().unwrap();
        let (hash, bytes) = compressed(b"hello");
        let other = Hash::of(b"other");
        let not_compressed = |length| Err(CorruptChunk::NotCompressed { hash, length });
        assert_eq!(decompressor.verified(hash, 4, &bytes), not_compressed(4));
        assert_eq!(decompressor.verified(hash, 6, &bytes), not_compressed(6));
        assert_eq!(decompressor.verified(hash, 5, b"hello"), not_compressed(5));
        assert_eq!(decompressor.verified(other, 5, &bytes), Err(CorruptChunk::OtherBytes { hash: other }));
        let length = MAX_CHUNK_BYTES + 1;
        assert_eq!(decompressor.verified(hash, length, &bytes), Err(CorruptChunk::TooLarge { length }));
    }

    /// A frame that expands to much more than it declares must not take that much memory.
    #[test]
    fn a_bomb_is_rejected() {
        let bomb = zstd::bulk::compress(&vec![0; 64 * MAX_CHUNK_BYTES], LEVEL).unwrap();
        let hash = Hash::of(b"");
        let rejected = Decompressor::new().unwrap().verified(hash, MAX_CHUNK_BYTES, &bomb);
        assert_eq!(rejected, Err(CorruptChunk::NotCompressed { hash, length: MAX_CHUNK_BYTES }));
    }
}
