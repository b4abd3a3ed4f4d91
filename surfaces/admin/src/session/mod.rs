//! Sessions of browsers that have signed in.
//!
//! They are in memory only, so they end with the daemon. A session holds the token that it was begun with, and every
//! page asks the daemon's API with it: a token that is revoked or has expired ends its sessions with the next request.

pub(crate) mod cookie;
mod secret;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use secrecy::{ExposeSecret, SecretString};
use tokio::time::Instant;

use crate::limits::{AGE, IDLE, MAX_SENT_FORMS, MAX_SESSIONS, MAX_SESSIONS_OF_TOKEN};

use secret::Digested;
pub(crate) use secret::Secret;

/// The open sessions. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sessions(Arc<Mutex<HashMap<Digested, Open>>>);

/// A session, for one request.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    id: Digested,
    token: Arc<SecretString>,
    csrf: Secret,
}

/// What is kept of a session.
#[derive(Debug)]
struct Open {
    token: Arc<SecretString>,
    of_token: Digested,
    csrf: Secret,
    /// Numbers of the forms that were sent, the oldest first.
    sent: VecDeque<Digested>,
    began: Instant,
    used: Instant,
}

impl Sessions {
    /// Begins a session. Returns the value of its cookie.
    pub(crate) fn begin(&self, token: SecretString) -> Result<Secret, getrandom::Error> {
        let (secret, csrf) = (Secret::random()?, Secret::random()?);
        let now = Instant::now();
        let of_token = Digested::of(token.expose_secret());
        let open =
            Open { token: Arc::new(token), of_token, csrf, sent: VecDeque::new(), began: now, used: now };
        let mut all = self.lock();
        all.retain(|_, open| !open.has_ended(now));
        if all.values().filter(|open| open.of_token == of_token).count() >= MAX_SESSIONS_OF_TOKEN {
            end_least_recent(&mut all, |open| open.of_token == of_token);
        }
        if all.len() >= MAX_SESSIONS {
            end_least_recent(&mut all, |_| true);
        }
        all.insert(secret.digest(), open);
        Ok(secret)
    }

    /// Returns the session of a cookie, which counts as use.
    pub(crate) fn find(&self, cookie: &str) -> Option<Session> {
        let (id, now) = (Digested::of(cookie), Instant::now());
        let mut all = self.lock();
        if all.get(&id)?.has_ended(now) {
            all.remove(&id);
            return None;
        }
        let open = all.get_mut(&id)?;
        open.used = now;
        Some(Session { id, token: Arc::clone(&open.token), csrf: open.csrf.clone() })
    }

    /// Ends a session.
    pub(crate) fn end(&self, session: &Session) {
        self.lock().remove(&session.id);
    }

    /// Notes that a form was sent. Returns false if it was sent before, or the session has ended.
    pub(crate) fn send_once(&self, session: &Session, form: &str) -> bool {
        let mut all = self.lock();
        let Some(open) = all.get_mut(&session.id) else { return false };
        let form = Digested::of(form);
        if open.sent.contains(&form) {
            return false;
        }
        if open.sent.len() >= MAX_SENT_FORMS {
            open.sent.pop_front();
        }
        open.sent.push_back(form);
        true
    }

    /// Forgets that a form was sent, because it has done nothing.
    pub(crate) fn forget_sent(&self, session: &Session, form: &str) {
        if let Some(open) = self.lock().get_mut(&session.id) {
            let form = Digested::of(form);
            open.sent.retain(|sent| *sent != form);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digested, Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    /// The token that the session was begun with.
    pub(crate) fn token(&self) -> &str {
        self.token.expose_secret()
    }

    /// What a form of the session must contain. Pages of other origins cannot read it.
    pub(crate) fn csrf(&self) -> &Secret {
        &self.csrf
    }
}

impl Open {
    fn has_ended(&self, now: Instant) -> bool {
        now.duration_since(self.used) >= IDLE || now.duration_since(self.began) >= AGE
    }
}

fn end_least_recent(all: &mut HashMap<Digested, Open>, among: impl Fn(&Open) -> bool) {
    let candidates = all.iter().filter(|(_, open)| among(open));
    if let Some(id) = candidates.min_by_key(|(_, open)| open.used).map(|(id, _)| *id) {
        all.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn begin(sessions: &Sessions, token: &str) -> String {
        sessions.begin(token.into()).unwrap().expose().to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_when_it_is_not_used_and_when_it_is_old() {
        let sessions = Sessions::default();
        let cookie = begin(&sessions, "t");
        assert_eq!(sessions.find(&cookie).unwrap().token(), "t");
        advance(IDLE - SECOND).await;
        assert!(sessions.find(&cookie).is_some());
        advance(IDLE).await;
        assert!(sessions.find(&cookie).is_none());
        assert!(sessions.lock().is_empty(), "its token is forgotten");

        let (cookie, began) = (begin(&sessions, "t"), Instant::now());
        while began.elapsed() + IDLE - SECOND < AGE {
            advance(IDLE - SECOND).await;
            assert!(sessions.find(&cookie).is_some());
        }
        advance(AGE - began.elapsed()).await;
        assert!(sessions.find(&cookie).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_sessions_of_one_token_do_not_end_those_of_others() {
        let sessions = Sessions::default();
        let other = begin(&sessions, "other");
        let mut cookies = Vec::new();
        for _ in 0..MAX_SESSIONS_OF_TOKEN {
            advance(SECOND).await;
            cookies.push(begin(&sessions, "t"));
        }
        advance(SECOND).await;
        assert!(sessions.find(&cookies[0]).is_some());
        advance(SECOND).await;
        begin(&sessions, "t");
        assert!(sessions.find(&cookies[1]).is_none(), "the one that was used least recently");
        assert!(sessions.find(&cookies[0]).is_some() && sessions.find(&other).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_sessions_is_bounded() {
        let sessions = Sessions::default();
        let first = begin(&sessions, "0");
        for number in 1..=MAX_SESSIONS {
            advance(Duration::from_millis(1)).await;
            begin(&sessions, &number.to_string());
        }
        assert_eq!(sessions.lock().len(), MAX_SESSIONS);
        assert!(sessions.find(&first).is_none());
    }

    #[test]
    fn an_ended_session_is_not_found() {
        let sessions = Sessions::default();
        let cookie = begin(&sessions, "t");
        let session = sessions.find(&cookie).unwrap();
        sessions.end(&session);
        assert!(sessions.find(&cookie).is_none() && sessions.find("").is_none());
        assert!(!sessions.send_once(&session, "1"));
    }

    #[test]
    fn a_form_is_sent_once_and_the_memory_of_forms_is_bounded() {
        let sessions = Sessions::default();
        let cookie = begin(&sessions, "t");
        let session = sessions.find(&cookie).unwrap();
        assert!(sessions.send_once(&session, "a") && !sessions.send_once(&session, "a"));
        sessions.forget_sent(&session, "a");
        assert!(sessions.send_once(&session, "a"));
        for number in 0..2 * MAX_SENT_FORMS {
            assert!(sessions.send_once(&session, &number.to_string()));
        }
        let all = sessions.lock();
        assert_eq!(all.values().next().unwrap().sent.len(), MAX_SENT_FORMS);
    }
}
