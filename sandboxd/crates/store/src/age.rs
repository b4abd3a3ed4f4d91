//! The daemon's age as it was last stored, in memory.

use std::sync::atomic::{AtomicU64, Ordering};

/// How long the daemon has been running over all its starts, in milliseconds.
#[derive(Debug)]
pub(crate) struct Age(AtomicU64);

impl Age {
    pub(crate) fn from_ms(ms: u64) -> Self {
        Self(AtomicU64::new(ms))
    }

    pub(crate) fn get_ms(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn set_ms(&self, ms: u64) {
        self.0.store(ms, Ordering::Relaxed);
    }
}
