//! The format of a pack: many compressed chunks in one immutable object.
//!
//! | part | bytes | content |
//! |---|---|---|
//! | header | 32 | magic (8), version (u32), key id (u32), nonce (16) |
//! | chunks | | the compressed chunks, without gaps |
//! | table | 44 for each chunk | hash (32), offset (u32), stored length (u32), raw length (u32) |
//! | footer | 44 | BLAKE3 of the table (32), length of the table in bytes (u32), magic (8) |
//!
//! Numbers are little endian. A pack's name is the BLAKE3 of all its bytes. The nonce is random, so two packs with the same
//! chunks have different names. Key id 0 means that chunks and table are not encrypted; this version knows no other.

use bytes::{BufMut, Bytes};
use snapshot_format::compression::MAX_COMPRESSED_BYTES;
use snapshot_format::{Hash, MAX_CHUNK_BYTES};

use crate::{Location, PackInfo, PackUse};

/// Maximum size of a pack in bytes.
pub const MAX_PACK_BYTES: usize = 8 * 1024 * 1024;

/// Maximum number of chunks that a new pack gets. It bounds the time in which the index records a pack of small files.
pub const MAX_PACK_CHUNKS: usize = 16_384;

const MAGIC: &[u8; 8] = b"sbxpack\n";
const VERSION: u32 = 1;
const NOT_ENCRYPTED: u32 = 0;
const HEADER_BYTES: usize = MAGIC.len() + 4 + 4 + NONCE_BYTES;
const NONCE_BYTES: usize = 16;
const ENTRY_BYTES: usize = Hash::BYTES + 3 * 4;
const FOOTER_BYTES: usize = Hash::BYTES + 4 + MAGIC.len();

const _: () = assert!(HEADER_BYTES + MAX_COMPRESSED_BYTES + ENTRY_BYTES + FOOTER_BYTES <= MAX_PACK_BYTES);

/// What is wrong with a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PackDamage {
    /// Its bytes have another hash than its name.
    #[error("its bytes are not those that its name says")]
    OtherBytes,
    /// A later version wrote it.
    #[error("it has version {version}, and this program reads version {VERSION}")]
    Version {
        /// Its version.
        version: u32,
    },
    /// It is encrypted, which this version does not support.
    #[error("it is encrypted with the key {key_id}")]
    Encrypted {
        /// Id of the key.
        key_id: u32,
    },
    /// The store has changed it, or another key encrypted it.
    #[error("it cannot be decrypted: {0}")]
    Sealed(sandboxd_sealed::Damage),
    /// It does not have the format of a pack.
    #[error("it is not a valid pack: {0}")]
    Format(&'static str),
}

/// A chunk in a pack's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The chunk's name.
    pub hash: Hash,
    /// Offset in the pack, in bytes.
    pub offset: u32,
    /// Size in the pack in bytes, compressed.
    pub stored_len: u32,
    /// Size of the chunk in bytes.
    pub raw_len: u32,
}

impl Entry {
    /// The chunk's location, in the pack of this name.
    pub fn location(&self, pack: Hash) -> Location {
        let Self { offset, stored_len, raw_len, .. } = *self;
        Location { pack, offset, stored_len, raw_len }
    }

    /// The chunk's compressed bytes. `pack` is the whole pack of a table that was checked.
    pub(crate) fn stored<'p>(&self, pack: &'p [u8]) -> &'p [u8] {
        let from = self.offset as usize;
        pack.get(from..from + self.stored_len as usize).unwrap_or_default()
    }

    fn encode(&self, to: &mut Vec<u8>) {
        to.put_slice(self.hash.as_bytes());
        [self.offset, self.stored_len, self.raw_len].iter().for_each(|number| to.put_u32_le(*number));
    }

    fn decode(bytes: &[u8; ENTRY_BYTES]) -> Option<Self> {
        let (hash, numbers) = bytes.split_at(Hash::BYTES);
        let hash = Hash::from_slice(hash)?;
        Some(Self {
            hash,
            offset: number_at(numbers, 0)?,
            stored_len: number_at(numbers, 4)?,
            raw_len: number_at(numbers, 8)?,
        })
    }
}

fn number_at(bytes: &[u8], at: usize) -> Option<u32> {
    let number = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(number.try_into().ok()?))
}

/// A pack that is being filled.
#[derive(Debug)]
pub(crate) struct PackBuilder {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

/// A pack that is complete.
#[derive(Debug)]
pub(crate) struct SealedPack {
    pub(crate) info: PackInfo,
    pub(crate) bytes: Bytes,
    pub(crate) chunks: Vec<(Hash, Location)>,
}

impl PackBuilder {
    /// An empty pack with this nonce.
    pub(crate) fn new(nonce: [u8; NONCE_BYTES]) -> Self {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.put_slice(MAGIC);
        bytes.put_u32_le(VERSION);
        bytes.put_u32_le(NOT_ENCRYPTED);
        bytes.put_slice(&nonce);
        Self { bytes, entries: Vec::new() }
    }

    /// Whether a chunk of `stored_len` bytes still fits. It always fits into an empty pack.
    pub(crate) fn has_room_for(&self, stored_len: usize) -> bool {
        let chunks = self.entries.len() + 1;
        let bytes = self.bytes.len() + stored_len + chunks * ENTRY_BYTES + FOOTER_BYTES;
        bytes <= MAX_PACK_BYTES && chunks <= MAX_PACK_CHUNKS
    }

    /// Adds a chunk, which must fit. Returns its position in the pack.
    pub(crate) fn push(&mut self, hash: Hash, raw_len: u32, compressed: &[u8]) -> usize {
        debug_assert!(self.has_room_for(compressed.len()));
        let entry = Entry {
            hash,
            offset: length_of(self.bytes.len()),
            stored_len: length_of(compressed.len()),
            raw_len,
        };
        self.reserve(compressed.len());
        self.bytes.extend_from_slice(compressed);
        self.entries.push(entry);
        self.entries.len() - 1
    }

    /// Makes room for more bytes. A buffer that doubles would grow beyond the size of a pack.
    fn reserve(&mut self, additional: usize) {
        let needed = self.bytes.len() + additional;
        if needed > self.bytes.capacity() {
            let capacity = (2 * self.bytes.capacity()).min(MAX_PACK_BYTES).max(needed);
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
    }

    /// The entry and the compressed bytes of the chunk at a position.
    pub(crate) fn chunk(&self, position: usize) -> Option<(Entry, &[u8])> {
        let entry = *self.entries.get(position)?;
        Some((entry, entry.stored(&self.bytes)))
    }

    /// Adds the table and names the pack. Takes a few milliseconds of the processor.
    pub(crate) fn seal(self) -> SealedPack {
        let Self { mut bytes, entries } = self;
        let table = bytes.len();
        entries.iter().for_each(|entry| entry.encode(&mut bytes));
        let hash = Hash::of(&bytes[table..]);
        let length = length_of(bytes.len() - table);
        bytes.put_slice(hash.as_bytes());
        bytes.put_u32_le(length);
        bytes.put_slice(MAGIC);
        let info = PackInfo { name: Hash::of(&bytes), size_bytes: length_of(bytes.len()) };
        let chunks = entries.iter().map(|entry| (entry.hash, entry.location(info.name))).collect();
        SealedPack { info, bytes: bytes.into(), chunks }
    }
}

/// Whether less than half of a pack is in use, its table included.
pub(crate) fn is_mostly_dead(used: &PackUse) -> bool {
    let live = used.live_bytes + used.live_chunks * ENTRY_BYTES as u64;
    let body = u64::from(used.pack.size_bytes).saturating_sub((HEADER_BYTES + FOOTER_BYTES) as u64);
    2 * live < body
}

/// Positions and lengths in a pack, which has at most [`MAX_PACK_BYTES`].
fn length_of(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Checks a whole pack: its name, and its table. The chunks are not decompressed.
pub fn verify(name: Hash, pack: &[u8]) -> Result<Vec<Entry>, PackDamage> {
    let table = table(pack)?;
    match Hash::of(pack) == name {
        true => Ok(table),
        false => Err(PackDamage::OtherBytes),
    }
}

/// The table of a pack, checked against its own hash. Bytes outside the table may be damaged.
pub fn table(pack: &[u8]) -> Result<Vec<Entry>, PackDamage> {
    if pack.len() > MAX_PACK_BYTES {
        return Err(PackDamage::Format("it is too large"));
    }
    check_header(pack)?;
    let (body, table) = split_footer(pack).ok_or(PackDamage::Format("its footer is damaged"))?;
    let (entries, rest) = table.as_chunks::<ENTRY_BYTES>();
    if !rest.is_empty() {
        return Err(PackDamage::Format("its table is cut off"));
    }
    let entries: Option<Vec<_>> = entries.iter().map(Entry::decode).collect();
    let entries = entries.ok_or(PackDamage::Format("its table is cut off"))?;
    check_entries(&entries, body.len())?;
    Ok(entries)
}

fn check_header(pack: &[u8]) -> Result<(), PackDamage> {
    if pack.len() < HEADER_BYTES + FOOTER_BYTES || !pack.starts_with(MAGIC) {
        return Err(PackDamage::Format("its header is damaged"));
    }
    match (number_at(pack, MAGIC.len()), number_at(pack, MAGIC.len() + 4)) {
        (Some(VERSION), Some(NOT_ENCRYPTED)) => Ok(()),
        (Some(VERSION), Some(key_id)) => Err(PackDamage::Encrypted { key_id }),
        (version, _) => Err(PackDamage::Version { version: version.unwrap_or_default() }),
    }
}

/// The header and chunks of a pack, and its table.
fn split_footer(pack: &[u8]) -> Option<(&[u8], &[u8])> {
    let (rest, footer) = pack.split_at_checked(pack.len().checked_sub(FOOTER_BYTES)?)?;
    let (hash, lengths) = footer.split_at(Hash::BYTES);
    let length = number_at(lengths, 0)? as usize;
    let (body, table) = rest.split_at_checked(rest.len().checked_sub(length)?)?;
    let is_valid = lengths.ends_with(MAGIC) && Hash::of(table).as_bytes() == hash;
    is_valid.then_some((body, table))
}

/// The chunks follow one another, from the header to the table.
fn check_entries(entries: &[Entry], end: usize) -> Result<(), PackDamage> {
    let mut next = HEADER_BYTES;
    for entry in entries {
        if entry.offset as usize != next {
            return Err(PackDamage::Format("its chunks have gaps"));
        }
        if entry.raw_len as usize > MAX_CHUNK_BYTES || entry.stored_len as usize > MAX_COMPRESSED_BYTES {
            return Err(PackDamage::Format("a chunk is too large"));
        }
        next += entry.stored_len as usize;
    }
    match next == end {
        true => Ok(()),
        false => Err(PackDamage::Format("its chunks do not end at its table")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pack_of(chunks: &[Vec<u8>]) -> SealedPack {
        let mut builder = PackBuilder::new([7; NONCE_BYTES]);
        for chunk in chunks {
            builder.push(Hash::of(chunk), length_of(chunk.len()), chunk);
        }
        builder.seal()
    }

    /// The bytes of a pack must not change, because stores keep them.
    #[test]
    fn the_layout_is_fixed() {
        let pack = pack_of(&[b"abc".to_vec()]);
        assert_eq!(pack.bytes[..16], *b"sbxpack\n\x01\0\0\0\0\0\0\0");
        assert_eq!(pack.bytes[16..32], [7; 16]);
        assert_eq!(pack.bytes[32..35], *b"abc");
        assert_eq!(pack.bytes[35..67], *Hash::of(b"abc").as_bytes());
        assert_eq!(pack.bytes[67..79], [32, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!(pack.bytes[79..111], *Hash::of(&pack.bytes[35..79]).as_bytes());
        assert_eq!(pack.bytes[111..], *b"\x2c\0\0\0sbxpack\n");
    }

    #[test]
    fn another_version_and_an_encrypted_pack_are_named() {
        let mut bytes = pack_of(&[]).bytes.to_vec();
        bytes[12] = 9;
        assert_eq!(table(&bytes), Err(PackDamage::Encrypted { key_id: 9 }));
        bytes[8] = 2;
        assert_eq!(table(&bytes), Err(PackDamage::Version { version: 2 }));
    }

    #[test]
    fn a_full_pack_is_not_larger_than_the_limit() {
        let mut builder = PackBuilder::new([0; NONCE_BYTES]);
        let chunk = vec![1; MAX_COMPRESSED_BYTES];
        for length in [MAX_COMPRESSED_BYTES, 1000, 1] {
            while builder.has_room_for(length) {
                builder.push(Hash::of(b""), 1, &chunk[..length]);
            }
        }
        assert!(builder.bytes.capacity() <= MAX_PACK_BYTES);
        let sealed = builder.seal();
        let missing = MAX_PACK_BYTES - sealed.bytes.len();
        assert!(missing <= ENTRY_BYTES, "{missing}");
        assert!(table(&sealed.bytes).is_ok());
    }

    #[test]
    fn a_pack_of_small_chunks_ends_before_it_is_full() {
        let mut builder = PackBuilder::new([0; NONCE_BYTES]);
        while builder.has_room_for(1) {
            builder.push(Hash::of(b""), 1, b"x");
        }
        let sealed = builder.seal();
        assert_eq!(sealed.chunks.len(), MAX_PACK_CHUNKS);
        assert!(table(&sealed.bytes).is_ok());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_pack_is_read_back(chunks: Vec<Vec<u8>>) {
            let pack = pack_of(&chunks);
            let entries = verify(pack.info.name, &pack.bytes).unwrap();
            let stored: Vec<_> = entries.iter().map(|entry| entry.stored(&pack.bytes).to_vec()).collect();
            prop_assert_eq!(stored, chunks);
            let locations = entries.iter().map(|entry| (entry.hash, entry.location(pack.info.name)));
            prop_assert_eq!(locations.collect::<Vec<_>>(), pack.chunks);
        }

        #[test]
        fn a_changed_or_cut_pack_is_rejected(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..8),
            at: prop::sample::Index,
            change in 1..=u8::MAX,
        ) {
            let pack = pack_of(&chunks);
            let mut bytes = pack.bytes.to_vec();
            let at = at.index(bytes.len());
            prop_assert!(verify(pack.info.name, &bytes[..at]).is_err());
            bytes[at] ^= change;
            prop_assert!(verify(pack.info.name, &bytes).is_err());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, is_pack: bool) {
            let mut pack = if is_pack { pack_of(&[b"abc".to_vec()]).bytes.to_vec() } else { Vec::new() };
            pack.truncate(pack.len().saturating_sub(bytes.len()));
            pack.extend(bytes);
            drop(table(&pack));
        }
    }
}
