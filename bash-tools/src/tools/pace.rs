//! How often a value of a command or of code is sent while it runs.
//!
//! A value comes when new output has waited for [`FLUSH_AFTER`], or as soon as it has [`FLUSH_CHARS`] characters. Output is not
//! held back for longer, except that values with large displays come less often, because each repeats them.

use std::future;
use std::time::Duration;

use tokio::time::{self, Instant};

/// How long new output may wait.
pub const FLUSH_AFTER: Duration = Duration::from_millis(150);

/// Number of new characters that are sent without waiting.
pub const FLUSH_CHARS: u64 = 512;

/// Minimum time between two values, unless [`ToolLimits::pause`](super::ToolLimits::pause) differs. It avoids copying
/// the output for every line of a flood.
pub const FLUSH_PAUSE: Duration = Duration::from_millis(20);

/// Size of displays, in bytes, that makes the minimum time between two values longer by itself.
const WEIGHT: usize = 64 * 1024;

/// Timing of a command or of code.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Time limit from the start.
    pub(super) timeout: Duration,
    /// Minimum time between two values.
    pub(super) pause: Duration,
}

/// The values that were sent.
#[derive(Debug)]
pub(super) struct Values {
    pace: Pace,
    /// When the last one was sent.
    at: Instant,
    /// Number of characters of output until then.
    chars: u64,
    /// Minimum time between two values.
    pause: Duration,
}

impl Values {
    pub(super) fn new(pace: Pace) -> Self {
        Self { pace, at: Instant::now(), chars: 0, pause: pace.pause }
    }

    /// Notes how many bytes of displays each value has.
    pub(super) fn weigh(&mut self, bytes: usize) {
        let weight = u32::try_from(bytes / WEIGHT).unwrap_or(u32::MAX);
        self.pause = self.pace.pause * weight.saturating_add(1);
    }

    pub(super) fn pace(&self) -> Pace {
        self.pace
    }

    /// Notes that a value with all of the output was sent.
    pub(super) fn sent(&mut self, chars: u64) {
        (self.at, self.chars) = (Instant::now(), chars);
    }

    /// When the next value is due, if the output has so many characters now. `None` if nothing is new.
    pub(super) fn due_at(&self, chars: u64) -> Option<Instant> {
        match chars - self.chars {
            0 => None,
            1..FLUSH_CHARS => Some(self.at + FLUSH_AFTER.max(self.pause)),
            _ => Some(self.at + self.pause),
        }
    }
}

/// Waits until a value is due, for ever if none is.
pub(super) async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(at) => time::sleep_until(at).await,
        None => future::pending().await,
    }
}
