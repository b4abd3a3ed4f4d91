//! The bytes of a directory: blocks, each first its entries and then their names. Names are sorted, so that the
//! kernel can use a binary search.

use crate::BLOCK_BYTES;

const ENTRY_BYTES: usize = 12;

/// Types of entries.
pub(crate) const REGULAR: u8 = 1;
pub(crate) const DIRECTORY: u8 = 2;
pub(crate) const FIFO: u8 = 5;
pub(crate) const SOCKET: u8 = 6;
pub(crate) const SYMBOLIC_LINK: u8 = 7;

/// An entry: a name, the number of its inode, and its type.
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) inode: u64,
    pub(crate) kind: u8,
}

/// Returns the size of a directory with these names, in order, with `.` and `..` among them.
pub(crate) fn size<'a>(names: impl Iterator<Item = &'a [u8]>) -> u64 {
    let (mut full, mut used) = (0, 0);
    for name in names {
        let bytes = (ENTRY_BYTES + name.len()) as u64;
        if used + bytes > BLOCK_BYTES {
            (full, used) = (full + BLOCK_BYTES, 0);
        }
        used += bytes;
    }
    full + used
}

/// Returns the bytes of a directory.
pub(crate) fn encode(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = entries;
    while !rest.is_empty() {
        bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES as usize), 0);
        let (block, after) = rest.split_at(fitting(rest));
        encode_block(&mut bytes, block);
        rest = after;
    }
    bytes
}

/// Number of entries that fit into one block.
fn fitting(entries: &[Entry<'_>]) -> usize {
    let mut used = 0;
    let fits = |entry: &&Entry<'_>| {
        used += ENTRY_BYTES + entry.name.len();
        used <= BLOCK_BYTES as usize
    };
    entries.iter().take_while(fits).count()
}

fn encode_block(bytes: &mut Vec<u8>, entries: &[Entry<'_>]) {
    let mut name_at = entries.len() * ENTRY_BYTES;
    for entry in entries {
        bytes.extend(entry.inode.to_le_bytes());
        bytes.extend((name_at as u16).to_le_bytes());
        bytes.extend([entry.kind, 0]);
        name_at += entry.name.len();
    }
    for entry in entries {
        bytes.extend(entry.name);
    }
}

/// Adds `.` and `..` to entries that are in order, and keeps the order: some names are before them.
pub(crate) fn with_dots<'a>(mut entries: Vec<Entry<'a>>, own: u64, parent: u64) -> Vec<Entry<'a>> {
    for (name, inode) in [(&b"."[..], own), (b"..", parent)] {
        let at = entries.partition_point(|entry| entry.name < name);
        entries.insert(at, Entry { name, inode, kind: DIRECTORY });
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_known_before_the_bytes() {
        for count in [0, 1, 17, 100, 1000] {
            let names: Vec<String> = (0..count).map(|number| format!("{number:0>77}")).collect();
            let entry = |name: &'static str| Entry { name: name.as_bytes(), inode: 1, kind: REGULAR };
            let names: Vec<&'static str> = names.into_iter().map(|name| &*name.leak()).collect();
            let entries = with_dots(names.iter().copied().map(entry).collect(), 1, 1);
            assert!(entries.is_sorted_by(|a, b| a.name < b.name));
            let size = size(entries.iter().map(|entry| entry.name));
            assert_eq!(encode(&entries).len() as u64, size, "{count}");
        }
    }
}
