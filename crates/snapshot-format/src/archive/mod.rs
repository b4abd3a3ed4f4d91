//! A snapshot as one file, which another daemon can import.
//!
//! # Format
//!
//! All numbers are little endian.
//!
//! ```text
//! magic     8 bytes, "SBXSNAP\0"
//! version   u32, 2 if there are chunks of values, otherwise 1
//! header    u32 length, then an encoded Header
//! chunks    each: 1 (u8), hash (32 bytes), length (u32), compressed length (u32), one zstd frame
//! trailer   2 (u8), number of chunks (u64), BLAKE3 hash of everything before it (32 bytes)
//! ```
//!
//! # Order
//!
//! A reader that walks the tree from its root always knows which chunk comes next, so nothing else is accepted. The
//! walk visits the entries of a directory in their order, and what an entry contains before the next entry. The chunks of
//! a directory, and nodes of a long content, come when their first byte is needed. A chunk comes once, where it is
//! needed first. [`Walk`] is that order, and [`Seen`] tracks the received chunks. After the tree come the chunks of the
//! values, with those of a node after the node.
//!
//! So every chunk is verified when it arrives, a chunk that the tree does not name is an error, and a missing one too. An
//! archive needs no key. A reader takes memory for one chunk of each directory on the way, and 16 bytes for each chunk and
//! each file.

mod decode;
mod encode;
mod seen;
mod walk;

pub use self::decode::{ChunkRecord, Decoder, InvalidArchive, Part};
pub use self::encode::Encoder;
pub use self::seen::{OverLimit, Seen};
pub use self::walk::{Totals, Visit, Walk, WalkError};
use crate::Content;

/// First bytes of an archive.
pub const MAGIC: [u8; 8] = *b"SBXSNAP\0";

/// Last version of the format.
pub const VERSION: u32 = 2;

/// Version of an archive without chunks of values, which older programs can read too.
const VERSION_WITHOUT_VALUES: u32 = 1;

/// Maximum size of the encoded header in bytes.
pub const MAX_HEADER_BYTES: usize = 64 * 1024;

/// Maximum number of different chunks in an archive.
pub const MAX_CHUNKS: u64 = 4_000_000;

/// Maximum number of entries with the parts of files, and of chunks, each as often as the tree has them.
pub const MAX_VISITS: u64 = 8_000_000;

/// Maximum size of all files in bytes, without holes.
pub const MAX_STORED_BYTES: u64 = 1 << 40;

/// Maximum size of all files in bytes, with holes.
pub const MAX_SIZE_BYTES: u64 = 1 << 60;

/// Maximum number of directories on the way from the root to a file.
pub const MAX_DEPTH: usize = 128;

/// The tag of a chunk's record.
const CHUNK: u8 = 1;

/// The tag of the trailer.
const TRAILER: u8 = 2;

/// Size of a chunk's record without its bytes.
const RECORD_BYTES: usize = 1 + crate::Hash::BYTES + 2 * size_of::<u32>();

/// Size of the trailer.
const TRAILER_BYTES: usize = 1 + size_of::<u64>() + crate::Hash::BYTES;

/// Description of the snapshot in an archive.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Header {
    /// The snapshot's name, if it has one.
    #[prost(string, optional, tag = "1")]
    pub name: Option<String>,
    /// Time when the snapshot was made, in milliseconds since the Unix epoch.
    #[prost(int64, tag = "2")]
    pub created_at_ms: i64,
    /// The root directory.
    #[prost(message, required, tag = "3")]
    pub root: Content,
    /// Number of files, as the exporter knows it. A reader counts them itself.
    #[prost(uint64, tag = "4")]
    pub files: u64,
    /// Size of the files in bytes with holes, as the exporter knows it. A reader counts it itself.
    #[prost(uint64, tag = "5")]
    pub size_bytes: u64,
    /// The [values](crate::values). `None` if the exporter does not know them, which is not the same as none.
    #[prost(message, optional, tag = "6")]
    pub values: Option<Content>,
}

impl Header {
    /// The version of an archive with this header.
    fn version(&self) -> u32 {
        let has_values = self.values.as_ref().is_some_and(|values| values.size > 0);
        if has_values { VERSION } else { VERSION_WITHOUT_VALUES }
    }
}
