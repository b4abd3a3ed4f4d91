//! The daemon's age: how long it has run, over all its starts.
//!
//! What must not depend on the wall clock is measured by it: a parked workspace is kept for so long a time of
//! the daemon's own life. A clock that jumps deletes nobody's files, and neither does a holiday with the
//! machine switched off.

use std::time::{Duration, Instant};

/// Counts from what earlier starts lived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Age {
    before: Duration,
    started: Instant,
}

impl Age {
    /// Goes on from `before_ms`.
    pub(super) fn resume(before_ms: u64) -> Self {
        Self { before: Duration::from_millis(before_ms), started: Instant::now() }
    }

    /// The age now, in milliseconds.
    pub(super) fn now_ms(&self) -> u64 {
        (self.before + self.started.elapsed()).as_millis() as u64
    }

    /// How long ago the age was `then_ms`.
    pub(super) fn since(&self, then_ms: u64) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(then_ms))
    }
}
