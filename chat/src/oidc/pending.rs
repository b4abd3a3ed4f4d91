//! Sign-ins that have begun, in memory: a restart forgets them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use openidconnect::{Nonce, PkceCodeVerifier};

use crate::account::SecretHash;

/// How long a sign-in may take.
pub const LIFETIME: Duration = Duration::from_secs(10 * 60);

/// Maximum number of sign-ins that have begun. The oldest makes room.
const MAX_PENDING: usize = 1024;

/// A sign-in that has begun.
pub(super) struct Started {
    pub(super) browser: SecretHash,
    pub(super) nonce: Nonce,
    pub(super) verifier: PkceCodeVerifier,
    pub(super) invitation: Option<SecretHash>,
    at: Instant,
}

/// The sign-ins, by the hashes of their states.
#[derive(Default)]
pub(super) struct Pending(Mutex<HashMap<SecretHash, Started>>);

impl Started {
    pub(super) fn new(
        browser: SecretHash,
        nonce: Nonce,
        verifier: PkceCodeVerifier,
        invitation: Option<SecretHash>,
    ) -> Self {
        Self { browser, nonce, verifier, invitation, at: Instant::now() }
    }
}

impl Pending {
    pub(super) fn insert(&self, state: SecretHash, started: Started) {
        let mut all = self.all();
        if all.len() >= MAX_PENDING {
            let oldest = all.iter().min_by_key(|(_, started)| started.at).map(|(state, _)| *state);
            oldest.and_then(|oldest| all.remove(&oldest));
        }
        all.insert(state, started);
    }

    /// Takes a sign-in that is not too old.
    pub(super) fn take(&self, state: SecretHash) -> Option<Started> {
        self.all().remove(&state).filter(|started| started.at.elapsed() < LIFETIME)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<SecretHash, Started>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started() -> Started {
        let verifier = PkceCodeVerifier::new("v".repeat(43));
        Started::new(SecretHash::of("browser"), Nonce::new("nonce".into()), verifier, None)
    }

    #[test]
    fn a_sign_in_is_taken_once_and_the_oldest_makes_room() {
        let pending = Pending::default();
        for n in 0..=MAX_PENDING {
            pending.insert(SecretHash::of(&n.to_string()), started());
        }
        assert!(pending.take(SecretHash::of("0")).is_none(), "it made room");
        assert!(pending.take(SecretHash::of("1")).is_some());
        assert!(pending.take(SecretHash::of("1")).is_none());
    }
}
