//! Orphans: objects on the engine that belong to no sandbox, and when they may be removed.

use std::time::Duration;

/// Kind of an orphan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OrphanKind {
    /// A sandbox's container or volume on the engine. Its name is the sandbox's id.
    Workspace,
    /// A file system image. Its name is the disk's name.
    Disk,
    /// The workspace of a deleted sandbox that the engine has not removed yet.
    Deleted,
}

impl OrphanKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Workspace, Self::Disk, Self::Deleted];

    /// The name in the store and on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::Disk => "disk",
            Self::Deleted => "deleted",
        }
    }

    /// Reads a name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// An object without a sandbox, and when it was first seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// Kind of the object.
    pub kind: OrphanKind,
    /// Name, unique among objects of its kind.
    pub name: String,
    /// The daemon's age when it was first seen, in milliseconds.
    pub seen_at_age_ms: u64,
    /// Milliseconds since the Unix epoch when it was first seen.
    pub seen_at_ms: i64,
}

impl Orphan {
    /// How much of the grace period is left. It must pass by both clocks: the daemon's age, which stands still
    /// while the daemon is off, and the wall clock, which can jump.
    pub fn grace_left(&self, grace: Duration, age_ms: u64, now_ms: i64) -> Duration {
        let by_age = age_ms.saturating_sub(self.seen_at_age_ms);
        let by_wall = u64::try_from(now_ms.saturating_sub(self.seen_at_ms)).unwrap_or_default();
        grace.saturating_sub(Duration::from_millis(by_age.min(by_wall)))
    }
}

/// Whether there are implausibly many orphans: most of the inventory.
pub fn is_most(orphans: usize, owned: usize) -> bool {
    orphans > owned
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_millis(1000);

    fn left(age_ms: u64, now_ms: i64) -> u128 {
        let orphan = Orphan {
            kind: OrphanKind::Disk,
            name: "dsk_1".into(),
            seen_at_age_ms: 5000,
            seen_at_ms: 100_000,
        };
        orphan.grace_left(GRACE, age_ms, now_ms).as_millis()
    }

    #[test]
    fn the_grace_period_ends_only_by_both_clocks() {
        assert_eq!(left(5000, 100_000), 1000);
        assert_eq!(left(5600, 100_700), 400);
        assert_eq!(left(6000, 101_000), 0);
        assert_eq!(left(5001, i64::MAX), 999, "the wall clock jumped ahead");
        assert_eq!(left(9000, i64::MIN), 1000, "the wall clock jumped back");
        assert_eq!(left(0, 200_000), 1000, "an age before the sighting");
    }

    #[test]
    fn most_means_more_orphans_than_owned_objects() {
        assert!(is_most(1, 0) && is_most(3, 2));
        assert!(!is_most(0, 0) && !is_most(1, 1) && !is_most(2, 5));
    }
}
