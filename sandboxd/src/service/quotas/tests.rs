//! Properties of the accounts, under random interleavings.

use std::time::Instant;

use proptest::prelude::*;
use sandbox_api::{SnapshotId, quota};

use super::accounts::{Accounts, Denied};
use super::days::Now;
use crate::model::{Amounts, Owner, ProjectName, ProjectQuotas, Quota, SnapshotRecord, SnapshotState};

/// A snapshot of a sandbox.
pub(super) fn snapshot(sandbox: u32, id: u32, new_bytes: u64, size_bytes: u64) -> SnapshotRecord {
    SnapshotRecord {
        id: format!("snap_{id:016}").parse::<SnapshotId>().unwrap(),
        sandbox: format!("sbx_{sandbox:016}").parse().unwrap(),
        owner: Owner { project: name(0), subject: None },
        session_key: None,
        name: None,
        created_at_ms: 0,
        expires_at_ms: None,
        root: Vec::new(),
        values: None,
        parent: None,
        size_bytes,
        new_bytes,
        files: 1,
        state: SnapshotState::Complete,
        automatic: false,
        command: None,
    }
}

fn name(project: usize) -> ProjectName {
    ["lab", "team", "zoo"][project].parse().unwrap()
}

fn now() -> Now {
    Now { instant: Instant::now(), day: 7 }
}

/// What the daemon runs.
const CAPACITY: u64 = 6;

fn accounts(guaranteed: [u64; 3], commands: u64) -> Accounts {
    let capacity = Amounts::of(Quota::RunningSandboxes, CAPACITY).and(Quota::Sandboxes, 100);
    let mut accounts = Accounts::new(capacity, ProjectQuotas::default());
    for (project, guaranteed) in guaranteed.into_iter().enumerate() {
        let wire = quota::Quotas {
            guaranteed_running: Some(guaranteed),
            commands: Some(commands),
            ..quota::Quotas::default()
        };
        accounts.set_quotas(&name(project), ProjectQuotas::from_wire(&wire, "").unwrap());
    }
    accounts
}

fn running() -> Amounts {
    Amounts::of(Quota::RunningSandboxes, 1)
}

#[derive(Debug, Clone)]
enum Step {
    /// Charges a project for something.
    Charge(usize, Quota),
    /// Takes back the charge at this place, of those that there are.
    Release(prop::sample::Index),
    /// Parks a sandbox of a project for another one, in which time others ask for its permit.
    Evict(usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let quota = prop::sample::select(vec![Quota::RunningSandboxes, Quota::Commands, Quota::Sandboxes]);
    prop_oneof![
        4 => (0..3usize, quota).prop_map(|(project, quota)| Step::Charge(project, quota)),
        3 => any::<prop::sample::Index>().prop_map(Step::Release),
        1 => (0..3usize, 0..3usize).prop_map(|(project, other)| Step::Evict(project, other)),
    ]
}

/// What the test itself counts.
#[derive(Default)]
struct Model {
    held: Vec<(usize, Quota)>,
}

impl Model {
    fn count(&self, project: usize, quota: Quota) -> u64 {
        self.held.iter().filter(|held| **held == (project, quota)).count() as u64
    }

    fn all(&self, quota: Quota) -> u64 {
        (0..3).map(|project| self.count(project, quota)).sum()
    }
}

proptest! {
    #[test]
    fn accounts_are_never_negative_and_never_above(
        steps in prop::collection::vec(step(), 1..200),
        guaranteed in [0..=2u64, 0..=2u64, 0..=2u64],
        commands in 0..4u64,
    ) {
        let (mut accounts, mut model) = (accounts(guaranteed, commands), Model::default());
        for step in steps {
            match step {
                Step::Charge(project, quota) => {
                    let charged = accounts.charge(&name(project), &Amounts::of(quota, 1), now());
                    match charged {
                        Ok(()) => model.held.push((project, quota)),
                        Err(Denied::Quota(_)) => prop_assert!(model.count(project, quota) >= commands),
                        Err(Denied::Full) => {
                            prop_assert!(quota == Quota::RunningSandboxes);
                            let mine = model.count(project, quota);
                            prop_assert!(mine >= guaranteed[project], "a guaranteed permit was denied");
                        }
                    }
                }
                Step::Release(at) if !model.held.is_empty() => {
                    let (project, quota) = model.held.swap_remove(at.index(model.held.len()));
                    accounts.release(&name(project), &Amounts::of(quota, 1), now());
                }
                Step::Release(_) => {}
                Step::Evict(project, other) => {
                    let Some(at) = model.held.iter().position(|held| *held == (project, Quota::RunningSandboxes))
                    else { continue };
                    accounts.promise(&name(project));
                    // It is about to park one as well, but has not yet.
                    accounts.promise(&name(other));
                    accounts.release(&name(project), &running(), now());
                    model.held.swap_remove(at);
                    if other != project && accounts.charge(&name(other), &running(), now()).is_ok() {
                        model.held.push((other, Quota::RunningSandboxes));
                    }
                    prop_assert_eq!(accounts.charge(&name(project), &running(), now()), Ok(()));
                    model.held.push((project, Quota::RunningSandboxes));
                    accounts.end_promise(&name(project));
                    accounts.end_promise(&name(other));
                }
            }
            for project in 0..3 {
                for quota in [Quota::RunningSandboxes, Quota::Commands, Quota::Sandboxes] {
                    prop_assert_eq!(accounts.of(&name(project)).used(quota), model.count(project, quota));
                }
                prop_assert!(model.count(project, Quota::Commands) <= commands);
            }
            prop_assert!(model.all(Quota::RunningSandboxes) <= CAPACITY);
        }
        for (project, quota) in model.held.drain(..) {
            accounts.release(&name(project), &Amounts::of(quota, 1), now());
        }
        for project in 0..3 {
            prop_assert!(Quota::ALL.into_iter().all(|quota| accounts.of(&name(project)).used(quota) == 0));
        }
    }
}

#[test]
fn what_is_guaranteed_is_left_for_others_and_cannot_be_more_than_there_is() {
    let mut accounts = accounts([2, 0, 1], 9);
    assert_eq!(accounts.guaranteeable(&name(1)), CAPACITY - 3);
    assert_eq!(accounts.guaranteeable(&name(0)), CAPACITY - 1);
    for _ in 0..3 {
        accounts.charge(&name(1), &running(), now()).unwrap();
    }
    assert_eq!(accounts.charge(&name(1), &running(), now()), Err(Denied::Full));
    for _ in 0..2 {
        accounts.charge(&name(0), &running(), now()).unwrap();
    }
    assert_eq!(accounts.charge(&name(0), &running(), now()), Err(Denied::Full));
    accounts.charge(&name(2), &running(), now()).unwrap();
}

#[test]
fn one_project_without_quotas_gets_everything() {
    let capacity = Amounts::of(Quota::RunningSandboxes, CAPACITY).and(Quota::Sandboxes, 100);
    let defaults = quota::Quotas { running_sandboxes: Some(0), ..quota::Quotas::default() };
    let mut accounts = Accounts::new(capacity, ProjectQuotas::from_wire(&defaults, "").unwrap());
    for _ in 0..CAPACITY {
        accounts.charge(&ProjectName::default(), &running(), now()).unwrap();
    }
    assert_eq!(accounts.charge(&ProjectName::default(), &running(), now()), Err(Denied::Full));
}

#[test]
fn what_exists_at_a_start_is_charged_even_if_it_is_too_much() {
    let mut accounts = accounts([0, 0, 0], 1);
    let two = Amounts::of(Quota::Commands, 2);
    accounts.charge_existing(&name(0), &two, now());
    assert!(matches!(
        accounts.charge(&name(0), &Amounts::of(Quota::Commands, 1), now()),
        Err(Denied::Quota(_))
    ));
    accounts.release(&name(0), &two, now());
    accounts.charge(&name(0), &Amounts::of(Quota::Commands, 1), now()).unwrap();
}

#[test]
fn a_snapshot_that_exceeds_the_quota_is_not_charged() {
    let mut accounts = accounts([0, 0, 0], 1);
    let wire = quota::Quotas { snapshot_bytes: Some(10), ..quota::Quotas::default() };
    accounts.set_quotas(&name(0), ProjectQuotas::from_wire(&wire, "").unwrap());
    accounts.add_snapshot(&snapshot(1, 1, 8, 8)).unwrap();
    accounts.check_storable(&name(0)).unwrap();
    accounts.add_snapshot(&snapshot(1, 2, 3, 9)).unwrap_err();
    accounts.add_snapshot(&snapshot(1, 3, 2, 10)).unwrap();
    accounts.check_storable(&name(0)).unwrap_err();
    assert_eq!(accounts.of(&name(0)).used(Quota::SnapshotBytes), 10);
}

#[test]
fn a_charge_moves_to_another_project_or_stays() {
    let mut accounts = accounts([0; 3], 0);
    let wire = quota::Quotas { running_sandboxes: Some(1), ..quota::Quotas::default() };
    accounts.set_quotas(&name(1), ProjectQuotas::from_wire(&wire, "").unwrap());
    let used = |accounts: &mut Accounts, project| accounts.of(&name(project)).used(Quota::RunningSandboxes);
    for _ in 0..CAPACITY {
        accounts.charge(&name(0), &running(), now()).unwrap();
    }
    accounts.move_charge(&name(0), &name(1), &running(), now()).unwrap();
    assert_eq!((used(&mut accounts, 0), used(&mut accounts, 1)), (CAPACITY - 1, 1));
    let refused = accounts.move_charge(&name(0), &name(1), &running(), now());
    assert!(matches!(refused, Err(Denied::Quota(_))), "it has one already");
    assert_eq!((used(&mut accounts, 0), used(&mut accounts, 1)), (CAPACITY - 1, 1));
    assert_eq!(accounts.charge(&name(2), &running(), now()), Err(Denied::Full));
}
