//! The active writers, and the generation in which each began. The crate's documentation has the protocol.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Generation;

/// Protects chunks from collections: those with a mark from its generation on, until it is dropped.
#[derive(Debug)]
pub struct Lease {
    generation: Generation,
    leases: Arc<Leases>,
}

/// The open leases, and the current generation.
#[derive(Debug)]
pub(crate) struct Leases(Mutex<State>);

#[derive(Debug)]
struct State {
    generation: Generation,
    /// Number of leases for each generation.
    open: BTreeMap<Generation, usize>,
}

impl Leases {
    pub(crate) fn new(generation: Generation) -> Self {
        Self(Mutex::new(State { generation, open: BTreeMap::new() }))
    }

    /// Opens a lease of the current generation.
    pub(crate) fn open(self: &Arc<Self>) -> Lease {
        let mut state = self.state();
        let generation = state.generation;
        *state.open.entry(generation).or_default() += 1;
        Lease { generation, leases: Arc::clone(self) }
    }

    pub(crate) fn generation(&self) -> Generation {
        self.state().generation
    }

    /// Leases opened from now on have at least `generation`. Returns the oldest generation that must be kept: this one, or
    /// that of the oldest open lease.
    pub(crate) fn advance(&self, generation: Generation) -> Generation {
        let mut state = self.state();
        state.generation = state.generation.max(generation);
        let oldest = state.open.keys().next().copied();
        oldest.map_or(generation, |oldest| oldest.min(generation))
    }

    fn close(&self, generation: Generation) {
        let mut state = self.state();
        if let Some(count) = state.open.get_mut(&generation) {
            *count -= 1;
            if *count == 0 {
                state.open.remove(&generation);
            }
        }
    }

    /// Every change of the state is complete, so a panic elsewhere leaves it valid.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// The generation in which it began.
    pub fn generation(&self) -> Generation {
        self.generation
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.leases.close(self.generation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_keeps_what_the_oldest_lease_may_refer_to() {
        let leases = Arc::new(Leases::new(3));
        let (one, two) = (leases.open(), leases.open());
        assert_eq!(leases.advance(4), 3);
        let three = leases.open();
        assert_eq!((one.generation(), three.generation()), (3, 4));
        drop(one);
        assert_eq!(leases.advance(5), 3);
        drop(two);
        assert_eq!(leases.advance(6), 4);
        drop(three);
        assert_eq!(leases.advance(7), 7);
    }

    /// A collection that is resumed has an older generation than a lease may have.
    #[test]
    fn the_generation_never_decreases() {
        let leases = Arc::new(Leases::new(3));
        assert_eq!(leases.advance(2), 2);
        assert_eq!(leases.open().generation(), 3);
    }
}
