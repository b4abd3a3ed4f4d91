//! Limits how many requests one source may send in a minute, with limited memory.

use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use governor::clock::{Clock, DefaultClock};
use governor::middleware::StateInformationMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

/// Minimum time between two removals of inactive sources. One looks at all sources.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// A source, or all of a group that are too many to count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Counted<K, G> {
    One(K),
    Others(G),
}

type Limiter<K, G, C> =
    RateLimiter<Counted<K, G>, HashMapStateStore<Counted<K, G>>, C, StateInformationMiddleware>;

/// Counts requests by source. A source may send a minute's requests at once, and more as time passes. While there are too
/// many sources, those of a group share a count, so that one group does not use up the count of another.
pub struct Rate<K: Hash + Eq + Clone, G: Hash + Eq + Clone = (), C: Clock = DefaultClock> {
    limiter: Limiter<K, G, C>,
    per_minute: NonZeroU32,
    max_sources: usize,
    clock: C,
    began: Instant,
    /// When inactive sources were last removed, in milliseconds after `began`.
    swept_ms: AtomicU64,
}

/// What a source may still send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed {
    /// Requests that it may send in a minute.
    pub per_minute: u32,
    /// Requests that it may send now.
    pub remaining: u32,
}

/// A source has sent too many requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// Requests that it may send in a minute.
    pub per_minute: u32,
    /// Time after which it may send another one.
    pub retry_after: Duration,
}

impl<K: Hash + Eq + Clone, G: Hash + Eq + Clone> Rate<K, G> {
    /// Counts at most `max_sources` sources apart.
    pub fn new(per_minute: NonZeroU32, max_sources: usize) -> Self {
        Self::with_clock(per_minute, max_sources, DefaultClock::default())
    }
}

impl<K: Hash + Eq + Clone, G: Hash + Eq + Clone, C: Clock + Clone> Rate<K, G, C> {
    fn with_clock(per_minute: NonZeroU32, max_sources: usize, clock: C) -> Self {
        let quota = Quota::per_minute(per_minute);
        let limiter = RateLimiter::hashmap_with_clock(quota, clock.clone());
        Self {
            limiter: limiter.with_middleware(),
            per_minute,
            max_sources,
            clock,
            began: Instant::now(),
            swept_ms: AtomicU64::new(0),
        }
    }

    /// Counts a request of a source, which belongs to a group.
    pub fn take(&self, source: K, group: G) -> Result<Allowed, Exceeded> {
        let is_full = || self.limiter.len() >= self.max_sources;
        if is_full() && self.may_sweep() {
            self.limiter.retain_recent();
        }
        let counted = if is_full() { Counted::Others(group) } else { Counted::One(source) };
        let per_minute = self.per_minute.get();
        match self.limiter.check_key(&counted) {
            Ok(state) => Ok(Allowed { per_minute, remaining: state.remaining_burst_capacity() }),
            Err(until) => Err(Exceeded { per_minute, retry_after: until.wait_time_from(self.clock.now()) }),
        }
    }

    /// Whether no other request removes inactive sources now, and none has a moment ago.
    fn may_sweep(&self) -> bool {
        let now_ms = self.began.elapsed().as_millis() as u64;
        let swept_ms = self.swept_ms.load(Ordering::Relaxed);
        let is_due = swept_ms == 0 || now_ms >= swept_ms + SWEEP_EVERY.as_millis() as u64;
        let swap =
            || self.swept_ms.compare_exchange(swept_ms, now_ms.max(1), Ordering::Relaxed, Ordering::Relaxed);
        is_due && swap().is_ok()
    }
}

impl<K: Hash + Eq + Clone, G: Hash + Eq + Clone, C: Clock> fmt::Debug for Rate<K, G, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rate").field("per_minute", &self.per_minute).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    const MAX_SOURCES: usize = 100;

    fn rate(per_minute: u32) -> (Rate<u32, &'static str, FakeRelativeClock>, FakeRelativeClock) {
        let clock = FakeRelativeClock::default();
        (Rate::with_clock(NonZeroU32::new(per_minute).unwrap(), MAX_SOURCES, clock.clone()), clock)
    }

    #[test]
    fn a_minute_of_requests_is_allowed_at_once_and_more_as_time_passes() {
        let (rate, clock) = rate(60);
        let allowed: Vec<_> = (0..60).map(|_| rate.take(1, "group").unwrap()).collect();
        assert_eq!(allowed[0], Allowed { per_minute: 60, remaining: 59 });
        assert_eq!(allowed[59].remaining, 0);
        let exceeded = rate.take(1, "group").unwrap_err();
        assert_eq!(exceeded.per_minute, 60);
        assert!(exceeded.retry_after <= Duration::from_secs(1) && !exceeded.retry_after.is_zero());
        assert!(rate.take(2, "group").is_ok(), "another source has its own count");
        clock.advance(Duration::from_secs(2));
        assert_eq!((0..9).filter(|_| rate.take(1, "group").is_ok()).count(), 2);
    }

    #[test]
    fn a_flood_of_sources_shares_the_count_of_its_group_and_memory_is_limited() {
        let (rate, clock) = rate(60);
        for source in 0..10_000 {
            let _ = rate.take(source, "group");
            assert!(rate.limiter.len() <= MAX_SOURCES + 2);
        }
        assert!(rate.take(10_001, "group").is_err(), "the shared count is used up");
        assert!(rate.take(10_001, "another").is_ok(), "another group has its own");
        assert!(rate.take(0, "group").is_err(), "while there are too many, known ones share it too");
        clock.advance(Duration::from_secs(120));
        rate.swept_ms.store(0, Ordering::Relaxed);
        assert!(rate.take(10_002, "group").is_ok());
        assert!(rate.limiter.len() <= 2, "{}", rate.limiter.len());
    }
}
