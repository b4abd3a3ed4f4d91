//! The repositories that are kept, and which are removed to make room.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sandbox_api::SnapshotId;

use crate::model::limits;
use crate::model::repository::{RepositoryKey, RepositoryRecord};

/// The kept repositories.
#[derive(Debug)]
pub(super) struct Kept(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    records: HashMap<RepositoryKey, RepositoryRecord>,
    /// Commits of tags that only a fetch could find. At most [`limits::MAX_LOOK_UPS_KEPT`]; another one is fetched again.
    tags: HashMap<RepositoryKey, RepositoryKey>,
}

/// The use of a kept repository.
pub(super) struct Use {
    pub(super) record: RepositoryRecord,
    /// Whether the store has an old time of its last use.
    pub(super) is_due: bool,
}

impl Kept {
    pub(super) fn new(records: Vec<RepositoryRecord>) -> Self {
        let records = records.into_iter().map(|record| (record.key.clone(), record)).collect();
        Self(Mutex::new(State { records, tags: HashMap::new() }))
    }

    /// Finds a repository and notes its use.
    pub(super) fn take(&self, key: &RepositoryKey, now_ms: i64) -> Option<Use> {
        let mut kept = self.lock();
        let key = kept.tags.get(key).cloned().unwrap_or_else(|| key.clone());
        let record = kept.records.get_mut(&key)?;
        let every = i64::try_from(limits::REPOSITORY_USE_EVERY.as_millis()).unwrap_or(i64::MAX);
        // The wall clock may jump back.
        let is_due = now_ms.abs_diff(record.used_at_ms) >= every.unsigned_abs();
        if is_due {
            record.used_at_ms = now_ms;
        }
        Some(Use { record: record.clone(), is_due })
    }

    /// Adds a repository that was fetched for `key`. That may name a tag, and the record the commit of the tag.
    pub(super) fn add(&self, key: &RepositoryKey, record: RepositoryRecord) {
        let mut kept = self.lock();
        if *key != record.key && kept.tags.len() < limits::MAX_LOOK_UPS_KEPT {
            kept.tags.insert(key.clone(), record.key.clone());
        }
        kept.records.insert(record.key.clone(), record);
    }

    /// Removes a repository, unless it has another snapshot by now.
    pub(super) fn remove(&self, record: &RepositoryRecord) -> bool {
        let mut kept = self.lock();
        let is_same = kept.records.get(&record.key).is_some_and(|now| now.snapshot == record.snapshot);
        is_same && kept.records.remove(&record.key).is_some()
    }

    /// Whether a repository has this snapshot.
    pub(super) fn has_snapshot(&self, snapshot: &SnapshotId) -> bool {
        self.lock().records.values().any(|record| record.snapshot == *snapshot)
    }

    /// The repositories to remove so that the others fit, least recently used first. Never `newest`.
    pub(super) fn surplus(&self, max_bytes: u64, newest: &RepositoryKey) -> Vec<RepositoryRecord> {
        let kept = &self.lock().records;
        let mut bytes: u64 = kept.values().map(|record| record.size_bytes).sum();
        let mut number = kept.len();
        let mut oldest: Vec<&RepositoryRecord> =
            kept.values().filter(|record| record.key != *newest).collect();
        oldest.sort_by_key(|record| record.used_at_ms);
        let mut surplus = Vec::new();
        for record in oldest {
            if bytes <= max_bytes && number <= limits::MAX_REPOSITORIES {
                break;
            }
            bytes = bytes.saturating_sub(record.size_bytes);
            number -= 1;
            surplus.push(record.clone());
        }
        surplus
    }

    /// Every change of the map is complete, so a panic elsewhere leaves it valid.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::repository::RepositoryOrigin;

    fn record(name: &str, size_bytes: u64, used_at_ms: i64) -> RepositoryRecord {
        RepositoryRecord {
            key: RepositoryKey {
                origin: RepositoryOrigin::parse(&format!("https://git.example/{name}")).unwrap(),
                commit: "a".repeat(40).parse().unwrap(),
                with_token: false,
            },
            snapshot: SnapshotId::random().unwrap(),
            size_bytes,
            warnings: Vec::new(),
            fetched_at_ms: 0,
            used_at_ms,
        }
    }

    #[test]
    fn the_least_recently_used_make_room() {
        let (old, used, new) = (record("old", 10, 1), record("used", 10, 0), record("new", 10, 0));
        let kept = Kept::new(vec![old.clone(), used.clone(), new.clone()]);
        let every = limits::REPOSITORY_USE_EVERY.as_millis() as i64;
        assert!(kept.take(&used.key, every).unwrap().is_due);
        assert!(!kept.take(&used.key, every + 1).unwrap().is_due);
        let surplus = |max| -> Vec<SnapshotId> {
            kept.surplus(max, &new.key).into_iter().map(|record| record.snapshot).collect()
        };
        assert_eq!(surplus(30), []);
        assert_eq!(surplus(29), std::slice::from_ref(&old.snapshot));
        assert_eq!(surplus(0), [old.snapshot.clone(), used.snapshot.clone()], "never the newest");
    }

    #[test]
    fn a_tag_leads_to_its_commit() {
        let (tag, commit) = (record("tag", 1, 0), record("commit", 1, 0));
        let kept = Kept::new(Vec::new());
        kept.add(&tag.key, commit.clone());
        assert_eq!(kept.take(&tag.key, 0).map(|it| it.record), Some(commit.clone()));
        assert!(kept.remove(&commit) && kept.take(&tag.key, 0).is_none());
    }

    #[test]
    fn only_the_same_snapshot_is_removed() {
        let (old, new) = (record("a", 1, 0), record("a", 1, 0));
        let kept = Kept::new(vec![old.clone()]);
        kept.add(&new.key, new.clone());
        assert!(!kept.remove(&old) && kept.has_snapshot(&new.snapshot));
        assert!(kept.remove(&new) && !kept.has_snapshot(&new.snapshot));
    }
}
