//! A tree with positions, and writing it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::BLOCK_BYTES;
use crate::directory::{self, Entry};
use crate::disk::{self, Inode};
use crate::invalid::Invalid;
use crate::layout::{InodeLocation, Layout};
use crate::tree::{Item, Kind, Node, Special, Tree};

/// Types of files in a mode (inode(7)).
const S_IFIFO: u16 = 0o010_000;
const S_IFDIR: u16 = 0o040_000;
const S_IFREG: u16 = 0o100_000;
const S_IFLNK: u16 = 0o120_000;
const S_IFSOCK: u16 = 0o140_000;

/// An image whose files' bytes are still to be written.
#[derive(Debug)]
pub struct Plan {
    items: Vec<Item>,
    locations: Vec<InodeLocation>,
    blocks: u32,
    uuid: [u8; 16],
}

impl Plan {
    /// Gives everything its position in an image with this UUID.
    ///
    /// # Errors
    ///
    /// A directory has two entries of the same name, or the image is too large.
    pub fn new(tree: Tree, uuid: [u8; 16]) -> Result<Self, Invalid> {
        let items = tree.into_items()?;
        let mut layout = Layout::with_capacity(items.len());
        for item in &items {
            layout.add(item.xattrs.len(), size(item));
        }
        let (locations, blocks) = layout.finish()?;
        Ok(Self { items, locations, blocks, uuid })
    }

    /// Size of the image in bytes. Holes of its files are holes in it.
    #[must_use]
    pub fn size(&self) -> u64 {
        u64::from(self.blocks) * BLOCK_BYTES
    }

    /// Writes everything but the bytes of files to an empty file.
    ///
    /// # Errors
    ///
    /// The image cannot be written.
    pub fn write_tree(&self, image: &File) -> io::Result<()> {
        image.set_len(self.size())?;
        // The root comes first, so it is in one of the first two blocks.
        let root = self.locations[Tree::ROOT.0].number() as u16;
        image.write_all_at(&disk::head(self.uuid, root, self.items.len() as u64, self.blocks), 0)?;
        for (number, item) in self.items.iter().enumerate() {
            let node = Node(number);
            let inode_at = self.locations[number].inode_at;
            let mut bytes = self.inode(node).encode().to_vec();
            bytes.extend(&item.xattrs);
            image.write_all_at(&bytes, inode_at)?;
            match &item.kind {
                Kind::Directory { .. } => self.write_data(image, node, 0, &self.directory(node))?,
                Kind::SymbolicLink { target } => self.write_data(image, node, 0, target)?,
                Kind::File { .. } | Kind::Special(_) => {}
            }
        }
        Ok(())
    }

    /// Writes bytes of a file. Bytes that are never written read as zeros.
    ///
    /// # Errors
    ///
    /// `node` is not a file of the tree, the file is shorter, or the image cannot be written.
    pub fn write(&self, image: &File, node: Node, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let size = match self.items.get(node.0).map(|item| &item.kind) {
            Some(Kind::File { size }) => *size,
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file of the image")),
        };
        match offset.checked_add(bytes.len() as u64) {
            Some(end) if end <= size => self.write_data(image, node, offset, bytes),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "more bytes than the file has")),
        }
    }

    fn write_data(&self, image: &File, node: Node, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let location = &self.locations[node.0];
        let size = size(&self.items[node.0]);
        let tail_from = match location.tail_at {
            Some(_) => size - size % BLOCK_BYTES,
            None => size,
        };
        let in_blocks = tail_from.saturating_sub(offset).min(bytes.len() as u64);
        let (in_blocks, in_tail) = bytes.split_at(in_blocks as usize);
        if !in_blocks.is_empty() {
            image.write_all_at(in_blocks, u64::from(location.block) * BLOCK_BYTES + offset)?;
        }
        if let Some(tail_at) = location.tail_at.filter(|_| !in_tail.is_empty()) {
            image.write_all_at(in_tail, tail_at + offset.saturating_sub(tail_from))?;
        }
        Ok(())
    }

    fn inode(&self, node: Node) -> Inode {
        let (item, location) = (&self.items[node.0], &self.locations[node.0]);
        Inode {
            mode: item.mode | file_type(&item.kind),
            size: size(item),
            block: if matches!(item.kind, Kind::Special(_)) { 0 } else { location.block },
            is_inline: location.tail_at.is_some(),
            xattr_bytes: item.xattrs.len(),
            modified_s: item.modified_s,
            modified_ns: item.modified_ns,
            links: item.links,
            number: node.0 as u32 + 1,
        }
    }

    fn directory(&self, node: Node) -> Vec<u8> {
        let Kind::Directory { parent, entries, .. } = &self.items[node.0].kind else { return Vec::new() };
        let entries = entries.iter().map(|(name, node)| Entry {
            name,
            inode: self.locations[node.0].number(),
            kind: entry_type(&self.items[node.0].kind),
        });
        let number = |node: &Node| self.locations[node.0].number();
        directory::encode(&directory::with_dots(entries.collect(), number(&node), number(parent)))
    }
}

/// Number of bytes of an item's data.
fn size(item: &Item) -> u64 {
    match &item.kind {
        Kind::Directory { entries, .. } => {
            let entries = entries.iter().map(|(name, _)| Entry { name, inode: 0, kind: 0 }).collect();
            directory::size(directory::with_dots(entries, 0, 0).iter().map(|entry| entry.name))
        }
        Kind::File { size } => *size,
        Kind::SymbolicLink { target } => target.len() as u64,
        Kind::Special(_) => 0,
    }
}

fn file_type(kind: &Kind) -> u16 {
    match kind {
        Kind::Directory { .. } => S_IFDIR,
        Kind::File { .. } => S_IFREG,
        Kind::SymbolicLink { .. } => S_IFLNK,
        Kind::Special(Special::Fifo) => S_IFIFO,
        Kind::Special(Special::Socket) => S_IFSOCK,
    }
}

fn entry_type(kind: &Kind) -> u8 {
    match kind {
        Kind::Directory { .. } => directory::DIRECTORY,
        Kind::File { .. } => directory::REGULAR,
        Kind::SymbolicLink { .. } => directory::SYMBOLIC_LINK,
        Kind::Special(Special::Fifo) => directory::FIFO,
        Kind::Special(Special::Socket) => directory::SOCKET,
    }
}
