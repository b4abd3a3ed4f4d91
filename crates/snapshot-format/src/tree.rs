//! The entries of a directory.
//!
//! A directory is the sequence of its entries in the order of their names' bytes, each with its length in front of it
//! (protobuf's length-delimited encoding). The directory's own mode and time are in the entry that names it.

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;

use crate::Content;

/// Maximum size of an encoded entry in bytes. ext4 keeps the extended attributes of a file in 64 KiB at most.
pub const MAX_ENTRY_BYTES: usize = 128 * 1024;

/// Maximum size of a name in bytes (`NAME_MAX`).
pub const MAX_NAME_BYTES: usize = 255;

/// Maximum size of the target of a link in bytes (`PATH_MAX`).
pub const MAX_TARGET_BYTES: usize = 4096;

/// Bits of a mode that an entry may have: permissions, set-user-id, set-group-id and sticky.
pub const MODE_BITS: u32 = 0o7777;

const NANOS_PER_SECOND: u32 = 1_000_000_000;

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum Kind {
    /// No kind. Never valid.
    Unspecified = 0,
    /// A regular file. `content` is its bytes.
    File = 1,
    /// A directory. `content` is its entries.
    Directory = 2,
    /// A symbolic link to `target`, wherever that leads.
    SymbolicLink = 3,
    /// Another name of the regular file at the path `target`, which is relative to the snapshot's root. That one comes
    /// earlier in a walk, and is a [`Kind::File`].
    HardLink = 4,
    /// A named pipe.
    Fifo = 5,
    /// A Unix socket. It has no listener when it is restored.
    Socket = 6,
}

/// An extended attribute.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Attribute {
    /// The name with its namespace, such as `user.comment`.
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    /// The value.
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// An entry of a directory.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Entry {
    /// The name in its directory. Not necessarily UTF-8.
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    /// Its kind.
    #[prost(enumeration = "Kind", tag = "2")]
    pub kind: i32,
    /// Permissions and the other bits of [`MODE_BITS`]. 0 for links.
    #[prost(uint32, tag = "3")]
    pub mode: u32,
    /// When the content was changed: seconds since the Unix epoch.
    #[prost(sint64, tag = "4")]
    pub modified_s: i64,
    /// The nanoseconds of that time.
    #[prost(uint32, tag = "5")]
    pub modified_ns: u32,
    /// The bytes of a file, or the entries of a directory.
    #[prost(message, optional, tag = "6")]
    pub content: Option<Content>,
    /// Where a link leads.
    #[prost(bytes = "bytes", tag = "7")]
    pub target: Bytes,
    /// Extended attributes in the order of their names.
    #[prost(message, repeated, tag = "8")]
    pub attributes: Vec<Attribute>,
}

/// Why a tree was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTree {
    /// An entry is not as this crate encodes it.
    #[error("an entry cannot be decoded: {0}")]
    Encoding(String),
    /// An entry is larger than [`MAX_ENTRY_BYTES`].
    #[error("an entry of {0} bytes exceeds the limit of {MAX_ENTRY_BYTES}")]
    TooLarge(u64),
    /// The directory ends in the middle of an entry.
    #[error("an entry is cut off")]
    CutOff,
    /// A name that no directory can have, such as `..`.
    #[error("the name {0:?} is not valid")]
    Name(String),
    /// A name that is not after the one before it.
    #[error("the name {0:?} is not in order")]
    Order(String),
    /// A field that this kind of entry cannot have, or the lack of one that it must have.
    #[error("the entry {name:?} is not valid: {problem}")]
    Field {
        /// The entry's name.
        name: String,
        /// What is wrong.
        problem: &'static str,
    },
}

impl Entry {
    /// Checks everything that can be checked without the chunks.
    pub fn check(&self) -> Result<(), InvalidTree> {
        if !is_valid_name(&self.name) {
            return Err(InvalidTree::Name(shown(&self.name)));
        }
        match self.problem() {
            Some(problem) => Err(InvalidTree::Field { name: shown(&self.name), problem }),
            None => Ok(()),
        }
    }

    fn problem(&self) -> Option<&'static str> {
        let kind = self.kind();
        let has_content = matches!(kind, Kind::File | Kind::Directory);
        let is_link = matches!(kind, Kind::SymbolicLink | Kind::HardLink);
        let is_target_valid =
            (1..=MAX_TARGET_BYTES).contains(&self.target.len()) && !self.target.contains(&0);
        [
            (kind == Kind::Unspecified, "its kind is unknown"),
            (self.content.is_some() != has_content, "it has no content, or must not have any"),
            (is_link && !is_target_valid, "the target of a link has 1 to 4096 bytes and no NUL"),
            (!is_link && !self.target.is_empty(), "only a link has a target"),
            (
                kind == Kind::HardLink && !is_valid_path(&self.target),
                "a hard link's target is a relative path",
            ),
            (self.mode & !MODE_BITS != 0, "its mode has unknown bits"),
            (self.modified_ns >= NANOS_PER_SECOND, "its time has more than a second of nanoseconds"),
            (!self.attributes.is_sorted_by(|a, b| a.name < b.name), "its attributes are not in order"),
            (
                self.attributes.iter().any(|attribute| !is_attribute(attribute)),
                "an attribute has no valid name",
            ),
        ]
        .into_iter()
        .find_map(|(is_wrong, problem)| is_wrong.then_some(problem))
    }
}

/// The namespaces that a user can write (xattr(7)).
fn is_attribute(attribute: &Attribute) -> bool {
    let name = &attribute.name;
    let is_known = name.starts_with(b"user.") || name.starts_with(b"system.posix_acl_");
    is_known && name.len() <= MAX_NAME_BYTES && !name.contains(&0)
}

/// Whether a directory can have an entry of this name.
pub fn is_valid_name(name: &[u8]) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len())
        && name != b"."
        && name != b".."
        && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

/// Whether a path is relative and its parts are names.
pub fn is_valid_path(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').all(is_valid_name)
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(&name[..name.len().min(MAX_NAME_BYTES)]).into_owned()
}

/// Decodes the entries of one directory from its chunks, and checks them.
#[derive(Debug, Default)]
pub struct TreeDecoder {
    buffer: BytesMut,
    /// The last name.
    last: Bytes,
}

impl TreeDecoder {
    /// Adds the next chunk of the directory.
    pub fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// Returns the next entry, or `None` if more chunks are needed.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, InvalidTree> {
        let mut start = &self.buffer[..];
        let Ok(length) = prost::decode_length_delimiter(&mut start) else {
            // The length itself is cut off. Ten bytes always hold one.
            return if self.buffer.len() < 10 { Ok(None) } else { Err(InvalidTree::CutOff) };
        };
        if length > MAX_ENTRY_BYTES {
            return Err(InvalidTree::TooLarge(length as u64));
        }
        if start.len() < length {
            return Ok(None);
        }
        let prefix = self.buffer.len() - start.len();
        self.buffer.advance(prefix);
        let encoded = self.buffer.split_to(length).freeze();
        let entry = Entry::decode(encoded).map_err(|error| InvalidTree::Encoding(error.to_string()))?;
        entry.check()?;
        if entry.name <= self.last {
            return Err(InvalidTree::Order(shown(&entry.name)));
        }
        self.last = entry.name.clone();
        Ok(Some(entry))
    }

    /// Checks that the directory is complete.
    pub fn finish(&self) -> Result<(), InvalidTree> {
        if self.buffer.is_empty() { Ok(()) } else { Err(InvalidTree::CutOff) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(name: &[u8]) -> Entry {
        Entry {
            name: Bytes::copy_from_slice(name),
            kind: Kind::File.into(),
            mode: 0o644,
            content: Some(Content::default()),
            ..Entry::default()
        }
    }

    fn link(kind: Kind, target: &'static [u8]) -> Entry {
        let target = Bytes::from_static(target);
        Entry { name: "l".into(), kind: kind.into(), target, ..Entry::default() }
    }

    fn encoded(entries: &[Entry]) -> Vec<u8> {
        entries.iter().flat_map(Message::encode_length_delimited_to_vec).collect()
    }

    fn decoded(directory: &[u8], chunk_bytes: usize) -> Result<Vec<Entry>, InvalidTree> {
        let mut decoder = TreeDecoder::default();
        let mut entries = Vec::new();
        for chunk in directory.chunks(chunk_bytes) {
            decoder.push(chunk);
            while let Some(entry) = decoder.next_entry()? {
                entries.push(entry);
            }
        }
        decoder.finish().map(|()| entries)
    }

    proptest! {
        #[test]
        fn a_directory_comes_back_however_it_is_cut(
            names in proptest::collection::btree_set("[^/\0]{1,20}", 0..40),
            chunk_bytes in 1..200_usize,
        ) {
            let names = names.iter().filter(|name| !matches!(name.as_str(), "." | ".."));
            let entries: Vec<Entry> = names.map(|name| file(name.as_bytes())).collect();
            prop_assert_eq!(decoded(&encoded(&entries), chunk_bytes).unwrap(), entries);
        }

        #[test]
        fn garbage_never_panics(bytes: Vec<u8>) {
            let _ = decoded(&bytes, 7);
        }
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_rejected() {
        for name in [&b""[..], b".", b"..", b"a/b", b"/", b"a\0b", &[b'n'; 256]] {
            assert!(matches!(file(name).check(), Err(InvalidTree::Name(_))), "{name:?}");
        }
        assert_eq!(file(b"\xff\xfe").check(), Ok(()));
    }

    #[test]
    fn names_are_in_order_and_once() {
        for names in [[b"b", b"a"], [b"a", b"a"]] {
            let directory = encoded(&names.map(|name| file(name)));
            assert!(matches!(decoded(&directory, 100), Err(InvalidTree::Order(_))));
        }
    }

    #[test]
    fn fields_that_do_not_belong_to_the_kind_are_rejected() {
        let wrong = [
            Entry { kind: 0, ..file(b"a") },
            Entry { kind: 7, ..file(b"a") },
            Entry { content: None, ..file(b"a") },
            Entry { mode: 0o10_644, ..file(b"a") },
            Entry { modified_ns: NANOS_PER_SECOND, ..file(b"a") },
            Entry { target: "t".into(), ..file(b"a") },
            Entry {
                attributes: vec![Attribute { name: "security.x".into(), value: "".into() }],
                ..file(b"a")
            },
            link(Kind::SymbolicLink, b""),
            link(Kind::SymbolicLink, b"a\0b"),
            link(Kind::HardLink, b"/etc/passwd"),
            link(Kind::HardLink, b"workspace/../../x"),
            Entry { content: Some(Content::default()), ..link(Kind::Fifo, b"") },
        ];
        for entry in wrong {
            assert!(matches!(entry.check(), Err(InvalidTree::Field { .. })), "{entry:?}");
        }
        assert_eq!(link(Kind::SymbolicLink, b"/etc/passwd").check(), Ok(()), "only the sandbox follows it");
        assert_eq!(link(Kind::HardLink, b"workspace/a").check(), Ok(()));
    }

    #[test]
    fn an_entry_that_is_cut_off_or_too_large_is_rejected() {
        let directory = encoded(&[file(b"a")]);
        assert_eq!(decoded(&directory[..directory.len() - 1], 100), Err(InvalidTree::CutOff));
        let huge = prost::encoding::encode_varint;
        let mut length = Vec::new();
        huge(u64::from(u32::MAX), &mut length);
        assert_eq!(decoded(&length, 100), Err(InvalidTree::TooLarge(u64::from(u32::MAX))));
        assert_eq!(decoded(&[0xff; 20], 100), Err(InvalidTree::CutOff));
    }
}
