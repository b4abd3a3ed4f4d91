//! Times at which sandboxes ran out of memory, and since when the engine has reported them.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::model::limits;

/// Latest times at which a sandbox ran out of memory, as the engine reported them, and since when the list is complete.
#[derive(Debug)]
pub(super) struct Ooms {
    kept: Mutex<Kept>,
    noted: Notify,
}

#[derive(Debug)]
struct Kept {
    at_ms: VecDeque<i64>,
    complete_from_ms: i64,
}

impl Default for Ooms {
    fn default() -> Self {
        let kept = Kept { at_ms: VecDeque::new(), complete_from_ms: i64::MIN };
        Self { kept: Mutex::new(kept), noted: Notify::new() }
    }
}

impl Ooms {
    /// Records a time of the engine's clock.
    pub(super) fn note(&self, at_ms: i64) {
        let mut kept = self.lock();
        if kept.at_ms.len() == limits::MAX_RECORDED_OOMS
            && let Some(forgotten) = kept.at_ms.pop_front()
        {
            kept.complete_from_ms = forgotten.saturating_add(1);
        }
        kept.at_ms.push_back(at_ms);
        drop(kept);
        self.noted.notify_waiters();
    }

    /// Returns once a time within `window` is recorded.
    pub(super) async fn any_within(&self, window: &RangeInclusive<i64>) {
        loop {
            let mut noted = pin!(self.noted.notified());
            noted.as_mut().enable();
            if self.lock().at_ms.iter().any(|at| window.contains(at)) {
                return;
            }
            noted.await;
        }
    }

    /// Whether all times since `ms` are kept.
    pub(super) fn is_complete_from(&self, ms: i64) -> bool {
        self.lock().complete_from_ms <= ms
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Since when the engine's events have been received without a gap. `i64::MAX` if they are not.
#[derive(Debug)]
pub(super) struct Listening(AtomicI64);

impl Default for Listening {
    fn default() -> Self {
        Self(AtomicI64::new(i64::MAX))
    }
}

impl Listening {
    pub(super) fn begin(&self, since_ms: i64) {
        self.0.store(since_ms, Ordering::Relaxed);
    }

    pub(super) fn end(&self) {
        self.0.store(i64::MAX, Ordering::Relaxed);
    }

    pub(super) fn since(&self, ms: i64) -> bool {
        self.0.load(Ordering::Relaxed) <= ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgotten_times_make_the_list_incomplete() {
        let ooms = Ooms::default();
        for at in 0..=limits::MAX_RECORDED_OOMS as i64 {
            ooms.note(at);
        }
        assert!(!ooms.is_complete_from(0) && ooms.is_complete_from(1));
    }
}
