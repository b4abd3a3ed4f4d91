//! Joins a deleted file and a new one of the same content to a renamed one.

use std::collections::{HashMap, HashSet};

use prost::Message;
use snapshot_format::{Change, Entry, Hash, Kind};

use super::change::{ChangeKind, FileChange, in_workspace};

/// The entries of a change.
#[derive(Debug, Default)]
pub(super) struct Sides {
    pub(super) old: Option<Entry>,
    pub(super) new: Option<Entry>,
}

/// A change that was found.
#[derive(Debug)]
pub(super) struct Found {
    path: Vec<u8>,
    kind: ChangeKind,
    /// The content of a file that only one snapshot has. An empty file has none.
    content: Option<Hash>,
    /// The entries, if they are needed. They may be large.
    sides: Sides,
}

impl Found {
    /// Keeps the entries, without their attributes, if `keep_sides` is set.
    pub(super) fn new(change: Change, keep_sides: bool) -> Self {
        let (kind, entry) = match (&change.old, &change.new) {
            (None, new) => (ChangeKind::Added, new.as_ref()),
            (old, None) => (ChangeKind::Deleted, old.as_ref()),
            (Some(_), Some(_)) => (ChangeKind::Modified, None),
        };
        let file = entry.filter(|entry| entry.kind() == Kind::File);
        let content = file.and_then(|file| file.content.as_ref()).filter(|content| content.size > 0);
        let content = content.map(|content| Hash::of(&content.encode_to_vec()));
        let bare = |entry: Option<Entry>| {
            entry.map(|entry| Entry { attributes: Vec::new(), ..entry }).filter(|_| keep_sides)
        };
        let sides = Sides { old: bare(change.old), new: bare(change.new) };
        Self { path: change.path, kind, content, sides }
    }
}

/// Joins them if there is exactly one such pair. Returns each change with its entries.
pub(super) fn with_renames(mut found: Vec<Found>) -> Vec<(FileChange, Sides)> {
    let renames = renames(&found);
    let targets: HashSet<usize> = renames.values().copied().collect();
    let mut changes = Vec::with_capacity(found.len() - targets.len());
    for at in (0..found.len()).filter(|at| !targets.contains(at)) {
        let sides = std::mem::take(&mut found[at].sides);
        let path = std::mem::take(&mut found[at].path);
        changes.push(match renames.get(&at) {
            Some(added) => {
                let sides = Sides { old: sides.old, new: found[*added].sides.new.take() };
                let to = std::mem::take(&mut found[*added].path);
                (FileChange { path: to, kind: ChangeKind::Renamed, from: Some(path), diff: None }, sides)
            }
            None => (FileChange { path, kind: found[at].kind, from: None, diff: None }, sides),
        });
    }
    changes
}

/// By the position of each deleted file, that of the new one.
fn renames(found: &[Found]) -> HashMap<usize, usize> {
    let mut pairs: HashMap<(Hash, bool), (Vec<usize>, Vec<usize>)> = HashMap::new();
    for (at, change) in found.iter().enumerate() {
        let Some(content) = change.content else { continue };
        // A move between the workspace and the caches is not a rename: a patch has only one of the sides.
        let is_in_workspace = in_workspace(&change.path).is_some();
        let (deleted, added) = pairs.entry((content, is_in_workspace)).or_default();
        if change.kind == ChangeKind::Added { added.push(at) } else { deleted.push(at) }
    }
    let pairs = pairs.into_values().filter_map(|pair| match (&pair.0[..], &pair.1[..]) {
        ([deleted], [added]) => Some((*deleted, *added)),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use snapshot_format::Content;

    use super::*;

    fn file(path: &str, content: &str, is_new: bool) -> Found {
        let content = Content { size: content.len() as u64, depth: 0, segments: content.to_owned().into() };
        let kind = Kind::File.into();
        let entry = Some(Entry { content: Some(content), kind, ..Entry::default() });
        let (old, new) = if is_new { (None, entry) } else { (entry, None) };
        Found::new(Change { path: path.into(), old, new }, false)
    }

    #[test]
    fn a_file_with_a_new_name_was_renamed_unless_it_is_ambiguous() {
        let of = |changes: Vec<Found>| -> Vec<(ChangeKind, String)> {
            let changes = with_renames(changes).into_iter();
            changes.map(|(change, _)| (change.kind, String::from_utf8(change.path).unwrap())).collect()
        };
        let renamed = of(vec![file("a", "x", false), file("b", "y", true), file("c", "x", true)]);
        assert_eq!(renamed, [(ChangeKind::Renamed, "c".into()), (ChangeKind::Added, "b".into())]);
        let ambiguous = of(vec![file("a", "x", false), file("b", "x", true), file("c", "x", true)]);
        assert!(ambiguous.iter().all(|(kind, _)| *kind != ChangeKind::Renamed));
        let empty = of(vec![file("a", "", false), file("b", "", true)]);
        assert_eq!(empty, [(ChangeKind::Deleted, "a".into()), (ChangeKind::Added, "b".into())]);
    }
}
