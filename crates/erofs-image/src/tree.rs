//! The tree that an image is made of: everything but the bytes of files.

use std::collections::HashSet;

use crate::invalid::Invalid;
use crate::{MAX_FILE_BYTES, MAX_NODES, MAX_TEXT_BYTES, acl, disk};

/// Maximum length of a name (`NAME_MAX`), and of a link's target (`PATH_MAX` without its NUL).
const MAX_NAME_BYTES: usize = 255;
const MAX_TARGET_BYTES: usize = 4095;

/// Maximum size of a file's extended attributes in bytes, encoded. The kernel reads up to 64 KiB of each.
const MAX_XATTR_BYTES: usize = 64 * 1024;

/// Permissions, set-user-id, set-group-id and sticky.
const MODE_BITS: u16 = 0o7777;

const NANOS_PER_SECOND: u32 = 1_000_000_000;

/// A file or directory of a [`Tree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(pub(crate) usize);

/// A kind of file without content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// A named pipe.
    Fifo,
    /// A Unix socket.
    Socket,
}

/// An extended attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xattr {
    /// The name with its namespace: `user.…`, `system.posix_acl_access` or `system.posix_acl_default`.
    pub name: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

/// Metadata of a file of any kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Permissions and the three bits above them, at most `0o7777`.
    pub mode: u16,
    /// When the content was changed: seconds since the Unix epoch.
    pub modified_s: i64,
    /// The nanoseconds of that time.
    pub modified_ns: u32,
    /// Extended attributes.
    pub xattrs: Vec<Xattr>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Directory { parent: Node, entries: Vec<(Box<[u8]>, Node)>, is_sorted: bool },
    File { size: u64 },
    SymbolicLink { target: Box<[u8]> },
    Special(Special),
}

impl Kind {
    fn empty_directory(parent: Node) -> Self {
        Self::Directory { parent, entries: Vec::new(), is_sorted: true }
    }
}

#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    pub(crate) mode: u16,
    pub(crate) modified_s: i64,
    pub(crate) modified_ns: u32,
    /// Encoded.
    pub(crate) xattrs: Box<[u8]>,
    pub(crate) links: u32,
}

/// Names, attributes and sizes of a file tree.
#[derive(Debug)]
pub struct Tree {
    items: Vec<Item>,
    text_bytes: usize,
}

impl Tree {
    /// The root of every tree.
    pub const ROOT: Node = Node(0);

    /// Creates a tree with an empty root directory.
    ///
    /// # Errors
    ///
    /// The attributes are not valid.
    pub fn new(root: Attributes) -> Result<Self, Invalid> {
        let mut tree = Self { items: Vec::new(), text_bytes: 0 };
        tree.push(root, Kind::empty_directory(Self::ROOT))?;
        tree.items[0].links = 2;
        Ok(tree)
    }

    /// Adds an empty directory.
    ///
    /// # Errors
    ///
    /// EROFS does not support the entry.
    pub fn directory(&mut self, parent: Node, name: &[u8], attributes: Attributes) -> Result<Node, Invalid> {
        let node = self.add(parent, name, attributes, Kind::empty_directory(parent))?;
        // Its own entry `.`, and the entry `..` of it in its parent.
        self.items[node.0].links += 1;
        self.items[parent.0].links += 1;
        Ok(node)
    }

    /// Adds a regular file of `size` bytes. [`crate::Plan::write`] writes them. Bytes that are never written are a hole.
    ///
    /// # Errors
    ///
    /// EROFS does not support the entry.
    pub fn file(
        &mut self,
        parent: Node,
        name: &[u8],
        attributes: Attributes,
        size: u64,
    ) -> Result<Node, Invalid> {
        if size > MAX_FILE_BYTES {
            return Err(Invalid::FileTooLarge);
        }
        self.add(parent, name, attributes, Kind::File { size })
    }

    /// Adds a symbolic link. Its mode is always `0o777`.
    ///
    /// # Errors
    ///
    /// EROFS does not support the entry.
    pub fn symbolic_link(
        &mut self,
        parent: Node,
        name: &[u8],
        mut attributes: Attributes,
        target: &[u8],
    ) -> Result<Node, Invalid> {
        if !(1..=MAX_TARGET_BYTES).contains(&target.len()) || target.contains(&0) {
            return Err(Invalid::Target);
        }
        self.count_text(target.len())?;
        attributes.mode = 0o777;
        self.add(parent, name, attributes, Kind::SymbolicLink { target: target.into() })
    }

    /// Adds a file without content.
    ///
    /// # Errors
    ///
    /// EROFS does not support the entry.
    pub fn special(
        &mut self,
        parent: Node,
        name: &[u8],
        attributes: Attributes,
        kind: Special,
    ) -> Result<Node, Invalid> {
        self.add(parent, name, attributes, Kind::Special(kind))
    }

    /// Adds another name of a file.
    ///
    /// # Errors
    ///
    /// EROFS does not support the entry.
    pub fn hard_link(&mut self, parent: Node, name: &[u8], file: Node) -> Result<(), Invalid> {
        if matches!(self.items[file.0].kind, Kind::Directory { .. }) {
            return Err(Invalid::Kind);
        }
        self.enter(parent, name, file)
    }

    /// Finds a file or directory by its path from the root. Fastest if each directory got its entries in the order of
    /// their names.
    pub fn find(&mut self, path: &[u8]) -> Option<Node> {
        path.split(|byte| *byte == b'/').try_fold(Self::ROOT, |dir, name| {
            let Kind::Directory { entries, is_sorted, .. } = &mut self.items[dir.0].kind else { return None };
            if !*is_sorted {
                entries.sort();
                *is_sorted = true;
            }
            let found = entries.binary_search_by(|(entry, _)| (**entry).cmp(name)).ok()?;
            Some(entries[found].1)
        })
    }

    /// Returns everything, with the entries of each directory in the order of their names.
    pub(crate) fn into_items(mut self) -> Result<Vec<Item>, Invalid> {
        for item in &mut self.items {
            let Kind::Directory { entries, .. } = &mut item.kind else { continue };
            entries.sort();
            if entries.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                return Err(Invalid::Duplicate);
            }
        }
        Ok(self.items)
    }

    fn add(
        &mut self,
        parent: Node,
        name: &[u8],
        attributes: Attributes,
        kind: Kind,
    ) -> Result<Node, Invalid> {
        let node = self.push(attributes, kind)?;
        self.enter(parent, name, node)?;
        Ok(node)
    }

    fn enter(&mut self, parent: Node, name: &[u8], node: Node) -> Result<(), Invalid> {
        let is_valid = (1..=MAX_NAME_BYTES).contains(&name.len())
            && !matches!(name, b"." | b"..")
            && !name.iter().any(|byte| matches!(byte, b'/' | 0));
        if !is_valid {
            return Err(Invalid::Name);
        }
        self.count_text(name.len())?;
        let Kind::Directory { entries, is_sorted, .. } = &mut self.items[parent.0].kind else {
            return Err(Invalid::Kind);
        };
        *is_sorted &= entries.last().is_none_or(|(last, _)| **last < *name);
        entries.push((name.into(), node));
        self.items[node.0].links += 1;
        Ok(())
    }

    fn push(&mut self, attributes: Attributes, kind: Kind) -> Result<Node, Invalid> {
        let Attributes { mode, modified_s, modified_ns, xattrs } = attributes;
        if mode & !MODE_BITS != 0 || modified_ns >= NANOS_PER_SECOND {
            return Err(Invalid::Attributes);
        }
        if self.items.len() >= MAX_NODES {
            return Err(Invalid::TooManyNodes);
        }
        let xattrs = encoded(xattrs)?;
        self.count_text(xattrs.len())?;
        self.items.push(Item { kind, mode, modified_s, modified_ns, xattrs, links: 0 });
        Ok(Node(self.items.len() - 1))
    }

    fn count_text(&mut self, bytes: usize) -> Result<(), Invalid> {
        self.text_bytes += bytes;
        if self.text_bytes > MAX_TEXT_BYTES { Err(Invalid::TooMuchText) } else { Ok(()) }
    }
}

/// Checks extended attributes and encodes them in the order of their names.
fn encoded(mut xattrs: Vec<Xattr>) -> Result<Box<[u8]>, Invalid> {
    xattrs.sort_by(|a, b| a.name.cmp(&b.name));
    let mut names = HashSet::new();
    for Xattr { name, value } in &xattrs {
        let (index, rest) = disk::split_xattr_name(name).ok_or(Invalid::Xattr)?;
        let is_small = rest.len() <= MAX_NAME_BYTES && value.len() < MAX_XATTR_BYTES;
        if !is_small || name.contains(&0) || !names.insert(name) {
            return Err(Invalid::Xattr);
        }
        if index != 1 && acl::names_users(value) {
            return Err(Invalid::NamedUser);
        }
    }
    let bytes = disk::encode_xattrs(xattrs.iter().map(|xattr| (&*xattr.name, &*xattr.value)));
    if bytes.len() > MAX_XATTR_BYTES { Err(Invalid::Xattr) } else { Ok(bytes.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Attributes {
        Attributes { mode: 0o644, ..Attributes::default() }
    }

    #[test]
    fn names_targets_and_attributes_are_checked() {
        let mut tree = Tree::new(plain()).unwrap();
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0", &[b'x'; 256]] {
            assert_eq!(tree.file(Tree::ROOT, name, plain(), 0), Err(Invalid::Name));
        }
        for target in [&b""[..], b"a\0", &[b'x'; 4096]] {
            assert_eq!(tree.symbolic_link(Tree::ROOT, b"l", plain(), target), Err(Invalid::Target));
        }
        let wrong = Attributes { mode: 0o10_000, ..plain() };
        assert_eq!(tree.file(Tree::ROOT, b"f", wrong, 0), Err(Invalid::Attributes));
        let wrong = Attributes { modified_ns: NANOS_PER_SECOND, ..plain() };
        assert_eq!(tree.file(Tree::ROOT, b"f", wrong, 0), Err(Invalid::Attributes));
        for name in ["security.capability", "trusted.overlay.opaque", "user.", "system.posix_acl_accessx"] {
            let xattrs = vec![Xattr { name: name.into(), value: vec![1] }];
            let wrong = Attributes { xattrs, ..plain() };
            assert_eq!(tree.file(Tree::ROOT, b"f", wrong, 0), Err(Invalid::Xattr), "{name}");
        }
        assert_eq!(tree.file(Tree::ROOT, b"f", plain(), MAX_FILE_BYTES + 1), Err(Invalid::FileTooLarge));
    }

    #[test]
    fn entries_are_found_by_their_paths() {
        let mut tree = Tree::new(plain()).unwrap();
        let dir = tree.directory(Tree::ROOT, b"dir", plain()).unwrap();
        let two = tree.file(dir, b"two", plain(), 0).unwrap();
        let one = tree.file(dir, b"one", plain(), 0).unwrap();
        assert_eq!(tree.find(b"dir/one"), Some(one));
        assert_eq!((tree.find(b"dir/two"), tree.find(b"dir")), (Some(two), Some(dir)));
        for path in [&b""[..], b"one", b"dir/", b"dir/three", b"dir/one/x", b"../dir"] {
            assert_eq!(tree.find(path), None);
        }
    }

    #[test]
    fn a_tree_has_no_cycle_and_no_duplicate() {
        let mut tree = Tree::new(plain()).unwrap();
        let dir = tree.directory(Tree::ROOT, b"dir", plain()).unwrap();
        let file = tree.file(dir, b"file", plain(), 0).unwrap();
        assert_eq!(tree.hard_link(dir, b"again", Tree::ROOT), Err(Invalid::Kind));
        assert_eq!(tree.file(file, b"below", plain(), 0), Err(Invalid::Kind));
        tree.hard_link(dir, b"file", file).unwrap();
        assert_eq!(tree.into_items().unwrap_err(), Invalid::Duplicate);
    }
}
