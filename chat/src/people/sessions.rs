//! Sessions: their begin, their use, and their end in the middle of a request.

use std::fmt;

use tokio::sync::watch;
use tokio::time::timeout;

use super::People;
use super::error::{Error, Result};
use crate::account::limits::{MAX_AGENT_CHARS, SESSION_CHECK};
use crate::account::{Secret, SecretHash, Session, SignedIn, User, UserId};
use crate::store::{NewSession, Store};

/// An authenticated user, for whom a session may begin.
pub struct Verified {
    /// The user.
    pub user: User,
    /// Hash of the password that was verified. `None` after another proof.
    pub(super) password: Option<String>,
}

impl Verified {
    pub(super) fn without_password(user: User) -> Self {
        Self { user, password: None }
    }
}

impl fmt::Debug for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verified").field("user", &self.user.id).finish_non_exhaustive()
    }
}

/// Watches one session. It sees every end from its creation on.
#[derive(Debug)]
pub struct SessionWatch {
    store: Store,
    session: String,
    ended: watch::Receiver<()>,
}

impl People {
    /// Begins a session, and returns the secret of its cookie. `agent` is what the browser calls itself.
    ///
    /// # Errors
    /// [`Error::WrongPassword`] if the password was changed or the account disabled since the user was verified.
    pub async fn begin_session(&self, who: &Verified, agent: Option<&str>) -> Result<Secret> {
        let secret = Secret::generate()?;
        let agent: Option<String> = agent.map(|agent| agent.chars().take(MAX_AGENT_CHARS).collect());
        let Verified { user, password } = who;
        let password = password.as_deref();
        let new = NewSession { user: &user.id, hash: secret.hash(), agent: agent.as_deref(), password };
        if self.store.begin_session(new).await? { Ok(secret) } else { Err(Error::WrongPassword) }
    }

    /// Returns who is signed in with the secret of a cookie, and a watch over the session.
    pub async fn use_session(&self, secret: &str) -> Result<Option<(SignedIn, SessionWatch)>> {
        let hash = SecretHash::of(secret);
        // Before the look, so that no end is missed.
        let ended = self.ended.subscribe();
        let found = self.store.use_session(hash).await?;
        Ok(found.map(|who| {
            let watch = SessionWatch { store: self.store.clone(), session: who.session.clone(), ended };
            (who, watch)
        }))
    }

    /// Returns a watch over a session of this id, which may have ended.
    pub fn watch_session(&self, session: String) -> SessionWatch {
        SessionWatch { store: self.store.clone(), session, ended: self.ended.subscribe() }
    }

    /// Returns a user's sessions, the last used first.
    pub async fn sessions(&self, user: &UserId) -> Result<Vec<Session>> {
        Ok(self.store.sessions(user).await?)
    }

    /// Ends one session of a user, with its requests in progress.
    pub async fn end_session(&self, user: &UserId, session: &str) -> Result<()> {
        let was_there = self.store.end_session(user, session).await?;
        self.ended.send_replace(());
        if was_there { Ok(()) } else { Err(Error::NotFound { what: "session" }) }
    }

    /// Ends all sessions of a user, with their requests in progress.
    pub async fn end_sessions(&self, user: &UserId) -> Result<()> {
        self.store.end_sessions(user).await?;
        self.ended.send_replace(());
        Ok(())
    }
}

impl SessionWatch {
    /// Waits for the end of the session. Another process may end it, so the store is read at intervals too. A failure
    /// of the store does not count as an end.
    pub async fn ended(mut self) {
        loop {
            if let Ok(Err(_)) = timeout(SESSION_CHECK, self.ended.changed()).await {
                // The app has stopped.
                return;
            }
            match self.store.has_session(&self.session).await {
                Ok(false) => return,
                Ok(true) => {}
                Err(error) => tracing::warn!(%error, "a session could not be checked"),
            }
        }
    }
}
