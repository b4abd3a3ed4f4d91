//! Connections of authenticated clients, which end with their token.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use listen::slot::ConnectionSlot;

use crate::model::Principal;
use crate::service::Connections;

/// The connections on which requests are served whose token can end.
#[derive(Debug, Default)]
pub(super) struct TokenConnections(Mutex<HashMap<usize, Held>>);

#[derive(Debug)]
struct Held {
    slot: Weak<ConnectionSlot>,
    /// Whose request was served last.
    principal: Arc<Principal>,
}

impl TokenConnections {
    /// Notes whose request is served on a connection. Call it for each request: a client may use another token for the next
    /// one.
    pub(super) fn note(&self, principal: &Arc<Principal>, slot: &Arc<ConnectionSlot>) {
        // A slot keeps its address as long as there is a reference to it, and a weak one is enough.
        let held = Held { slot: Arc::downgrade(slot), principal: Arc::clone(principal) };
        self.lock().insert(key(slot), held);
    }

    /// Notes that a connection stays open, whatever happens to the token of the request that is served on it.
    pub(super) fn keep(&self, slot: &Arc<ConnectionSlot>) {
        self.lock().remove(&key(slot));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(slot: &Arc<ConnectionSlot>) -> usize {
    Arc::as_ptr(slot) as usize
}

impl Connections for TokenConnections {
    fn close_unless(&self, is_admitted: &dyn Fn(&Principal) -> bool) {
        self.lock().retain(|_, held| {
            let Some(slot) = held.slot.upgrade() else { return false };
            let stays = is_admitted(&held.principal);
            if !stays {
                slot.close();
            }
            stays
        });
    }
}
