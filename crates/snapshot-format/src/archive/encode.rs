//! Writes an archive.

use bytes::BufMut;
use prost::Message;

use super::{CHUNK, Header, MAGIC, TRAILER};
use crate::Hash;

/// Writes the parts of an archive to the end of a buffer. The caller passes the chunks in the order of a
/// [`Walk`](super::Walk), each once.
#[derive(Debug)]
pub struct Encoder {
    hasher: blake3::Hasher,
    chunks: u64,
}

impl Encoder {
    /// Begins an archive.
    pub fn new(header: &Header, out: &mut Vec<u8>) -> Self {
        let mut encoder = Self { hasher: blake3::Hasher::new(), chunks: 0 };
        let encoded = header.encode_to_vec();
        encoder.write(out, |out| {
            out.put_slice(&MAGIC);
            out.put_u32_le(header.version());
            out.put_u32_le(u32::try_from(encoded.len()).unwrap_or(u32::MAX));
            out.put_slice(&encoded);
        });
        encoder
    }

    /// Writes a chunk of `length` bytes.
    pub fn chunk(&mut self, hash: Hash, length: u32, compressed: &[u8], out: &mut Vec<u8>) {
        self.chunks += 1;
        self.write(out, |out| {
            out.put_u8(CHUNK);
            out.put_slice(hash.as_bytes());
            out.put_u32_le(length);
            // A compressed chunk is little longer than a chunk, which is much shorter than 4 GiB.
            out.put_u32_le(u32::try_from(compressed.len()).unwrap_or(u32::MAX));
            out.put_slice(compressed);
        });
    }

    /// Writes the trailer.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        let chunks = self.chunks;
        self.write(out, |out| {
            out.put_u8(TRAILER);
            out.put_u64_le(chunks);
        });
        out.put_slice(self.hasher.finalize().as_bytes());
    }

    fn write(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let from = out.len();
        write(out);
        self.hasher.update(&out[from..]);
    }
}
