//! Limits how often one address may present a wrong token.
//!
//! Only failures count. The right token is accepted at any time. So no client can lock out the chat app from an address
//! that they share (a proxy, a bridge). The limit is not what makes a token hard to guess: its length is. The limit
//! makes guessing visible and cheap to answer, and keeps the log short.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

/// The number of allowed failures.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    /// Failures that one address may make at once.
    pub failures: NonZeroU32,
    /// Time after which an address may make another failure. Not zero.
    pub period: Duration,
    /// Maximum number of addresses that are counted separately. More of them share one allowance.
    pub max_peers: usize,
}

/// Number of failures between two removals of inactive addresses.
const SWEEP_EVERY: u32 = 256;

/// Addresses whose failures are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
    One(IpAddr),
    /// All other addresses, while too many addresses fail.
    Others,
}

/// Returns the address that stands for all those of a single host. Of an IPv6 address, this is the first 64 bits, because
/// a host may have any number of addresses below them (RFC 7421).
pub fn source_of(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::from([a, b, c, d, 0, 0, 0, 0]).into()
        }
    }
}

type Limiter<C> = RateLimiter<Source, HashMapStateStore<Source>, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// Counts failures by address, with limited memory.
pub struct Throttle<C: Clock = DefaultClock> {
    limiter: Limiter<C>,
    max_peers: usize,
    clock: C,
    failures: AtomicU32,
}

impl Throttle {
    /// Creates a throttle with this allowance.
    pub fn new(allowance: Allowance) -> Self {
        Self::with_clock(allowance, DefaultClock::default())
    }
}

impl<C: Clock + Clone> Throttle<C> {
    fn with_clock(allowance: Allowance, clock: C) -> Self {
        let Allowance { failures, period, max_peers } = allowance;
        let quota = Quota::with_period(period).unwrap_or(Quota::per_minute(failures)).allow_burst(failures);
        let limiter = RateLimiter::hashmap_with_clock(quota, clock.clone());
        Self { limiter, max_peers, clock, failures: AtomicU32::new(0) }
    }

    /// Counts a failure. If there were too many, the error is the time to wait.
    pub fn failed(&self, peer: IpAddr) -> Result<(), Duration> {
        let is_full = || self.limiter.len() >= self.max_peers;
        if self.failures.fetch_add(1, Ordering::Relaxed).is_multiple_of(SWEEP_EVERY) || is_full() {
            self.limiter.retain_recent();
        }
        let source = if is_full() { Source::Others } else { Source::One(source_of(peer)) };
        self.limiter.check_key(&source).map_err(|until| until.wait_time_from(self.clock.now()))
    }
}

impl<C: Clock> fmt::Debug for Throttle<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    const ALLOWED: Allowance =
        Allowance { failures: NonZeroU32::new(10).unwrap(), period: Duration::from_secs(1), max_peers: 4096 };

    fn throttle() -> (Throttle<FakeRelativeClock>, FakeRelativeClock) {
        let clock = FakeRelativeClock::default();
        (Throttle::with_clock(ALLOWED, clock.clone()), clock)
    }

    /// Counts the failures that are allowed before one is not.
    fn allowed_failures(throttle: &Throttle<FakeRelativeClock>, peer: &str) -> usize {
        let peer: IpAddr = peer.parse().unwrap();
        (0..1000).take_while(|_| throttle.failed(peer).is_ok()).count()
    }

    #[test]
    fn a_burst_is_allowed_and_then_one_failure_per_period() {
        let (throttle, clock) = throttle();
        assert_eq!(allowed_failures(&throttle, "10.0.0.1"), 10);
        let wait = throttle.failed("10.0.0.1".parse().unwrap()).unwrap_err();
        assert!(wait <= ALLOWED.period && !wait.is_zero(), "{wait:?}");
        clock.advance(ALLOWED.period * 2);
        assert_eq!(allowed_failures(&throttle, "10.0.0.1"), 2);
    }

    #[test]
    fn addresses_are_counted_separately_and_a_prefix_as_one() {
        let (throttle, _) = throttle();
        assert_eq!(allowed_failures(&throttle, "10.0.0.1"), 10);
        assert_eq!(allowed_failures(&throttle, "10.0.0.2"), 10);
        assert_eq!(allowed_failures(&throttle, "::ffff:10.0.0.2"), 0, "the same one");
        assert_eq!(allowed_failures(&throttle, "2001:db8::1"), 10);
        assert_eq!(allowed_failures(&throttle, "2001:db8::ffff:1"), 0, "of the same /64");
        assert_eq!(allowed_failures(&throttle, "2001:db8:0:1::1"), 10);
    }

    #[test]
    fn memory_is_limited_and_inactive_addresses_are_removed() {
        let (throttle, clock) = throttle();
        let addresses = |first: u32| (first..).map(|n| IpAddr::V4(n.into()));
        for peer in addresses(0).take(ALLOWED.max_peers * 2) {
            let _ = throttle.failed(peer);
            assert!(throttle.limiter.len() <= ALLOWED.max_peers + 1);
        }
        assert_eq!(allowed_failures(&throttle, "250.0.0.1"), 0, "the shared allowance is used up");
        clock.advance(ALLOWED.period * ALLOWED.failures.get());
        assert_eq!(allowed_failures(&throttle, "250.0.0.1"), 10);
        assert!(throttle.limiter.len() <= 2, "{}", throttle.limiter.len());
    }
}
