//! Tickets: secrets that each stand for one permission, once, and soon.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::error::Result;
use crate::account::{Secret, SecretHash};
use crate::people;

/// Lifetime of a ticket.
const LIFETIME: Duration = Duration::from_secs(30);

/// Maximum number of unused tickets. The oldest makes room for a new one.
const MAX_TICKETS: usize = 256;

/// The unused tickets for permissions. Cheap to clone.
pub(super) struct Tickets<T> {
    unused: Arc<Mutex<HashMap<SecretHash, Ticket<T>>>>,
}

struct Ticket<T> {
    permission: T,
    expires: Instant,
}

impl<T> Tickets<T> {
    /// Makes a ticket for a permission.
    pub(super) fn make(&self, permission: T) -> Result<Secret> {
        let secret = Secret::generate().map_err(people::Error::from)?;
        let now = Instant::now();
        let mut unused = self.unused();
        unused.retain(|_, ticket| now < ticket.expires);
        if unused.len() >= MAX_TICKETS {
            let oldest = unused.iter().min_by_key(|(_, ticket)| ticket.expires).map(|(hash, _)| *hash);
            oldest.map(|oldest| unused.remove(&oldest));
        }
        unused.insert(secret.hash(), Ticket { permission, expires: now + LIFETIME });
        Ok(secret)
    }

    /// Uses up a ticket. Returns its permission.
    pub(super) fn take(&self, secret: &str) -> Option<T> {
        let ticket = self.unused().remove(&SecretHash::of(secret))?;
        (Instant::now() < ticket.expires).then_some(ticket.permission)
    }

    fn unused(&self) -> MutexGuard<'_, HashMap<SecretHash, Ticket<T>>> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Clone for Tickets<T> {
    fn clone(&self) -> Self {
        Self { unused: Arc::clone(&self.unused) }
    }
}

impl<T> Default for Tickets<T> {
    fn default() -> Self {
        Self { unused: Arc::default() }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_ticket_is_used_once_and_soon() {
        let tickets = Tickets::default();
        let [first, second] = [1, 2].map(|permission| tickets.make(permission).unwrap());
        assert_eq!(tickets.take(first.expose()), Some(1));
        assert_eq!(tickets.take(first.expose()), None);
        assert_eq!(tickets.take("unknown"), None);
        advance(LIFETIME).await;
        assert_eq!(tickets.take(second.expose()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_ticket_makes_room() {
        let tickets = Tickets::default();
        let mut made = Vec::new();
        for permission in 0..=MAX_TICKETS {
            made.push(tickets.make(permission).unwrap());
            advance(Duration::from_millis(1)).await;
        }
        assert_eq!(tickets.unused().len(), MAX_TICKETS);
        assert_eq!(tickets.take(made[0].expose()), None);
        assert_eq!(tickets.take(made[1].expose()), Some(1));
        advance(LIFETIME).await;
        tickets.make(0).unwrap();
        assert_eq!(tickets.unused().len(), 1, "expired ones are removed");
    }
}
