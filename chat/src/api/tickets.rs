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

/// The unused tickets for permissions, which bound their number. Cheap to clone.
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
        let ticket = Ticket { permission, expires: Instant::now() + LIFETIME };
        self.unused().insert(secret.hash(), ticket);
        Ok(secret)
    }

    /// Drops the permissions of expired tickets.
    pub(super) fn forget_expired(&self) {
        let now = Instant::now();
        self.unused().retain(|_, ticket| now < ticket.expires);
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
    async fn expired_tickets_are_forgotten() {
        let tickets = Tickets::default();
        tickets.make(1).unwrap();
        advance(LIFETIME / 2).await;
        let second = tickets.make(2).unwrap();
        advance(LIFETIME / 2).await;
        tickets.forget_expired();
        assert_eq!(tickets.unused().len(), 1);
        assert_eq!(tickets.take(second.expose()), Some(2));
    }
}
