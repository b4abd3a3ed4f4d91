//! Connections of project tokens, which end with their token.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use listen::slot::ConnectionSlot;
use sandbox_api::TokenId;

use crate::service::Connections;

/// Number of connections of a token from which on those that are closed are removed from the list.
const TIDY_FROM: usize = 16;

/// The connections on which requests with project tokens were served.
#[derive(Debug, Default)]
pub(super) struct TokenConnections(Mutex<HashMap<TokenId, Vec<Weak<ConnectionSlot>>>>);

impl TokenConnections {
    /// Notes that a request with this token is served on a connection. Call it for each request: a client may use another
    /// token for the next one.
    pub(super) fn note(&self, token: &TokenId, slot: &Arc<ConnectionSlot>) {
        if !slot.set_holder(token.as_str()) {
            return;
        }
        let mut connections = self.lock();
        let of_token = connections.entry(token.clone()).or_default();
        if of_token.len() >= TIDY_FROM && of_token.len().is_power_of_two() {
            of_token.retain(|slot| slot.strong_count() > 0);
        }
        // A client may use its tokens in turn.
        if !of_token.iter().any(|known| known.as_ptr() == Arc::as_ptr(slot)) {
            of_token.push(Arc::downgrade(slot));
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TokenId, Vec<Weak<ConnectionSlot>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connections for TokenConnections {
    fn close_of(&self, token: &TokenId) {
        let connections = self.lock().remove(token).unwrap_or_default();
        for slot in connections.iter().filter_map(Weak::upgrade) {
            // A later request on it may have had another token.
            if slot.is_held_by(token.as_str()) {
                slot.close();
            }
        }
    }
}
