//! Accounts at work: who signs in, with which password, and until when.
//!
//! Unknown, disabled and wrong are one answer, after the same work. Every attempt is counted before its password is
//! hashed, so that parallel guesses gain nothing.

mod attempts;
mod error;
mod identities;
mod invitations;
mod passwords;
mod sessions;
mod sign_in;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;
use tokio::time::sleep;

pub use self::error::{Error, Result};
pub use self::identities::Identified;
pub use self::passwords::checked_password;
pub use self::sessions::{SessionWatch, Verified};

use self::attempts::Attempts;
use self::passwords::Passwords;
use crate::account::limits::SESSION_CHECK;
use crate::account::{User, UserId};
use crate::store::{Store, UserChange};

/// The accounts of one app. Cheap to clone.
#[derive(Debug, Clone)]
pub struct People {
    store: Store,
    passwords: Passwords,
    attempts: Arc<Attempts>,
    /// Changes whenever a session may have ended.
    ended: watch::Sender<()>,
    /// Set once there are accounts. No account is ever removed, so they stay.
    has_accounts: Arc<AtomicBool>,
}

impl People {
    /// Creates the accounts of a store.
    ///
    /// # Errors
    /// The system provides no random bytes.
    pub fn new(store: Store) -> Result<Self> {
        let (ended, _) = watch::channel(());
        let passwords = Passwords::new()?;
        Ok(Self { store, passwords, attempts: Arc::default(), ended, has_accounts: Arc::default() })
    }

    /// Whether the app has accounts.
    pub async fn has_accounts(&self) -> Result<bool> {
        if self.has_accounts.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let has_accounts = self.store.has_users().await?;
        // Never back to false: two requests may look at the same time.
        self.has_accounts.fetch_or(has_accounts, Ordering::Relaxed);
        Ok(has_accounts)
    }

    /// Waits until the app has accounts. The operator adds the first one in another process, so the store is read at
    /// intervals. A failure of the store does not count as one.
    pub async fn until_accounts(self) {
        loop {
            match self.has_accounts().await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => tracing::warn!(%error, "it could not be checked whether there are accounts"),
            }
            sleep(SESSION_CHECK).await;
        }
    }

    /// Counts an attempt to sign in from an address.
    ///
    /// # Errors
    /// There were too many.
    pub fn count_attempt(&self, peer: IpAddr) -> Result<()> {
        self.attempts.count_address(peer)
    }

    /// Returns all accounts by name.
    pub async fn users(&self) -> Result<Vec<User>> {
        Ok(self.store.users().await?)
    }

    /// Changes the role of an account, or disables it. A disabled one ends at once: its sessions, its requests in
    /// progress, and the turns that they wait for.
    pub async fn change(&self, id: &UserId, what: UserChange) -> Result<User> {
        let user = self.store.change_user(id, what).await?.ok_or(Error::NotFound { what: "user" })?;
        self.ended.send_replace(());
        Ok(user)
    }
}
