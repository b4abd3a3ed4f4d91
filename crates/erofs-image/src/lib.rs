//! Writes EROFS images: read-only file systems that Linux mounts (Documentation/filesystems/erofs.rst).
//!
//! A [`Tree`] collects names, attributes and sizes. A [`Plan`] gives everything its position, so that the
//! files' bytes can be written in any order. Equal trees become equal images.
//!
//! Nothing is compressed. All files belong to root: a mount with an id mapping shows them as a user's. Device nodes,
//! shared extended attributes and multiple devices are not supported, because bases do not need them.

mod acl;
mod directory;
mod disk;
mod invalid;
mod layout;
mod plan;
mod tree;

pub use invalid::Invalid;
pub use plan::Plan;
pub use tree::{Attributes, Node, Special, Tree, Xattr};

/// Size of a block in bytes. The kernel's page size on most machines, and supported by all versions.
pub const BLOCK_BYTES: u64 = 4096;

/// Maximum number of files and directories in a tree.
pub const MAX_NODES: usize = 2_000_000;

/// Maximum number of bytes of all names, targets of links and extended attributes, which are kept in memory.
pub const MAX_TEXT_BYTES: usize = 128 * 1024 * 1024;

/// Maximum size of a file in bytes. ext4 allows 16 TiB.
pub const MAX_FILE_BYTES: u64 = 16 << 40;
