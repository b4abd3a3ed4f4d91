//! Permits to run, counted for each owner: the subjects of a project share its permits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Charge, Denied};
use crate::model::Owner;

/// How many permits each owner has. Owners without one are not in it.
#[derive(Debug, Clone, Default)]
pub(super) struct RunningOf(Arc<Mutex<HashMap<Owner, u64>>>);

/// The permit of one running sandbox. Dropping it frees the permit.
#[derive(Debug)]
pub(in crate::service) struct RunPermit {
    charge: Charge,
    count: Counted,
}

impl RunPermit {
    /// Gives the permit to another owner, if the quotas of its project and the daemon permit it.
    pub(in crate::service) fn move_to(&mut self, owner: &Owner) -> Result<(), Denied> {
        self.charge.move_to(&owner.project)?;
        self.count = self.count.running.count(owner);
        Ok(())
    }
}

/// One permit in the count of its owner.
#[derive(Debug)]
struct Counted {
    running: RunningOf,
    owner: Owner,
}

impl RunningOf {
    /// Counts what the project of an owner was charged.
    pub(super) fn permit(&self, owner: &Owner, charge: Charge) -> RunPermit {
        RunPermit { charge, count: self.count(owner) }
    }

    fn count(&self, owner: &Owner) -> Counted {
        *self.lock().entry(owner.clone()).or_default() += 1;
        Counted { running: self.clone(), owner: owner.clone() }
    }

    /// How many permits an owner has.
    pub(super) fn of(&self, owner: &Owner) -> u64 {
        self.lock().get(owner).copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Owner, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut running = self.running.lock();
        if let Some(count) = running.get_mut(&self.owner) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_without_a_permit_takes_no_memory() {
        let (running, owner) = (RunningOf::default(), Owner::default());
        let permit = || running.permit(&owner, Charge::of_nobody(&owner.project));
        let (one, two) = (permit(), permit());
        assert_eq!(running.of(&owner), 2);
        drop(one);
        assert_eq!(running.of(&owner), 1);
        let ann = Owner { project: owner.project.clone(), subject: Some("ann".parse().unwrap()) };
        let mut two = two;
        two.move_to(&ann).unwrap();
        assert_eq!((running.of(&owner), running.of(&ann)), (0, 1));
        drop(two);
        assert_eq!((running.of(&ann), running.lock().len()), (0, 0));
    }
}
