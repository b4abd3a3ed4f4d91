//! How often one address may be wrong about the token.
//!
//! Only failures are counted, and the right token is let in whatever came before it, so that nobody can lock others out with whom
//! they share an address. The token's length keeps it from being guessed; this keeps guessing cheap to answer.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

/// Failures that one address has at once.
const BURST: NonZeroU32 = NonZeroU32::new(10).expect("ten is not zero");
/// After which it has another.
const PERIOD: Duration = Duration::from_secs(6);
/// Addresses that are kept apart. More of them share one allowance.
const MAX_PEERS: usize = 1024;

/// Whoever fails while there are [`MAX_PEERS`].
const CROWD: IpAddr = IpAddr::V4(Ipv4Addr::BROADCAST);

type Limiter<C> = RateLimiter<IpAddr, HashMapStateStore<IpAddr>, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// Counts failures by address, with a bounded memory.
pub(super) struct Throttle<C: Clock = DefaultClock> {
    limiter: Limiter<C>,
    clock: C,
}

impl Throttle {
    pub(super) fn new() -> Self {
        Self::with_clock(DefaultClock::default())
    }
}

impl<C: Clock + Clone> Throttle<C> {
    fn with_clock(clock: C) -> Self {
        let quota = Quota::with_period(PERIOD).unwrap_or(Quota::per_minute(BURST)).allow_burst(BURST);
        Self { limiter: RateLimiter::hashmap_with_clock(quota, clock.clone()), clock }
    }

    /// Counts a failure; how long to wait, where there were too many.
    pub(super) fn failed(&self, peer: IpAddr) -> Result<(), Duration> {
        if self.limiter.len() >= MAX_PEERS {
            self.limiter.retain_recent();
        }
        let source = if self.limiter.len() >= MAX_PEERS { CROWD } else { source(peer) };
        self.limiter.check_key(&source).map_err(|until| until.wait_time_from(self.clock.now()))
    }
}

/// A single host has as many addresses as it likes below the first 64 bits (RFC 7421).
fn source(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
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

    /// Failures that are let through before one is not.
    fn burst(throttle: &Throttle<FakeRelativeClock>, peer: &str) -> usize {
        let peer: IpAddr = peer.parse().unwrap();
        (0..1000).take_while(|_| throttle.failed(peer).is_ok()).count()
    }

    #[test]
    fn a_burst_is_let_through_and_then_one_for_each_period() {
        let clock = FakeRelativeClock::default();
        let throttle = Throttle::with_clock(clock.clone());
        assert_eq!(burst(&throttle, "10.0.0.1"), 10);
        assert_eq!(burst(&throttle, "::ffff:10.0.0.1"), 0, "the same one");
        assert_eq!(burst(&throttle, "2001:db8::1"), 10);
        assert_eq!(burst(&throttle, "2001:db8::2:1"), 0, "of the same /64");
        assert_eq!(burst(&throttle, "2001:db8:0:1::1"), 10);
        clock.advance(PERIOD * 2);
        assert_eq!(burst(&throttle, "10.0.0.1"), 2);
    }

    #[test]
    fn memory_is_bounded_and_the_quiet_are_forgotten() {
        let clock = FakeRelativeClock::default();
        let throttle = Throttle::with_clock(clock.clone());
        for n in 0..MAX_PEERS as u32 * 2 {
            let _ = throttle.failed(Ipv4Addr::from_bits(n).into());
            assert!(throttle.limiter.len() <= MAX_PEERS + 1);
        }
        assert_eq!(burst(&throttle, "10.0.0.1"), 0, "the crowd has had its share");
        clock.advance(PERIOD * 10);
        assert_eq!(burst(&throttle, "10.0.0.1"), 10);
        assert!(throttle.limiter.len() <= 2);
    }
}
