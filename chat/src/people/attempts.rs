//! Counts attempts to sign in, by address and by account.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use listen::throttle::Throttle;

use super::error::{Error, Result};
use crate::account::SecretHash;
use crate::account::limits::{ACCOUNT_PERIOD, ATTEMPTS_BY_ACCOUNT, ATTEMPTS_BY_ADDRESS, MAX_COUNTED_NAMES};

/// A hash of the name, so that long and strange names take no more memory. `None` is all names that have no count of
/// their own.
type Name = Option<SecretHash>;

type Limiter<C> = RateLimiter<Name, HashMapStateStore<Name>, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// The attempts, with limited memory.
pub(super) struct Attempts<C: Clock = DefaultClock> {
    by_address: Throttle,
    by_account: Limiter<C>,
    clock: C,
}

impl Default for Attempts {
    fn default() -> Self {
        Self::with_clock(DefaultClock::default())
    }
}

impl<C: Clock + Clone> Attempts<C> {
    fn with_clock(clock: C) -> Self {
        let quota = Quota::with_period(ACCOUNT_PERIOD).unwrap_or(Quota::per_minute(ATTEMPTS_BY_ACCOUNT));
        let quota = quota.allow_burst(ATTEMPTS_BY_ACCOUNT);
        let by_account = RateLimiter::hashmap_with_clock(quota, clock.clone());
        Self { by_address: Throttle::new(ATTEMPTS_BY_ADDRESS), by_account, clock }
    }

    /// Counts an attempt from an address.
    pub(super) fn count_address(&self, peer: IpAddr) -> Result<()> {
        self.by_address.failed(peer).map_err(too_many)
    }

    /// Counts an attempt with a name, in any case of its letters.
    pub(super) fn count_name(&self, name: &str) -> Result<()> {
        if self.by_account.len() >= MAX_COUNTED_NAMES {
            self.by_account.retain_recent();
        }
        let is_full = self.by_account.len() >= MAX_COUNTED_NAMES;
        let name = (!is_full).then(|| SecretHash::of(&name.to_ascii_lowercase()));
        self.by_account.check_key(&name).map_err(|until| too_many(until.wait_time_from(self.clock.now())))
    }
}

fn too_many(wait: Duration) -> Error {
    Error::TooManyAttempts { wait }
}

impl<C: Clock> fmt::Debug for Attempts<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempts").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    fn permitted(attempts: &Attempts<FakeRelativeClock>, name: &str) -> usize {
        (0..1000).take_while(|_| attempts.count_name(name).is_ok()).count()
    }

    #[test]
    fn the_attempts_of_a_name_are_counted_in_any_case() {
        let clock = FakeRelativeClock::default();
        let attempts = Attempts::with_clock(clock.clone());
        assert_eq!(permitted(&attempts, "Ann"), 10);
        assert_eq!(permitted(&attempts, "aNN"), 0);
        assert_eq!(permitted(&attempts, "bob"), 10);
        clock.advance(ACCOUNT_PERIOD * 2);
        assert_eq!(permitted(&attempts, "ann"), 2);
    }

    #[test]
    fn the_memory_is_limited() {
        let attempts = Attempts::with_clock(FakeRelativeClock::default());
        for n in 0..MAX_COUNTED_NAMES * 2 {
            let _ = attempts.count_name(&n.to_string());
        }
        assert!(attempts.by_account.len() <= MAX_COUNTED_NAMES + 1);
        assert_eq!(permitted(&attempts, "another"), 0, "the shared count is used up");
    }
}
