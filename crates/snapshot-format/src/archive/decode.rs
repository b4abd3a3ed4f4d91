//! Reads an archive, which may be hostile.

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;

use super::{
    CHUNK, Header, MAGIC, MAX_HEADER_BYTES, RECORD_BYTES, TRAILER, TRAILER_BYTES, VERSION,
    VERSION_WITHOUT_VALUES,
};
use crate::compression::MAX_COMPRESSED_BYTES;
use crate::{Hash, MAX_CHUNK_BYTES};

/// Size of everything before the encoded header.
const PREFIX_BYTES: usize = MAGIC.len() + 2 * size_of::<u32>();

/// A chunk whose bytes are not verified yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkRecord {
    /// Its name.
    pub hash: Hash,
    /// Its size in bytes, at most [`MAX_CHUNK_BYTES`].
    pub length: u32,
    /// Its bytes, compressed to at most [`MAX_COMPRESSED_BYTES`].
    pub compressed: Bytes,
}

/// A part of an archive.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// The first part.
    Header(Header),
    /// A chunk.
    Chunk(ChunkRecord),
    /// The last part. The bytes before it have the hash that it says.
    End,
}

/// Why an archive was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidArchive {
    /// It does not begin as an archive does.
    #[error("it is not an exported snapshot")]
    Magic,
    /// It has another version of the format.
    #[error("it has version {0} of the format, and only versions up to {VERSION} are known")]
    Version(u32),
    /// The header is too long or cannot be decoded.
    #[error("its header is not valid")]
    Header,
    /// Something other than a chunk or the trailer.
    #[error("an unknown part is in the file")]
    Tag,
    /// A chunk is larger than a chunk can be.
    #[error("a chunk of {length} bytes, compressed {compressed}, is larger than a chunk can be")]
    ChunkTooLarge {
        /// Declared size in bytes.
        length: u32,
        /// Declared compressed size in bytes.
        compressed: u32,
    },
    /// The trailer has another number of chunks, or another hash.
    #[error("its checksum is wrong")]
    Checksum,
    /// The file ends too early.
    #[error("it is incomplete")]
    CutOff,
    /// Bytes follow the trailer.
    #[error("more bytes follow its end")]
    Trailing,
}

/// The next part of the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Header,
    Record,
    Nothing,
}

/// Decodes the parts of an archive. Keeps what was pushed until it is decoded, and nothing else.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    hasher: blake3::Hasher,
    chunks: u64,
    next: Next,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { buffer: BytesMut::new(), hasher: blake3::Hasher::new(), chunks: 0, next: Next::Header }
    }
}

impl Decoder {
    /// Adds the next bytes of the file.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next part, or `None` if more bytes are needed.
    pub fn next_part(&mut self) -> Result<Option<Part>, InvalidArchive> {
        match self.next {
            Next::Header => self.header(),
            Next::Record => self.record(),
            Next::Nothing if self.buffer.is_empty() => Ok(None),
            Next::Nothing => Err(InvalidArchive::Trailing),
        }
    }

    /// Checks that the file is complete and has been decoded to its end.
    pub fn finish(&self) -> Result<(), InvalidArchive> {
        match self.next {
            Next::Nothing if self.buffer.is_empty() => Ok(()),
            Next::Nothing => Err(InvalidArchive::Trailing),
            Next::Header | Next::Record => Err(InvalidArchive::CutOff),
        }
    }

    fn header(&mut self) -> Result<Option<Part>, InvalidArchive> {
        let known = self.buffer.len().min(MAGIC.len());
        if self.buffer[..known] != MAGIC[..known] {
            return Err(InvalidArchive::Magic);
        }
        let Some(prefix) = self.buffer.get(..PREFIX_BYTES) else { return Ok(None) };
        let mut numbers = &prefix[MAGIC.len()..];
        let (version, length) = (numbers.get_u32_le(), numbers.get_u32_le() as usize);
        if !(VERSION_WITHOUT_VALUES..=VERSION).contains(&version) {
            return Err(InvalidArchive::Version(version));
        }
        if length > MAX_HEADER_BYTES {
            return Err(InvalidArchive::Header);
        }
        let Some(taken) = self.take(PREFIX_BYTES + length) else { return Ok(None) };
        let header = Header::decode(&taken[PREFIX_BYTES..]).map_err(|_| InvalidArchive::Header)?;
        if header.version() != version {
            return Err(InvalidArchive::Header);
        }
        self.next = Next::Record;
        Ok(Some(Part::Header(header)))
    }

    fn record(&mut self) -> Result<Option<Part>, InvalidArchive> {
        match self.buffer.first() {
            None => Ok(None),
            Some(&CHUNK) => self.chunk(),
            Some(&TRAILER) => self.trailer(),
            Some(_) => Err(InvalidArchive::Tag),
        }
    }

    fn chunk(&mut self) -> Result<Option<Part>, InvalidArchive> {
        let Some(record) = self.buffer.get(1..RECORD_BYTES) else { return Ok(None) };
        let (hash, mut numbers) = record.split_at(Hash::BYTES);
        let hash = Hash::from_slice(hash).ok_or(InvalidArchive::Tag)?;
        let (length, compressed) = (numbers.get_u32_le(), numbers.get_u32_le());
        if length as usize > MAX_CHUNK_BYTES || compressed as usize > MAX_COMPRESSED_BYTES {
            return Err(InvalidArchive::ChunkTooLarge { length, compressed });
        }
        let Some(taken) = self.take(RECORD_BYTES + compressed as usize) else { return Ok(None) };
        self.chunks += 1;
        Ok(Some(Part::Chunk(ChunkRecord { hash, length, compressed: taken.slice(RECORD_BYTES..) })))
    }

    fn trailer(&mut self) -> Result<Option<Part>, InvalidArchive> {
        if self.buffer.len() < TRAILER_BYTES {
            return Ok(None);
        }
        let trailer = self.buffer.split_to(TRAILER_BYTES);
        let (counted, hash) = trailer.split_at(TRAILER_BYTES - Hash::BYTES);
        self.hasher.update(counted);
        let mut count = &counted[1..];
        if count.get_u64_le() != self.chunks || hash != self.hasher.finalize().as_bytes() {
            return Err(InvalidArchive::Checksum);
        }
        self.next = Next::Nothing;
        Ok(Some(Part::End))
    }

    /// Takes the next bytes if all of them are there.
    fn take(&mut self, length: usize) -> Option<Bytes> {
        if self.buffer.len() < length {
            return None;
        }
        let taken = self.buffer.split_to(length).freeze();
        self.hasher.update(&taken);
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Encoder;
    use super::*;
    use crate::Content;

    fn archive() -> Vec<u8> {
        let mut out = Vec::new();
        let header = Header { name: Some("a".into()), created_at_ms: 7, ..Header::default() };
        let mut encoder = Encoder::new(&header, &mut out);
        encoder.chunk(Hash::of(b"b"), 1, b"compressed", &mut out);
        encoder.chunk(Hash::of(b"c"), 2, b"", &mut out);
        encoder.finish(&mut out);
        out
    }

    fn parts(archive: &[u8], piece_bytes: usize) -> Result<Vec<Part>, InvalidArchive> {
        let mut decoder = Decoder::default();
        let mut parts = Vec::new();
        for piece in archive.chunks(piece_bytes) {
            decoder.push(piece);
            while let Some(part) = decoder.next_part()? {
                parts.push(part);
            }
        }
        decoder.finish()?;
        Ok(parts)
    }

    #[test]
    fn an_archive_comes_back_whatever_the_size_of_the_pieces() {
        let archive = archive();
        let whole = parts(&archive, archive.len()).unwrap();
        assert!(matches!(&whole[..], [Part::Header(_), Part::Chunk(_), Part::Chunk(_), Part::End]));
        for piece_bytes in 1..50 {
            assert_eq!(parts(&archive, piece_bytes).unwrap(), whole);
        }
    }

    #[test]
    fn every_prefix_and_every_flipped_bit_is_rejected() {
        let archive = archive();
        for length in 1..archive.len() {
            assert_eq!(parts(&archive[..length], 16), Err(InvalidArchive::CutOff), "{length}");
        }
        assert_eq!(parts(b"", 1), Err(InvalidArchive::CutOff));
        for bit in 0..8 * archive.len() {
            let mut flipped = archive.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(parts(&flipped, 16).is_err(), "bit {bit}");
        }
        assert_eq!(parts(&[&archive[..], b"x"].concat(), 16), Err(InvalidArchive::Trailing));
    }

    #[test]
    fn sizes_are_checked_before_the_bytes_arrive() {
        let archive = archive();
        let mut header = archive[..PREFIX_BYTES].to_vec();
        header[MAGIC.len() + 4..].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(parts(&header, 100), Err(InvalidArchive::Header));
        let chunk = |length: u32, compressed: u32| {
            let mut out = Vec::new();
            let _ = Encoder::new(&Header::default(), &mut out);
            out.push(CHUNK);
            out.extend([0; Hash::BYTES]);
            out.extend([length.to_le_bytes(), compressed.to_le_bytes()].concat());
            parts(&out, 1000)
        };
        let (length, compressed) = (MAX_CHUNK_BYTES as u32, MAX_COMPRESSED_BYTES as u32);
        assert_eq!(chunk(length, compressed), Err(InvalidArchive::CutOff));
        for (length, compressed) in [(length + 1, compressed), (length, compressed + 1)] {
            assert_eq!(chunk(length, compressed), Err(InvalidArchive::ChunkTooLarge { length, compressed }));
        }
    }

    #[test]
    fn values_are_a_later_version_and_no_values_are_not() {
        let version = |values: Option<Content>| {
            let mut out = Vec::new();
            let header = Header { values, ..Header::default() };
            Encoder::new(&header, &mut out).finish(&mut out);
            assert!(parts(&out, 7).unwrap().contains(&Part::Header(header)));
            out[MAGIC.len()]
        };
        let some = Content { size: 1, ..Content::default() };
        assert_eq!([version(None), version(Some(Content::default())), version(Some(some))], [1, 1, 2]);
    }

    #[test]
    fn another_file_and_another_version_are_named() {
        assert_eq!(parts(b"PK", 100), Err(InvalidArchive::Magic));
        let mut newer = archive();
        newer[MAGIC.len()] = 3;
        assert_eq!(parts(&newer, 100), Err(InvalidArchive::Version(3)));
        // The version is the one that the header needs.
        newer[MAGIC.len()] = 2;
        assert_eq!(parts(&newer, 100), Err(InvalidArchive::Header));
    }
}
