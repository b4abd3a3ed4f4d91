//! The sets that are kept, and which are removed to make room.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sandbox_api::SnapshotId;

use crate::model::packages::PackageSetKey;
use crate::model::{SnapshotRecord, limits};

/// A set whose files are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeptSet {
    pub(super) key: PackageSetKey,
    pub(super) snapshot: SnapshotId,
    pub(super) size_bytes: u64,
    /// When its versions were resolved, in milliseconds since the Unix epoch.
    pub(super) resolved_at_ms: i64,
}

impl KeptSet {
    /// The set of a snapshot. `None` if its name is not that of one.
    pub(super) fn of(record: &SnapshotRecord) -> Option<Self> {
        let key = record.name.as_deref()?.get(..PackageSetKey::DIGITS)?;
        Some(Self {
            key: PackageSetKey::parse(key)?,
            snapshot: record.id.clone(),
            size_bytes: record.size_bytes,
            resolved_at_ms: record.created_at_ms,
        })
    }

    /// Whether there may be newer versions.
    pub(super) fn is_old(&self, now_ms: i64) -> bool {
        let lifetime = limits::PACKAGE_SET_LIFETIME.as_millis();
        u128::from(now_ms.abs_diff(self.resolved_at_ms)) >= lifetime
    }
}

/// The kept sets. When each was last used is not stored: after a start, the time of its resolution counts.
#[derive(Debug)]
pub(super) struct Kept(Mutex<HashMap<PackageSetKey, (KeptSet, i64)>>);

impl Kept {
    pub(super) fn new(records: Vec<SnapshotRecord>) -> Self {
        let kept = Self(Mutex::default());
        let mut sets: Vec<KeptSet> = records.iter().filter_map(KeptSet::of).collect();
        // Of several with the same key, the newest is used, and the upkeep removes the others.
        sets.sort_by_key(|set| set.resolved_at_ms);
        for set in sets {
            let used_at_ms = set.resolved_at_ms;
            kept.add(set, used_at_ms);
        }
        kept
    }

    /// Finds a set and notes its use.
    pub(super) fn take(&self, key: &PackageSetKey, now_ms: i64) -> Option<KeptSet> {
        let mut kept = self.lock();
        let (set, used_at_ms) = kept.get_mut(key)?;
        *used_at_ms = now_ms;
        Some(set.clone())
    }

    pub(super) fn add(&self, set: KeptSet, now_ms: i64) {
        self.lock().insert(set.key.clone(), (set, now_ms));
    }

    /// Removes a set, unless it has another snapshot by now.
    pub(super) fn remove(&self, set: &KeptSet) -> bool {
        let mut kept = self.lock();
        let is_same = kept.get(&set.key).is_some_and(|(now, _)| now.snapshot == set.snapshot);
        is_same && kept.remove(&set.key).is_some()
    }

    /// Whether a set has this snapshot.
    pub(super) fn has_snapshot(&self, snapshot: &SnapshotId) -> bool {
        self.lock().values().any(|(set, _)| set.snapshot == *snapshot)
    }

    /// The sets to remove so that the others fit, least recently used first. Never `newest`.
    pub(super) fn surplus(&self, max_bytes: u64, newest: &PackageSetKey) -> Vec<KeptSet> {
        let kept = self.lock();
        let mut bytes: u64 = kept.values().map(|(set, _)| set.size_bytes).sum();
        let mut number = kept.len();
        let mut oldest: Vec<&(KeptSet, i64)> = kept.values().filter(|(set, _)| set.key != *newest).collect();
        oldest.sort_by_key(|(_, used_at_ms)| *used_at_ms);
        let mut surplus = Vec::new();
        for (set, _) in oldest {
            if bytes <= max_bytes && number <= limits::MAX_PACKAGE_SETS {
                break;
            }
            bytes = bytes.saturating_sub(set.size_bytes);
            number -= 1;
            surplus.push(set.clone());
        }
        surplus
    }

    /// Every change of the map is complete, so a panic elsewhere leaves it valid.
    fn lock(&self) -> MutexGuard<'_, HashMap<PackageSetKey, (KeptSet, i64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(digit: char, size_bytes: u64) -> KeptSet {
        let key = PackageSetKey::parse(&digit.to_string().repeat(PackageSetKey::DIGITS)).unwrap();
        KeptSet { key, snapshot: SnapshotId::random().unwrap(), size_bytes, resolved_at_ms: 0 }
    }

    #[test]
    fn the_least_recently_used_make_room() {
        let (old, used, new) = (set('a', 10), set('b', 10), set('c', 10));
        let kept = Kept::new(Vec::new());
        for (at, one) in [&used, &old, &new].into_iter().enumerate() {
            kept.add(one.clone(), at as i64);
        }
        assert_eq!(kept.take(&used.key, 5), Some(used.clone()));
        assert_eq!(kept.surplus(30, &new.key), []);
        assert_eq!(kept.surplus(29, &new.key), std::slice::from_ref(&old));
        assert_eq!(kept.surplus(0, &new.key), [old, used], "never the newest");
    }

    #[test]
    fn only_the_same_snapshot_is_removed() {
        let (old, new) = (set('a', 1), set('a', 1));
        let kept = Kept::new(Vec::new());
        kept.add(old.clone(), 0);
        kept.add(new.clone(), 1);
        assert!(!kept.remove(&old) && kept.has_snapshot(&new.snapshot));
        assert!(kept.remove(&new) && !kept.has_snapshot(&new.snapshot));
    }

    #[test]
    fn versions_are_resolved_again_after_a_time() {
        let lifetime = limits::PACKAGE_SET_LIFETIME.as_millis() as i64;
        let set = set('a', 1);
        assert!(!set.is_old(lifetime - 1) && set.is_old(lifetime) && set.is_old(-lifetime));
    }
}
