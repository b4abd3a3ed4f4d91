//! Limits of the connections that pages keep open: for all pages, and for those of one user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::{Error, Result};
use crate::account::Owner;

/// The places for connections of one kind. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Places {
    taken: Arc<Mutex<HashMap<Owner, usize>>>,
    max: usize,
    max_of_user: usize,
}

/// A place of a connection. Dropping it makes room for another.
#[derive(Debug)]
pub(super) struct Place {
    places: Places,
    owner: Owner,
}

impl Places {
    /// Creates `max` places. One user gets at most `max_of_user`, so that others can have some. An app without accounts has no
    /// users.
    pub(super) fn new(max: usize, max_of_user: usize) -> Self {
        Self { taken: Arc::default(), max, max_of_user }
    }

    /// Takes a place for a page of an owner.
    pub(super) fn take(&self, owner: Owner) -> Result<Place> {
        let mut taken = self.taken();
        if taken.values().sum::<usize>() >= self.max {
            return Err(Error::TooManyPages { limit: self.max });
        }
        let of_owner = taken.entry(owner.clone()).or_default();
        if matches!(owner, Owner::User(_)) && *of_owner >= self.max_of_user {
            return Err(Error::TooManyPages { limit: self.max_of_user });
        }
        *of_owner += 1;
        drop(taken);
        Ok(Place { places: self.clone(), owner })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<Owner, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if let Some(of_owner) = taken.get_mut(&self.owner) {
            *of_owner -= 1;
            if *of_owner == 0 {
                taken.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::UserId;

    #[test]
    fn places_are_bounded() {
        let places = Places::new(5, 3);
        let ann = Owner::User(UserId::random());
        let mut of_ann: Vec<_> = (0..3).map(|_| places.take(ann.clone()).unwrap()).collect();
        let refused = places.take(ann.clone()).unwrap_err();
        assert!(matches!(refused, Error::TooManyPages { limit: 3 }), "{refused}");
        let others: Vec<_> = (3..5).map(|_| places.take(Owner::Everyone).unwrap()).collect();
        assert!(matches!(places.take(Owner::Everyone), Err(Error::TooManyPages { limit: 5 })));
        of_ann.pop();
        of_ann.push(places.take(ann).unwrap());
        drop((of_ann, others));
        assert!(places.taken().is_empty());
    }
}
