//! Snapshots that must not be deleted now, because something refers to them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandbox_api::SnapshotId;

/// The uses of snapshots.
#[derive(Debug, Clone, Default)]
pub(super) struct Pins(Arc<Mutex<HashMap<SnapshotId, Use>>>);

/// The use of one snapshot.
#[derive(Debug, Default)]
struct Use {
    pins: usize,
    is_deleting: bool,
}

/// Keeps a snapshot from being deleted until it is dropped.
#[derive(Debug)]
pub(super) struct Pin {
    pins: Pins,
    id: SnapshotId,
}

/// The delete of a snapshot.
#[derive(Debug)]
pub(super) struct Deleting {
    pins: Pins,
    id: SnapshotId,
}

impl Pins {
    /// Pins a snapshot, unless it is being deleted. The caller then checks that it exists.
    pub(super) fn pin(&self, id: &SnapshotId) -> Option<Pin> {
        let mut uses = self.lock();
        let entry = uses.entry(id.clone()).or_default();
        if entry.is_deleting {
            return None;
        }
        entry.pins += 1;
        Some(Pin { pins: self.clone(), id: id.clone() })
    }

    /// Pins a snapshot that nothing uses.
    pub(super) fn pin_unused(&self, id: &SnapshotId) -> Option<Pin> {
        let is_used = self.lock().contains_key(id);
        // Both are for a snapshot without a record, which no other caller can find.
        if is_used { None } else { self.pin(id) }
    }

    /// Begins a delete, which ends when the result is dropped. `None` if the snapshot is pinned, or being deleted.
    pub(super) fn begin_delete(&self, id: &SnapshotId) -> Option<Deleting> {
        let mut uses = self.lock();
        let entry = uses.entry(id.clone()).or_default();
        let is_free = entry.pins == 0 && !entry.is_deleting;
        entry.is_deleting |= is_free;
        is_free.then(|| Deleting { pins: self.clone(), id: id.clone() })
    }

    fn update(&self, id: &SnapshotId, update: impl FnOnce(&mut Use)) {
        let mut uses = self.lock();
        if let Some(entry) = uses.get_mut(id) {
            update(entry);
            if entry.pins == 0 && !entry.is_deleting {
                uses.remove(id);
            }
        }
    }

    /// Every change of the map is complete, so a panic elsewhere leaves it valid.
    fn lock(&self) -> MutexGuard<'_, HashMap<SnapshotId, Use>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.pins.update(&self.id, |entry| entry.pins -= 1);
    }
}

impl Drop for Deleting {
    fn drop(&mut self) {
        self.pins.update(&self.id, |entry| entry.is_deleting = false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_snapshot_is_not_deleted() {
        let pins = Pins::default();
        let id = SnapshotId::random().unwrap();
        let pin = pins.pin(&id).unwrap();
        let other = pins.pin(&id).unwrap();
        assert!(pins.begin_delete(&id).is_none());
        drop(pin);
        assert!(pins.begin_delete(&id).is_none());
        drop(other);
        let deleting = pins.begin_delete(&id).unwrap();
        assert!(pins.begin_delete(&id).is_none(), "once at a time");
        assert!(pins.pin(&id).is_none(), "it may be gone at any moment");
        drop(deleting);
        assert!(pins.lock().is_empty());
    }
}
