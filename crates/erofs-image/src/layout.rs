//! Where inodes and data are in an image.
//!
//! Inodes come first, each followed by its extended attributes and, if it fits into the same block, by the last part of
//! its data. The other data follows in whole blocks.

use crate::BLOCK_BYTES;
use crate::disk::{FIRST_INODE_AT, INODE_BYTES, SLOT_BYTES, blocks};
use crate::invalid::Invalid;

/// Where one inode and its data are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InodeLocation {
    /// Position of the inode in bytes.
    pub(crate) inode_at: u64,
    /// Position of the data that follows the inode. It is the last part of the data.
    pub(crate) tail_at: Option<u64>,
    /// The first block of the other data.
    pub(crate) block: u32,
}

impl InodeLocation {
    /// The inode's number.
    pub(crate) fn number(&self) -> u64 {
        self.inode_at / SLOT_BYTES
    }
}

/// Assigns locations to inodes, one after the other.
#[derive(Debug)]
pub(crate) struct Layout {
    /// End of the inodes so far.
    end: u64,
    /// Number of blocks of data so far.
    data_blocks: u64,
    locations: Vec<InodeLocation>,
}

impl Layout {
    pub(crate) fn with_capacity(inodes: usize) -> Self {
        Self { end: FIRST_INODE_AT, data_blocks: 0, locations: Vec::with_capacity(inodes) }
    }

    /// Assigns a location to an inode with data of `size` bytes.
    pub(crate) fn add(&mut self, xattr_bytes: usize, size: u64) {
        let head = INODE_BYTES + xattr_bytes as u64;
        let tail = size % BLOCK_BYTES;
        let is_inline = tail > 0 && head + tail <= BLOCK_BYTES;
        let bytes = head + if is_inline { tail } else { 0 };
        let start = self.end.next_multiple_of(SLOT_BYTES);
        let left = BLOCK_BYTES - start % BLOCK_BYTES;
        let inode_at = if bytes > left && bytes <= BLOCK_BYTES { start + left } else { start };
        self.end = inode_at + bytes;
        let tail_at = is_inline.then_some(inode_at + head);
        // The final number is known when all inodes have a location. Checked in `finish`.
        self.locations.push(InodeLocation { inode_at, tail_at, block: self.data_blocks as u32 });
        self.data_blocks += if is_inline { size / BLOCK_BYTES } else { blocks(size) };
    }

    /// Returns all locations, and the number of blocks of the image.
    pub(crate) fn finish(mut self) -> Result<(Vec<InodeLocation>, u32), Invalid> {
        let first = blocks(self.end);
        let total = u32::try_from(first + self.data_blocks).map_err(|_| Invalid::ImageTooLarge)?;
        for location in &mut self.locations {
            location.block += first as u32;
        }
        Ok((self.locations, total))
    }
}
