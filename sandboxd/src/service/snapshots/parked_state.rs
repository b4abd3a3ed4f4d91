//! Failed snapshots of parked sandboxes, so that they are not tried too often.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sandbox_api::SandboxId;

use crate::model::limits;
use crate::service::lifecycle::Sandbox;

/// Failed attempts.
#[derive(Debug, Default)]
pub(super) struct ParkedState(Mutex<Failures>);

#[derive(Debug, Default)]
struct Failures {
    /// When the snapshot of a parked sandbox was last tried.
    tried: HashMap<SandboxId, Instant>,
    /// When the store has last failed.
    store: Option<Instant>,
}

impl ParkedState {
    /// The sandbox whose last attempt is the longest ago, if the next one is due.
    pub(super) fn next_due(&self, lacking: Vec<Arc<Sandbox>>) -> Option<Arc<Sandbox>> {
        let tried = &mut self.lock().tried;
        tried.retain(|id, at| is_recent(at) || lacking.iter().any(|sandbox| sandbox.id() == id));
        let due = lacking.into_iter().filter(|sandbox| !tried.get(sandbox.id()).is_some_and(is_recent));
        due.min_by_key(|sandbox| tried.get(sandbox.id()).copied())
    }

    pub(super) fn note_attempt(&self, id: &SandboxId) {
        self.lock().tried.insert(id.clone(), Instant::now());
    }

    pub(super) fn note_store(&self, has_failed: bool) {
        self.lock().store = has_failed.then(Instant::now);
    }

    pub(super) fn has_store_failed(&self) -> bool {
        self.lock().store.is_some_and(|at| at.elapsed() < limits::CHECKPOINT_PAUSE)
    }

    /// Every change is complete, so a panic elsewhere leaves it valid.
    fn lock(&self) -> MutexGuard<'_, Failures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_recent(attempt: &Instant) -> bool {
    attempt.elapsed() < limits::CHECKPOINT_RETRY
}
