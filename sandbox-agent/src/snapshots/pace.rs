//! Rests of long work, so that commands in other sandboxes do not wait for it.
//!
//! A thread that computes without a break is preempted only at the scheduler's next tick, which may be 4 ms away, while a
//! short command takes 1 ms. A thread that sleeps makes way at once.

use std::thread::sleep;
use std::time::Instant;

use crate::limits::{SNAPSHOT_REST, SNAPSHOT_WORK};

/// When a thread has last rested.
#[derive(Debug)]
pub(super) struct Pace {
    since: Instant,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { since: Instant::now() }
    }

    /// Rests if the thread has worked long enough.
    #[expect(clippy::disallowed_methods, reason = "the thread is one of its own, and waits for nothing")]
    pub(super) fn rest_if_due(&mut self) {
        if self.since.elapsed() >= SNAPSHOT_WORK {
            sleep(SNAPSHOT_REST);
            self.since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_comes_after_work_and_only_then() {
        let began = Instant::now();
        let mut pace = Pace { since: began - SNAPSHOT_WORK };
        pace.rest_if_due();
        assert!(pace.since >= began + SNAPSHOT_REST);
        // Never due, also if this test waits for a processor.
        let later = began + SNAPSHOT_WORK * 1_000_000;
        let mut pace = Pace { since: later };
        pace.rest_if_due();
        assert_eq!(pace.since, later);
    }
}
