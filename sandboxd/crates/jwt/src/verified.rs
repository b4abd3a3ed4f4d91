//! Tokens whose signature was verified, because that takes longer than the rest of a request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use sandboxd_model::limits;
use sha2::{Digest, Sha256};

use crate::Identity;
use crate::keys::KeySet;

/// Verified tokens, by their SHA-256. They are of one key set: a token is verified again with the next one.
#[derive(Debug, Default)]
pub(crate) struct Verified(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    keys: Weak<KeySet>,
    identities: HashMap<[u8; 32], Arc<Identity>>,
}

impl Verified {
    /// The digest of a token, and whom it stands for if that is known and it has not expired.
    pub(crate) fn find(&self, token: &[u8], keys: &Arc<KeySet>) -> ([u8; 32], Option<Arc<Identity>>) {
        let digest = Sha256::digest(token).into();
        let known = self.lock();
        let is_current = known.keys.as_ptr() == Arc::as_ptr(keys);
        let found = known.identities.get(&digest).filter(|identity| is_current && is_in_time(identity));
        (digest, found.cloned())
    }

    /// Adds a token that was verified with these keys. If there are too many, those that have expired are removed, or else all.
    pub(crate) fn add(&self, digest: [u8; 32], keys: &Arc<KeySet>, identity: &Arc<Identity>) {
        let mut known = self.lock();
        if known.keys.as_ptr() != Arc::as_ptr(keys) {
            *known = Known { keys: Arc::downgrade(keys), identities: HashMap::new() };
        }
        if known.identities.len() >= limits::MAX_VERIFIED_JWTS {
            known.identities.retain(|_, identity| is_in_time(identity));
        }
        if known.identities.len() >= limits::MAX_VERIFIED_JWTS {
            known.identities.clear();
        }
        known.identities.insert(digest, Arc::clone(identity));
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_in_time(identity: &Identity) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
    now < identity.expires_at_ms
}
