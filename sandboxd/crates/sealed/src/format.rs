//! The format of an encrypted object.
//!
//! | part | bytes | content |
//! |---|---|---|
//! | header | 64 | magic (8), version (u32), segment length (u32), id of the key (16), salt (32) |
//! | segments | 65536 + 16 each | 64 KiB of the content, encrypted, and its tag; the last one may be shorter, down to 0 bytes |
//!
//! Numbers are little endian. Segments are encrypted with AES-256-GCM, so a range is read without the rest of the object. The
//! key of an object is the keyed BLAKE3 of its header and its name. The salt is random, so no two objects have the same key,
//! and the nonces can be counters: 3 zero bytes, the segment's number (u64, big endian), and 1 for the last segment. So an
//! object under another name, segments in another order, and a cut object are all rejected.

use std::ops::Range;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use secrecy::{ExposeSecret, SecretBox};

use crate::Damage;
use crate::key::{KEY_BYTES, Key, KeyId};

const MAGIC: &[u8; 8] = b"sbxseal\n";
const VERSION: u32 = 1;
const SALT_BYTES: usize = 32;

/// Size of a header in bytes.
pub(crate) const HEADER_BYTES: usize = MAGIC.len() + 4 + 4 + KeyId::BYTES + SALT_BYTES;

/// Size of a segment's content in bytes.
pub const SEGMENT_BYTES: usize = 64 * 1024;

const TAG_BYTES: usize = 16;

/// Size of a full segment in bytes.
const SEALED_SEGMENT_BYTES: usize = SEGMENT_BYTES + TAG_BYTES;

/// Maximum size of an object's content in bytes. Nothing larger is written, and a larger one is not read into memory.
pub(crate) const MAX_CONTENT_BYTES: usize = 16 * 1024 * 1024;

/// Encryption failed, which happens only if the library cannot allocate.
#[derive(Debug, thiserror::Error)]
#[error("an object of {0} bytes cannot be encrypted")]
pub(crate) struct SealError(usize);

/// A header of this format that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header([u8; HEADER_BYTES]);

impl Header {
    /// Reads the header at the beginning of an object that was encrypted with the key `key`.
    pub(crate) fn read(object: &[u8], key: KeyId) -> Result<Self, Damage> {
        let bytes: &[u8; HEADER_BYTES] = object.first_chunk().ok_or(Damage::Length)?;
        let (magic, rest) = bytes.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(Damage::Header);
        }
        let (numbers, rest) = rest.split_at(8);
        let number =
            |at: usize| u32::from_le_bytes([numbers[at], numbers[at + 1], numbers[at + 2], numbers[at + 3]]);
        match (number(0), number(4) as usize) {
            (VERSION, SEGMENT_BYTES) => {}
            (VERSION, _) => return Err(Damage::Header),
            (other, _) => return Err(Damage::Version(other)),
        }
        if rest[..KeyId::BYTES] == key.as_bytes()[..] { Ok(Self(*bytes)) } else { Err(Damage::OtherKey) }
    }

    /// Id of the key in the header of an object. `None` if it is not a header.
    pub(crate) fn key_of(object: &[u8]) -> Option<KeyId> {
        let (_, rest) = object.strip_prefix(MAGIC)?.split_at_checked(8)?;
        rest.first_chunk().copied().map(KeyId::from_bytes)
    }

    fn new(key: KeyId, salt: [u8; SALT_BYTES]) -> Self {
        let numbers = [VERSION, u32::try_from(SEGMENT_BYTES).unwrap_or(u32::MAX)].map(u32::to_le_bytes);
        let parts = [&MAGIC[..], &numbers[0], &numbers[1], key.as_bytes(), &salt];
        let mut bytes = [0; HEADER_BYTES];
        bytes.iter_mut().zip(parts.into_iter().flatten()).for_each(|(to, from)| *to = *from);
        Self(bytes)
    }
}

/// Encrypts and decrypts objects with one key.
#[derive(Debug)]
pub(crate) struct Sealer {
    id: KeyId,
    secret: SecretBox<[u8; KEY_BYTES]>,
}

impl Sealer {
    pub(crate) fn new(key: &Key) -> Self {
        Self { id: key.id(), secret: key.derive("sandboxd 2026 snapshots: keys of objects") }
    }

    /// Id of the key.
    pub(crate) fn key_id(&self) -> KeyId {
        self.id
    }

    /// Encrypts an object of at most [`MAX_CONTENT_BYTES`].
    pub(crate) fn seal(
        &self,
        name: &str,
        salt: [u8; SALT_BYTES],
        content: &[u8],
    ) -> Result<Vec<u8>, SealError> {
        let header = Header::new(self.id, salt);
        let fail = || SealError(content.len());
        let key = self.object_key(&header, name).ok_or_else(fail)?;
        let mut sealed = Vec::with_capacity(sealed_len(content.len()));
        sealed.extend_from_slice(&header.0);
        let count = segments(content.len());
        for number in 0..count {
            let from = number * SEGMENT_BYTES;
            let segment = &content[from..content.len().min(from + SEGMENT_BYTES)];
            let at = sealed.len();
            sealed.extend_from_slice(segment);
            let nonce = nonce(number, number + 1 == count);
            let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut sealed[at..]);
            sealed.extend_from_slice(tag.map_err(|_| fail())?.as_ref());
        }
        Ok(sealed)
    }

    /// Decrypts a whole object.
    pub(crate) fn open(&self, name: &str, mut object: Vec<u8>) -> Result<Vec<u8>, Damage> {
        let header = Header::read(&object, self.id)?;
        let len = content_len(object.len() as u64).ok_or(Damage::Length)?;
        let body = object.split_off(HEADER_BYTES);
        self.open_segments(name, &header, &Segments::of(0..len, len), body)
    }

    /// Decrypts some segments of an object. `bytes` are those of [`Segments::sealed`].
    pub(crate) fn open_segments(
        &self,
        name: &str,
        header: &Header,
        segments: &Segments,
        mut bytes: Vec<u8>,
    ) -> Result<Vec<u8>, Damage> {
        let expected = segments.sealed.end - segments.sealed.start;
        if bytes.len() as u64 != expected {
            return Err(Damage::Length);
        }
        let key = self.object_key(header, name).ok_or(Damage::Changed)?;
        let mut opened = 0;
        let mut at = 0;
        for number in segments.numbers.clone() {
            let end = bytes.len().min(at + SEALED_SEGMENT_BYTES);
            let split = end.checked_sub(TAG_BYTES).filter(|split| *split >= at).ok_or(Damage::Length)?;
            let (content, tag) = bytes[at..end].split_at_mut(split - at);
            let nonce = nonce(number, number == segments.last);
            let done = key.open_in_place_separate_tag(nonce, Aad::empty(), tag, content);
            done.map_err(|_| Damage::Changed)?;
            bytes.copy_within(at..split, opened);
            opened += split - at;
            at = end;
        }
        bytes.truncate(opened);
        Ok(bytes)
    }

    fn object_key(&self, header: &Header, name: &str) -> Option<LessSafeKey> {
        let mut hasher = blake3::Hasher::new_keyed(self.secret.expose_secret());
        let key = hasher.update(&header.0).update(name.as_bytes()).finalize();
        UnboundKey::new(&AES_256_GCM, key.as_bytes()).ok().map(LessSafeKey::new)
    }
}

fn nonce(number: usize, is_last: bool) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[3..NONCE_LEN - 1].copy_from_slice(&(number as u64).to_be_bytes());
    nonce[NONCE_LEN - 1] = is_last.into();
    Nonce::assume_unique_for_key(nonce)
}

/// Segments of an object that contain a range of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segments {
    numbers: Range<usize>,
    /// Number of the object's last segment.
    last: usize,
    /// Where they are in the encrypted object.
    pub(crate) sealed: Range<u64>,
    /// Where the range begins in their content.
    pub(crate) skip: usize,
}

impl Segments {
    /// The segments for a range of a content of `len` bytes, within which the range must be.
    pub(crate) fn of(range: Range<u64>, len: u64) -> Self {
        let segment = SEGMENT_BYTES as u64;
        let last = usize::try_from(len.saturating_sub(1) / segment).unwrap_or(usize::MAX);
        let first = usize::try_from(range.start / segment).unwrap_or(usize::MAX).min(last);
        let end =
            usize::try_from(range.end.div_ceil(segment)).unwrap_or(usize::MAX).clamp(first + 1, last + 1);
        let position = |number: usize| HEADER_BYTES as u64 + number as u64 * SEALED_SEGMENT_BYTES as u64;
        let object_end = HEADER_BYTES as u64 + len + (last as u64 + 1) * TAG_BYTES as u64;
        Self {
            numbers: first..end,
            last,
            sealed: position(first)..position(end).min(object_end),
            skip: usize::try_from(range.start - first as u64 * segment).unwrap_or(usize::MAX),
        }
    }
}

/// Number of segments of a content. An empty one has an empty segment.
fn segments(len: usize) -> usize {
    len.div_ceil(SEGMENT_BYTES).max(1)
}

/// Size of an encrypted object with a content of `len` bytes.
pub(crate) fn sealed_len(len: usize) -> usize {
    HEADER_BYTES + len + segments(len) * TAG_BYTES
}

/// Size of the content of an encrypted object. `None` if no object has this size.
pub(crate) fn content_len(sealed: u64) -> Option<u64> {
    let body = sealed.checked_sub(HEADER_BYTES as u64)?;
    let count = body.div_ceil(SEALED_SEGMENT_BYTES as u64);
    let len = body.checked_sub(count * TAG_BYTES as u64)?;
    // A segment has at least its tag, and only an empty object has an empty segment.
    let is_exact = usize::try_from(len).is_ok_and(|len| sealed_len(len) as u64 == sealed);
    (is_exact && count > 0).then_some(len)
}

/// Random bytes for the header of an object.
pub(crate) fn salt() -> Result<[u8; SALT_BYTES], getrandom::Error> {
    let mut salt = [0; SALT_BYTES];
    getrandom::fill(&mut salt)?;
    Ok(salt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sealer(key: u8) -> Sealer {
        Sealer::new(&Key::new([key; KEY_BYTES]))
    }

    fn content(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at / 7 + at / 65_536) as u8).collect()
    }

    const LENGTHS: [usize; 7] =
        [0, 1, SEGMENT_BYTES - 1, SEGMENT_BYTES, SEGMENT_BYTES + 1, 2 * SEGMENT_BYTES, 3 * SEGMENT_BYTES + 5];

    /// Stores keep these bytes. Other implementations of the algorithms make the same.
    #[test]
    fn the_layout_is_fixed() {
        let sealed = sealer(1).seal("a", [9; SALT_BYTES], b"content").unwrap();
        assert_eq!(sealed[..16], *b"sbxseal\n\x01\0\0\0\0\0\x01\0");
        assert_eq!(sealed[16..32], *sealer(1).key_id().as_bytes());
        assert_eq!(sealed[32..64], [9; 32]);
        assert_eq!(sealed.len(), 64 + 7 + 16);
        assert_eq!(crate::key::hex(&sealed[64..]), "8560c85203a1c30495e3d0bdb3564d04417ea1bd9e0858");
    }

    #[test]
    fn an_object_is_read_back_whole() {
        for len in LENGTHS {
            let sealed = sealer(1).seal("a", [len as u8; SALT_BYTES], &content(len)).unwrap();
            assert_eq!(sealed.len(), sealed_len(len));
            assert_eq!(content_len(sealed.len() as u64), Some(len as u64));
            assert_eq!(sealer(1).open("a", sealed).unwrap(), content(len), "{len}");
        }
    }

    #[test]
    fn another_name_key_or_version_is_rejected() {
        let sealed = sealer(1).seal("a", [0; SALT_BYTES], b"content").unwrap();
        assert_eq!(sealer(1).open("b", sealed.clone()), Err(Damage::Changed));
        assert_eq!(sealer(2).open("a", sealed.clone()), Err(Damage::OtherKey));
        let mut newer = sealed.clone();
        newer[8] = 2;
        assert_eq!(sealer(1).open("a", newer), Err(Damage::Version(2)));
        assert_eq!(sealer(1).open("a", b"plain text".repeat(20)), Err(Damage::Header));
    }

    #[test]
    fn an_object_that_is_cut_between_segments_is_rejected() {
        let sealed = sealer(1).seal("a", [0; SALT_BYTES], &content(2 * SEGMENT_BYTES)).unwrap();
        let cut = sealed[..HEADER_BYTES + SEALED_SEGMENT_BYTES].to_vec();
        assert_eq!(content_len(cut.len() as u64), Some(SEGMENT_BYTES as u64));
        assert_eq!(sealer(1).open("a", cut), Err(Damage::Changed));
        let mut swapped = sealed[..HEADER_BYTES].to_vec();
        swapped.extend(&sealed[HEADER_BYTES + SEALED_SEGMENT_BYTES..]);
        swapped.extend(&sealed[HEADER_BYTES..HEADER_BYTES + SEALED_SEGMENT_BYTES]);
        assert_eq!(sealer(1).open("a", swapped), Err(Damage::Changed));
    }

    #[test]
    fn impossible_sizes_are_known() {
        let segment = SEALED_SEGMENT_BYTES as u64;
        for sealed in [0, 63, 64, 79, 64 + segment + 1, 64 + segment + 16] {
            assert_eq!(content_len(sealed), None, "{sealed}");
        }
        assert_eq!(content_len(64 + 16), Some(0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_range_is_read_back(len in prop::sample::select(&LENGTHS[1..]), from: prop::sample::Index, to: prop::sample::Index) {
            let (from, to) = (from.index(len), to.index(len) + 1);
            let (from, to) = (from.min(to - 1), to);
            let sealed = sealer(1).seal("a", [3; SALT_BYTES], &content(len)).unwrap();
            let header = Header::read(&sealed, sealer(1).key_id()).unwrap();
            let segments = Segments::of(from as u64..to as u64, len as u64);
            let read = sealed[segments.sealed.start as usize..segments.sealed.end as usize].to_vec();
            let opened = sealer(1).open_segments("a", &header, &segments, read).unwrap();
            prop_assert_eq!(&opened[segments.skip..segments.skip + to - from], &content(len)[from..to]);
        }

        #[test]
        fn a_changed_or_cut_object_is_rejected(
            len in prop::sample::select(&LENGTHS[..]),
            at: prop::sample::Index,
            change in 1..=u8::MAX,
        ) {
            let sealed = sealer(1).seal("a", [3; SALT_BYTES], &content(len)).unwrap();
            let at = at.index(sealed.len());
            prop_assert!(sealer(1).open("a", sealed[..at].to_vec()).is_err());
            let mut changed = sealed;
            changed[at] ^= change;
            prop_assert!(sealer(1).open("a", changed).is_err());
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, is_sealed: bool) {
            let mut object = if is_sealed { sealer(1).seal("a", [3; SALT_BYTES], b"abc").unwrap() } else { Vec::new() };
            object.truncate(object.len().saturating_sub(bytes.len() / 2));
            object.extend(bytes);
            drop(sealer(1).open("a", object));
        }
    }
}
