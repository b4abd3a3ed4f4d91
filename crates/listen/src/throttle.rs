//! How often one address may be wrong about the token.
//!
//! Only failures are counted, and the right token is let in whatever came before it, so that nobody can lock
//! the chat app out from an address it shares with others (a proxy, a bridge). So this does not make a token
//! harder to guess, which its length does; it makes trying visible, cheap to answer and quiet in the log.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

/// How many failures are let through.
#[derive(Debug, Clone, Copy)]
pub struct Allowance {
    /// That one address has at once.
    pub failures: NonZeroU32,
    /// After which it has another; not zero.
    pub period: Duration,
    /// Addresses that are kept apart. More of them share one allowance.
    pub max_peers: usize,
}

/// Failures between two sweeps of addresses that have been quiet.
const SWEEP_EVERY: u32 = 256;

/// Whose failures are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
    V4(Ipv4Addr),
    /// The first 64 bits: a single host has as many addresses as it likes below them (RFC 7421).
    V6([u16; 4]),
    /// Everybody, while more addresses fail than are kept apart.
    Crowd,
}

impl Source {
    fn of(peer: IpAddr) -> Self {
        match peer.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

type Limiter<C> = RateLimiter<Source, HashMapStateStore<Source>, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// Counts failures by address, with a bounded memory.
pub struct Throttle<C: Clock = DefaultClock> {
    limiter: Limiter<C>,
    max_peers: usize,
    clock: C,
    failures: AtomicU32,
}

impl Throttle {
    /// That lets so many through.
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

    /// Counts a failure; how long to wait, where there were too many.
    pub fn failed(&self, peer: IpAddr) -> Result<(), Duration> {
        let is_full = || self.limiter.len() >= self.max_peers;
        if self.failures.fetch_add(1, Ordering::Relaxed).is_multiple_of(SWEEP_EVERY) || is_full() {
            self.limiter.retain_recent();
        }
        let source = if is_full() { Source::Crowd } else { Source::of(peer) };
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

    /// Failures that are let through before one is not.
    fn burst(throttle: &Throttle<FakeRelativeClock>, peer: &str) -> usize {
        let peer: IpAddr = peer.parse().unwrap();
        (0..1000).take_while(|_| throttle.failed(peer).is_ok()).count()
    }

    #[test]
    fn a_burst_is_let_through_and_then_one_for_each_period() {
        let (throttle, clock) = throttle();
        assert_eq!(burst(&throttle, "10.0.0.1"), 10);
        let wait = throttle.failed("10.0.0.1".parse().unwrap()).unwrap_err();
        assert!(wait <= ALLOWED.period && !wait.is_zero(), "{wait:?}");
        clock.advance(ALLOWED.period * 2);
        assert_eq!(burst(&throttle, "10.0.0.1"), 2);
    }

    #[test]
    fn addresses_are_counted_apart_and_a_host_of_many_as_one() {
        let (throttle, _) = throttle();
        assert_eq!(burst(&throttle, "10.0.0.1"), 10);
        assert_eq!(burst(&throttle, "10.0.0.2"), 10);
        assert_eq!(burst(&throttle, "::ffff:10.0.0.2"), 0, "the same one");
        assert_eq!(burst(&throttle, "2001:db8::1"), 10);
        assert_eq!(burst(&throttle, "2001:db8::ffff:1"), 0, "of the same /64");
        assert_eq!(burst(&throttle, "2001:db8:0:1::1"), 10);
    }

    #[test]
    fn memory_is_bounded_and_the_quiet_are_forgotten() {
        let (throttle, clock) = throttle();
        let addresses = |first: u32| (first..).map(|n| IpAddr::V4(n.into()));
        for peer in addresses(0).take(ALLOWED.max_peers * 2) {
            let _ = throttle.failed(peer);
            assert!(throttle.limiter.len() <= ALLOWED.max_peers + 1);
        }
        assert_eq!(burst(&throttle, "250.0.0.1"), 0, "the crowd has had its share");
        clock.advance(ALLOWED.period * ALLOWED.failures.get());
        assert_eq!(burst(&throttle, "250.0.0.1"), 10);
        assert!(throttle.limiter.len() <= 2, "{}", throttle.limiter.len());
    }
}
