//! Trees as tests describe them: each path with its entry.

use std::collections::BTreeMap;

use erofs_image::{Attributes, BLOCK_BYTES, Node, Special, Tree, Xattr};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use tempfile::NamedTempFile;

/// The entry at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    Directory,
    File(Vec<u8>),
    SymbolicLink(Vec<u8>),
    Fifo,
    Socket,
    /// The path of a file of which this is another name.
    HardLink(Vec<u8>),
}

/// A file or directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) content: Content,
    pub(crate) mode: u16,
    pub(crate) modified: (i64, u32),
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// All entries but the root, by their paths.
pub(crate) type Files = BTreeMap<Vec<u8>, Entry>;

impl Entry {
    pub(crate) fn of(content: Content) -> Self {
        Self { content, mode: 0o755, modified: (1_700_000_000, 5), xattrs: BTreeMap::new() }
    }

    pub(crate) fn attributes(&self) -> Attributes {
        let xattr = |(name, value): (&Vec<u8>, &Vec<u8>)| Xattr { name: name.clone(), value: value.clone() };
        Attributes {
            mode: self.mode,
            modified_s: self.modified.0,
            modified_ns: self.modified.1,
            xattrs: self.xattrs.iter().map(xattr).collect(),
        }
    }
}

/// Writes an image of a tree.
pub(crate) fn write(files: &Files) -> NamedTempFile {
    let mut tree = Tree::new(Entry::of(Content::Directory).attributes()).unwrap();
    let mut nodes: BTreeMap<&[u8], Node> = [(&b""[..], Tree::ROOT)].into();
    // Directories come before their entries.
    for (path, entry) in files {
        let (parent, name) = split(path);
        let (parent, attributes) = (nodes[parent], entry.attributes());
        let node = match &entry.content {
            Content::Directory => tree.directory(parent, name, attributes),
            Content::File(bytes) => tree.file(parent, name, attributes, bytes.len() as u64),
            Content::SymbolicLink(target) => tree.symbolic_link(parent, name, attributes, target),
            Content::Fifo => tree.special(parent, name, attributes, Special::Fifo),
            Content::Socket => tree.special(parent, name, attributes, Special::Socket),
            Content::HardLink(to) => tree.hard_link(parent, name, nodes[&to[..]]).map(|()| nodes[&to[..]]),
        };
        nodes.insert(path, node.unwrap());
    }
    let plan = erofs_image::Plan::new(tree, [7; 16]).unwrap();
    let image = NamedTempFile::new().unwrap();
    plan.write_tree(image.as_file()).unwrap();
    for (path, entry) in files {
        let Content::File(bytes) = &entry.content else { continue };
        // In pieces that end in the middle of blocks, and in no order.
        let pieces: Vec<_> = bytes.chunks(3001).enumerate().collect();
        for (number, piece) in pieces.into_iter().rev() {
            plan.write(image.as_file(), nodes[&path[..]], number as u64 * 3001, piece).unwrap();
        }
    }
    image
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// Random trees of up to three levels.
pub(crate) fn trees() -> impl Strategy<Value = Files> {
    vec((directory_of_names(), any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..4).prop_map(
        |levels| {
            let mut files = Files::new();
            for (entries, place, link) in levels {
                let dirs: Vec<Vec<u8>> = of_kind(&files, |content| matches!(content, Content::Directory));
                let at = if dirs.is_empty() { Vec::new() } else { [place.get(&dirs), &b"/"[..]].concat() };
                files.extend(entries.into_iter().map(|(name, entry)| ([&at[..], &name].concat(), entry)));
                add_hard_link(&mut files, &link);
            }
            files
        },
    )
}

fn of_kind(files: &Files, matches: fn(&Content) -> bool) -> Vec<Vec<u8>> {
    files.iter().filter(|(_, entry)| matches(&entry.content)).map(|(path, _)| path.clone()).collect()
}

/// Adds another name of a file, in the root. The first name in order counts as the file's.
fn add_hard_link(files: &mut Files, link: &prop::sample::Index) {
    let name = [&b"\xff\xfflink"[..], &files.len().to_le_bytes().map(|byte| byte | 0x80)].concat();
    let mut candidates = of_kind(files, |content| matches!(content, Content::File(_)));
    candidates.retain(|path| *path < name);
    if candidates.is_empty() {
        return;
    }
    let target = link.get(&candidates).clone();
    let entry = Entry { content: Content::HardLink(target.clone()), ..files[&target].clone() };
    files.insert(name, entry);
}

fn directory_of_names() -> impl Strategy<Value = BTreeMap<Vec<u8>, Entry>> {
    let byte = any::<u8>().prop_map(|byte| if matches!(byte, 0 | b'/') { b'_' } else { byte });
    let name = prop_oneof![4 => vec(byte.clone(), 1..20), 1 => vec(byte, 200..=255)]
        .prop_filter("a directory has these", |name| !matches!(&name[..], b"." | b".."));
    btree_map(name, entries(), 0..40)
}

fn entries() -> impl Strategy<Value = Entry> {
    let modified = (-5_000_000_000i64..=50_000_000_000, 0u32..1_000_000_000);
    (contents(), 0u16..=0o7777, modified, xattrs()).prop_map(
        |(content, mode, modified, xattrs)| match content {
            // The kernel keeps these attributes of files and directories only.
            Content::Directory | Content::File(_) => Entry { content, mode, modified, xattrs },
            Content::SymbolicLink(_) => Entry { content, mode: 0o777, modified, xattrs: BTreeMap::new() },
            other => Entry { content: other, mode, modified, xattrs: BTreeMap::new() },
        },
    )
}

fn contents() -> impl Strategy<Value = Content> {
    let block = BLOCK_BYTES as usize;
    // Around the sizes at which the last part of a file no longer fits behind its inode.
    let edges =
        [0, 1, block - 65, block - 64, block - 63, block - 1, block, block + 1, 3 * block, 3 * block + 100];
    let size = prop_oneof![prop::sample::select(edges.to_vec()), 0..20_000usize];
    let file = (size, any::<u8>()).prop_map(|(size, seed)| {
        Content::File(
            (0..size).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed) ^ (at >> 8) as u8).collect(),
        )
    });
    let target = prop_oneof![vec(1u8..=255, 1..60), vec(1u8..=255, 4000..=4095)];
    prop_oneof![
        6 => file,
        2 => Just(Content::Directory),
        2 => target.prop_map(Content::SymbolicLink),
        1 => Just(Content::Fifo),
        1 => Just(Content::Socket),
    ]
}

fn xattrs() -> impl Strategy<Value = BTreeMap<Vec<u8>, Vec<u8>>> {
    let name = "[a-z.]{1,30}".prop_map(|name| format!("user.{name}").into_bytes());
    let value = prop_oneof![4 => vec(any::<u8>(), 0..50), 1 => vec(any::<u8>(), 3000..9000)];
    prop_oneof![4 => Just(BTreeMap::new()), 1 => btree_map(name, value, 1..5)]
}
