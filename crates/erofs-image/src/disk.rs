//! The structures on disk (fs/erofs/erofs_fs.h). All numbers are little-endian.

use crate::BLOCK_BYTES;

/// Position of the superblock, and its size.
const SUPERBLOCK_AT: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 128;
const MAGIC: u32 = 0xe0f5_e1e2;
const BLOCK_BITS: u8 = 12;

/// The times of inodes are times of modification.
const FEATURE_COMPAT_MTIME: u32 = 2;

/// Unit of inode numbers: an inode begins at this multiple from the start of the image.
pub(crate) const SLOT_BYTES: u64 = 32;

/// Position of the first inode, the root's, or a bit before it. The superblock has 16 bits for its number.
pub(crate) const FIRST_INODE_AT: u64 = SUPERBLOCK_AT + SUPERBLOCK_BYTES as u64;

/// Size of an inode of the extended format, which has its own time and 32 bits for owners and links.
pub(crate) const INODE_BYTES: u64 = 64;

/// Extended inode (bit 0), and the layout of the data (from bit 1).
const EXTENDED: u16 = 1;
const FLAT_PLAIN: u16 = 0;
const FLAT_INLINE: u16 = 2;

/// Size of the header of extended attributes, and of the beginning of each.
const XATTR_HEADER_BYTES: usize = 12;
const XATTR_UNIT: usize = 4;

/// Numbers of the prefixes of extended attributes' names.
const XATTR_PREFIXES: [(&[u8], u8); 3] =
    [(b"system.posix_acl_access", 2), (b"system.posix_acl_default", 3), (b"user.", 1)];

/// An inode, as far as this crate uses it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inode {
    pub(crate) mode: u16,
    pub(crate) size: u64,
    /// The first block of the data.
    pub(crate) block: u32,
    /// Whether the end of the data follows the inode.
    pub(crate) is_inline: bool,
    pub(crate) xattr_bytes: usize,
    pub(crate) modified_s: i64,
    pub(crate) modified_ns: u32,
    pub(crate) links: u32,
    /// For programs that need numbers of 32 bits.
    pub(crate) number: u32,
}

impl Inode {
    pub(crate) fn encode(&self) -> [u8; INODE_BYTES as usize] {
        let layout = if self.is_inline { FLAT_INLINE } else { FLAT_PLAIN };
        let xattr_units = match self.xattr_bytes {
            0 => 0,
            // Checked by the tree: at most 64 KiB and the header.
            bytes => ((bytes - XATTR_HEADER_BYTES) / XATTR_UNIT + 1) as u16,
        };
        let mut bytes = [0; INODE_BYTES as usize];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &(EXTENDED | layout << 1).to_le_bytes());
        put(2, &xattr_units.to_le_bytes());
        put(4, &self.mode.to_le_bytes());
        put(8, &self.size.to_le_bytes());
        put(16, &self.block.to_le_bytes());
        put(20, &self.number.to_le_bytes());
        // The owners at 24 and 28 are root.
        put(32, &self.modified_s.to_le_bytes());
        put(40, &self.modified_ns.to_le_bytes());
        put(44, &self.links.to_le_bytes());
        bytes
    }
}

/// Returns the beginning of the image, up to the first inode. `root` is the number of the root's inode.
pub(crate) fn head(uuid: [u8; 16], root: u16, inodes: u64, blocks: u32) -> Vec<u8> {
    let mut head = vec![0; FIRST_INODE_AT as usize];
    let superblock = &mut head[SUPERBLOCK_AT as usize..];
    let mut put = |at: usize, value: &[u8]| superblock[at..at + value.len()].copy_from_slice(value);
    put(0, &MAGIC.to_le_bytes());
    put(8, &FEATURE_COMPAT_MTIME.to_le_bytes());
    put(12, &[BLOCK_BITS]);
    put(14, &root.to_le_bytes());
    put(16, &inodes.to_le_bytes());
    put(36, &blocks.to_le_bytes());
    put(48, &uuid);
    head
}

/// Returns the name without its prefix, and the prefix's number. `None` if EROFS does not support the attribute.
pub(crate) fn split_xattr_name(name: &[u8]) -> Option<(u8, &[u8])> {
    let (prefix, index) = XATTR_PREFIXES.into_iter().find(|(prefix, _)| name.starts_with(prefix))?;
    let rest = &name[prefix.len()..];
    // The whole name of an access control list is its prefix.
    (rest.is_empty() != (index == 1)).then_some((index, rest))
}

/// Encodes extended attributes, which follow the inode. Their names are checked by the tree.
pub(crate) fn encode_xattrs<'a>(xattrs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in xattrs {
        let Some((index, rest)) = split_xattr_name(name) else { continue };
        if bytes.is_empty() {
            bytes.resize(XATTR_HEADER_BYTES, 0);
        }
        bytes.extend([rest.len() as u8, index]);
        bytes.extend((value.len() as u16).to_le_bytes());
        bytes.extend(rest);
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(XATTR_UNIT), 0);
    }
    bytes
}

/// Number of whole blocks that `bytes` take.
pub(crate) fn blocks(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES)
}
