//! How many stored bytes a project is charged for its snapshots.
//!
//! Snapshots share chunks, so what one of them takes depends on the others. A chunk is charged once, for the snapshot that
//! stored it. If that snapshot is deleted, later ones of the same sandbox may still need the chunk. So if the parent of a
//! snapshot was deleted, the snapshots of its sandbox are charged at least the size of the largest. This follows from the
//! records alone, so a restart changes nothing. It is less than what is stored if a deleted snapshot's chunks are needed by
//! several later ones of which none has all of them.

use std::collections::HashMap;

use prost::Message;
use sandbox_api::{SandboxId, SnapshotId};
use snapshot_format::Content;

use crate::model::SnapshotRecord;

/// The snapshots of a project.
#[derive(Debug, Default)]
pub(super) struct Stored {
    by_sandbox: HashMap<SandboxId, HashMap<SnapshotId, Size>>,
    bytes: u64,
}

#[derive(Debug, Clone)]
struct Size {
    parent: Option<SnapshotId>,
    /// Bytes that it added to the store.
    new_bytes: u64,
    /// Bytes of its files and values.
    size_bytes: u64,
}

impl Stored {
    /// What the project is charged.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What the project would be charged with one more snapshot.
    pub(super) fn bytes_with(&self, snapshot: &SnapshotRecord) -> u64 {
        let mut sizes = self.by_sandbox.get(&snapshot.sandbox).cloned().unwrap_or_default();
        let before = charged(&sizes);
        sizes.insert(snapshot.id.clone(), size_of(snapshot));
        self.bytes.saturating_sub(before).saturating_add(charged(&sizes))
    }

    pub(super) fn add(&mut self, snapshot: &SnapshotRecord) {
        self.bytes = self.bytes_with(snapshot);
        let sizes = self.by_sandbox.entry(snapshot.sandbox.clone()).or_default();
        sizes.insert(snapshot.id.clone(), size_of(snapshot));
    }

    /// Has no effect if it was not added.
    pub(super) fn remove(&mut self, snapshot: &SnapshotRecord) {
        let Some(sizes) = self.by_sandbox.get_mut(&snapshot.sandbox) else { return };
        let before = charged(sizes);
        sizes.remove(&snapshot.id);
        self.bytes = self.bytes.saturating_sub(before).saturating_add(charged(sizes));
        if sizes.is_empty() {
            self.by_sandbox.remove(&snapshot.sandbox);
        }
    }
}

fn size_of(snapshot: &SnapshotRecord) -> Size {
    let SnapshotRecord { parent, new_bytes, size_bytes, values, .. } = snapshot;
    // A content that cannot be decoded has no readable values.
    let values = values.as_deref().and_then(|values| Content::decode(values).ok());
    let size_bytes = size_bytes.saturating_add(values.map_or(0, |values| values.size));
    Size { parent: parent.clone(), new_bytes: *new_bytes, size_bytes }
}

fn charged(sizes: &HashMap<SnapshotId, Size>) -> u64 {
    let added = sizes.values().fold(0, |sum: u64, size| sum.saturating_add(size.new_bytes));
    let is_orphan = |size: &Size| size.parent.as_ref().is_some_and(|parent| !sizes.contains_key(parent));
    let largest = sizes.values().map(|size| size.size_bytes).max().unwrap_or_default();
    if sizes.values().any(is_orphan) { added.max(largest) } else { added }
}

#[cfg(test)]
mod tests {
    use super::super::tests::snapshot;
    use super::*;

    #[test]
    fn a_chunk_is_charged_once() {
        let mut stored = Stored::default();
        stored.add(&snapshot(1, 1, 100, 4000));
        stored.add(&child(&snapshot(1, 2, 5, 4005), 1));
        stored.add(&snapshot(2, 3, 50, 50));
        assert_eq!(stored.bytes(), 155);
        stored.add(&snapshot(2, 3, 50, 50));
        assert_eq!(stored.bytes(), 155, "the same snapshot again");
    }

    #[test]
    fn what_a_later_snapshot_needs_stays_charged() {
        let mut stored = Stored::default();
        let (first, second) = (snapshot(1, 1, 100, 100), child(&snapshot(1, 2, 5, 105), 1));
        stored.add(&first);
        stored.add(&second);
        stored.remove(&first);
        assert_eq!(stored.bytes(), 105);
        stored.remove(&second);
        stored.remove(&second);
        assert_eq!(stored.bytes(), 0);
    }

    #[test]
    fn values_that_a_later_snapshot_needs_stay_charged() {
        let mut stored = Stored::default();
        let values = Content { size: 40, ..Content::default() }.encode_to_vec();
        let first = snapshot(1, 1, 140, 100);
        let second = SnapshotRecord { values: Some(values), ..child(&snapshot(1, 2, 5, 105), 1) };
        stored.add(&first);
        stored.add(&second);
        assert_eq!(stored.bytes(), 145);
        stored.remove(&first);
        assert_eq!(stored.bytes(), 145);
    }

    fn child(of: &SnapshotRecord, parent: u32) -> SnapshotRecord {
        SnapshotRecord { parent: Some(snapshot(1, parent, 0, 0).id), ..of.clone() }
    }
}
