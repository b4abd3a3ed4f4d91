//! Which sandbox makes room for another one.
//!
//! The subjects of a project may be different people. So a request parks the idle sandboxes of its own owner. It parks those
//! of another one only to get a fair share, and deletes only its own. There is no I/O here, so each rule is one plain
//! function.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use crate::model::{Owner, ProjectName};

/// A running sandbox that is idle.
#[derive(Debug)]
pub(super) struct Idle<T> {
    pub(super) sandbox: T,
    pub(super) owner: Owner,
    pub(super) idle_for: Duration,
    /// How many sandboxes its owner runs.
    pub(super) running: u64,
}

/// The idle sandboxes that may be parked for one of `requester`, in this order: its own, or else those of owners of its
/// project that run more than it does. `running` is how many it runs.
pub(super) fn parked_for<T>(idle: Vec<Idle<T>>, requester: &Owner, running: u64) -> Vec<T> {
    let of_project = idle.into_iter().filter(|idle| idle.owner.project == requester.project);
    let (own, mut others): (Vec<_>, Vec<_>) = of_project.partition(|idle| idle.owner == *requester);
    others.retain(|idle| idle.running > running);
    let mut found = if own.is_empty() { others } else { own };
    found.sort_by_key(|idle| Reverse((idle.running, idle.idle_for)));
    found.into_iter().map(|idle| idle.sandbox).collect()
}

/// Bytes that disks take.
#[derive(Debug, Default)]
pub(super) struct Taken {
    by_projects: HashMap<ProjectName, u64>,
    by_owners: HashMap<Owner, u64>,
}

impl Taken {
    /// Adds a disk of an owner.
    pub(super) fn add(&mut self, owner: &Owner, bytes: u64) {
        *self.by_projects.entry(owner.project.clone()).or_default() += bytes;
        *self.by_owners.entry(owner.clone()).or_default() += bytes;
    }

    /// Takes back a disk that was deleted.
    pub(super) fn remove(&mut self, owner: &Owner, bytes: u64) {
        let counts = [self.by_projects.get_mut(&owner.project), self.by_owners.get_mut(owner)];
        for count in counts.into_iter().flatten() {
            *count = count.saturating_sub(bytes);
        }
    }

    /// Which of the parked sandboxes is deleted next: the first one of the owner that takes the most, in the project that takes
    /// the most. So an owner that takes little keeps its files, no matter what others do.
    pub(super) fn next_deleted<'a>(&self, parked: impl IntoIterator<Item = &'a Owner>) -> Option<usize> {
        let bytes = |owner: &Owner| (self.by_projects.get(&owner.project), self.by_owners.get(owner));
        let largest = parked.into_iter().enumerate().max_by_key(|(at, owner)| (bytes(owner), Reverse(*at)));
        largest.map(|(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(project: &str, subject: Option<&str>) -> Owner {
        Owner { project: project.parse().unwrap(), subject: subject.map(|subject| subject.parse().unwrap()) }
    }

    fn ann() -> Owner {
        owner("lab", Some("ann"))
    }

    fn bob() -> Owner {
        owner("lab", Some("bob"))
    }

    /// What is parked for `requester`, of sandboxes that have a name, an owner, and the seconds for which they are idle.
    /// `running` are those that run, idle or not.
    fn parked(
        idle: &[(&'static str, Owner, u64)],
        running: &[(Owner, u64)],
        requester: &Owner,
    ) -> Vec<&'static str> {
        let count = |owner: &Owner| running.iter().find(|(of, _)| of == owner).map_or(0, |(_, count)| *count);
        let idle = idle.iter().map(|(sandbox, owner, seconds)| Idle {
            sandbox: *sandbox,
            owner: owner.clone(),
            idle_for: Duration::from_secs(*seconds),
            running: count(owner),
        });
        parked_for(idle.collect(), requester, count(requester))
    }

    #[test]
    fn own_sandboxes_are_parked_before_those_of_others() {
        let idle = [("a1", ann(), 90), ("b1", bob(), 5), ("b2", bob(), 10)];
        let running = [(ann(), 9), (bob(), 2)];
        assert_eq!(parked(&idle, &running, &bob()), ["b2", "b1"]);
    }

    #[test]
    fn one_who_runs_none_takes_a_permit_of_one_who_runs_most() {
        let cy = owner("lab", None);
        let idle = [("a1", ann(), 10), ("a2", ann(), 20), ("c1", cy.clone(), 99)];
        let running = [(ann(), 2), (cy, 1)];
        assert_eq!(parked(&idle, &running, &bob()), ["a2", "a1", "c1"]);
    }

    #[test]
    fn a_fair_share_is_not_taken_from_others() {
        // Those of `bob` are busy.
        let idle = [("a1", ann(), 90)];
        assert_eq!(parked(&idle, &[(ann(), 2), (bob(), 1)], &bob()), ["a1"]);
        assert!(parked(&idle, &[(ann(), 2), (bob(), 2)], &bob()).is_empty());
    }

    #[test]
    fn nothing_of_another_project_is_parked() {
        let idle = [("p1", owner("press", Some("bob")), 90)];
        assert!(parked(&idle, &[(owner("press", Some("bob")), 9)], &bob()).is_empty());
    }

    #[test]
    fn a_disk_of_the_owner_that_takes_the_most_is_deleted() {
        let press = owner("press", None);
        let mut taken = Taken::default();
        for (owner, bytes) in [(ann(), 30), (bob(), 40), (press.clone(), 60)] {
            taken.add(&owner, bytes);
        }
        // `lab` takes the most, and in it `bob`. Of his, the one that was parked first.
        assert_eq!(taken.next_deleted([&press, &ann(), &bob(), &bob()]), Some(2));
        taken.remove(&bob(), 20);
        assert_eq!(taken.next_deleted([&press, &ann(), &bob()]), Some(0), "now it is `press`");
        taken.remove(&press, 20);
        assert_eq!(taken.next_deleted([&press, &ann(), &bob()]), Some(1), "now it is `ann`");
        assert_eq!(taken.next_deleted([]), None);
    }
}
