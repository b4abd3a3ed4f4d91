//! The daemon's clocks.

use std::time::{Duration, Instant};

use jiff::Timestamp;

/// The wall clock, in milliseconds since the Unix epoch. It may jump, so it must not measure a duration that matters.
pub(in crate::service) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

/// The daemon's age: its running time, summed over all its starts.
///
/// The retention time of parked workspaces is measured by the age. So files are deleted neither because the wall clock
/// jumps nor because the machine was switched off for weeks.
#[derive(Debug, Clone, Copy)]
pub(in crate::service) struct Age {
    before: Duration,
    started: Instant,
}

impl Age {
    /// Continues from `before_ms`.
    pub(in crate::service) fn resume(before_ms: u64) -> Self {
        Self { before: Duration::from_millis(before_ms), started: Instant::now() }
    }

    /// The age now, in milliseconds.
    pub(in crate::service) fn now_ms(&self) -> u64 {
        (self.before + self.started.elapsed()).as_millis() as u64
    }

    /// The time since the age was `then_ms`.
    pub(in crate::service) fn since(&self, then_ms: u64) -> Duration {
        Duration::from_millis(self.now_ms().saturating_sub(then_ms))
    }
}
