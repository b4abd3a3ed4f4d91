//! How a snapshot represents a workspace: chunks, trees, and their names.
//!
//! A snapshot is a tree of immutable *chunks*, each named by the BLAKE3 hash of its bytes. A file's bytes are cut into
//! chunks where their content suggests it ([`chunker`]), so that an edit changes few of them. A directory is the list of
//! its entries ([`tree`]), which is cut into chunks like a file. [`content`] names the chunks of either. [`compression`]
//! is how a chunk is sent and stored. [`reader`] reads trees, [`diff`] compares two of them, and [`plan`] says how
//! one becomes the other. [`archive`] is a snapshot as one file.
//!
//! The agent makes these from files, and the daemon stores and compares them. What an agent sends is hostile, so every
//! decoder has bounds and rejects what this crate does not write.

pub mod archive;
pub mod chunker;
pub mod compression;
pub mod content;
pub mod diff;
pub mod hash;
pub mod plan;
pub mod reader;
pub mod tree;
pub mod values;

pub use chunker::{Chunker, MAX_CHUNK_BYTES};
pub use compression::{Compressor, Decompressor};
pub use content::{Content, ContentBuilder, Segment};
pub use diff::{Change, Differ, Difference};
pub use hash::Hash;
pub use reader::{ChunkSource, ContentReader, ReadError, TreeReader};
pub use tree::{Entry, Kind, TreeDecoder};
