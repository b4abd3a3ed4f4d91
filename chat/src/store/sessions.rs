//! Sessions of users.

use std::time::Duration;

use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row};
use uuid::Uuid;

use super::Store;
use super::error::Error;
use super::row::time;
use super::users::{USER, UserRow, end_sessions};
use crate::account::limits::{MAX_SESSIONS, SESSION_AGE, SESSION_IDLE, USE_PRECISION};
use crate::account::{SecretHash, Session, SignedIn, UserId};

/// A new session.
#[derive(Debug, Clone, Copy)]
pub struct NewSession<'a> {
    /// The user.
    pub user: &'a UserId,
    /// Hash of the cookie's secret.
    pub hash: SecretHash,
    /// What the browser calls itself, if it does.
    pub agent: Option<&'a str>,
    /// Hash of the password that was verified. `None` if the user was authenticated in another way.
    pub password: Option<&'a str>,
}

impl Store {
    /// Begins a session, unless the account was disabled or its password changed since the user was verified. Returns whether
    /// it did. If the user has too many, the one that is unused longest ends. Expired ones are removed.
    pub async fn begin_session(&self, new: NewSession<'_>) -> Result<bool, Error> {
        let mut change = self.writer.begin().await?;
        let now = Timestamp::now().as_millisecond();
        let expired = sqlx::query("DELETE FROM sessions WHERE created_at <= ? OR used_at <= ?");
        let expired = expired.bind(before(now, SESSION_AGE)).bind(before(now, SESSION_IDLE));
        expired.execute(&mut *change).await?;
        let excess = sqlx::query(
            "DELETE FROM sessions WHERE id IN
                 (SELECT id FROM sessions WHERE user = ? ORDER BY used_at DESC, created_at DESC LIMIT -1 OFFSET ?)",
        );
        excess.bind(new.user.as_str()).bind(MAX_SESSIONS - 1).execute(&mut *change).await?;
        let insert = "INSERT INTO sessions (id, token_hash, user, agent, created_at, used_at)
             SELECT ?1, ?2, id, ?4, ?5, ?5 FROM users
             WHERE id = ?3 AND disabled_at IS NULL AND (?6 IS NULL OR password = ?6)";
        let insert = sqlx::query(insert).bind(format!("ses_{}", Uuid::new_v4().simple()));
        let insert = insert.bind(new.hash.as_bytes()).bind(new.user.as_str()).bind(new.agent).bind(now);
        let begun = insert.bind(new.password).execute(&mut *change).await?.rows_affected();
        change.commit().await?;
        Ok(begun > 0)
    }

    /// Returns who is signed in with a secret, unless the session has ended or its account is disabled. Notes the use.
    pub async fn use_session(&self, hash: SecretHash) -> Result<Option<SignedIn>, Error> {
        let now = Timestamp::now().as_millisecond();
        let Some((found, used_at)) = self.session_at(hash, now).await? else { return Ok(None) };
        // On a full disk, users still read their chats.
        if used_at <= before(now, USE_PRECISION)
            && let Err(error) = self.note_use(hash, now).await
        {
            tracing::warn!(%error, cause = ?std::error::Error::source(&error), "the use of a session was not stored");
        }
        Ok(Some(found))
    }

    async fn note_use(&self, hash: SecretHash, now: i64) -> Result<(), Error> {
        let mut change = self.writer.begin().await?;
        let update = sqlx::query("UPDATE sessions SET used_at = ? WHERE token_hash = ?");
        update.bind(now).bind(hash.as_bytes()).execute(&mut *change).await?;
        change.commit().await
    }

    /// Whether a session of this id still exists and its account is not disabled. Notes no use.
    pub async fn has_session(&self, session: &str) -> Result<bool, Error> {
        let now = Timestamp::now().as_millisecond();
        let select = sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM sessions s JOIN users u ON u.id = s.user
             WHERE s.id = ? AND s.created_at > ? AND s.used_at > ? AND u.disabled_at IS NULL)",
        );
        let select = select.bind(session).bind(before(now, SESSION_AGE)).bind(before(now, SESSION_IDLE));
        Ok(select.fetch_one(&self.pool).await?)
    }

    async fn session_at(&self, hash: SecretHash, now: i64) -> Result<Option<(SignedIn, i64)>, Error> {
        let select = format!(
            "SELECT {USER}, s.id AS session, s.used_at FROM sessions s JOIN users u ON u.id = s.user
             WHERE s.token_hash = ? AND s.created_at > ? AND s.used_at > ? AND u.disabled_at IS NULL"
        );
        let select = sqlx::query(sqlx::AssertSqlSafe(select)).bind(hash.as_bytes());
        let select = select.bind(before(now, SESSION_AGE)).bind(before(now, SESSION_IDLE));
        let Some(row) = select.fetch_optional(&self.pool).await? else { return Ok(None) };
        let user = UserRow::from_row(&row)?.try_into()?;
        Ok(Some((SignedIn { session: row.try_get("session")?, user }, row.try_get("used_at")?)))
    }

    /// Returns a user's sessions, the last used first.
    pub async fn sessions(&self, user: &UserId) -> Result<Vec<Session>, Error> {
        let now = Timestamp::now().as_millisecond();
        let select = sqlx::query_as(
            "SELECT id, agent, created_at, used_at FROM sessions
             WHERE user = ? AND created_at > ? AND used_at > ? ORDER BY used_at DESC, id",
        );
        let select = select.bind(user.as_str());
        let select = select.bind(before(now, SESSION_AGE)).bind(before(now, SESSION_IDLE));
        let rows: Vec<SessionRow> = select.fetch_all(&self.pool).await?;
        Ok(rows.into_iter().map(|row| row.0).collect())
    }

    /// Ends one session of a user. Returns whether there was one.
    pub async fn end_session(&self, user: &UserId, session: &str) -> Result<bool, Error> {
        let mut change = self.writer.begin().await?;
        let delete = sqlx::query("DELETE FROM sessions WHERE user = ? AND id = ?");
        let ended = delete.bind(user.as_str()).bind(session).execute(&mut *change).await?.rows_affected();
        change.commit().await?;
        Ok(ended > 0)
    }

    /// Ends all sessions of a user.
    pub async fn end_sessions(&self, user: &UserId) -> Result<(), Error> {
        let mut change = self.writer.begin().await?;
        end_sessions(&mut change, user, None).await?;
        change.commit().await
    }
}

fn before(now: i64, span: Duration) -> i64 {
    now.saturating_sub(i64::try_from(span.as_millis()).unwrap_or(i64::MAX))
}

struct SessionRow(Session);

impl FromRow<'_, SqliteRow> for SessionRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self(Session {
            id: row.try_get("id")?,
            agent: row.try_get("agent")?,
            created_at: time(row.try_get("created_at")?),
            used_at: time(row.try_get("used_at")?),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NewUser, UserChange};
    use super::*;
    use crate::account::Role;

    async fn store() -> (Store, UserId, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).await.unwrap();
        let name = &"ann".parse().unwrap();
        let new = NewUser { name, role: Role::Admin, password: None, identity: None };
        let user = store.add_user(new).await.unwrap().id;
        (store, user, dir)
    }

    async fn begin(store: &Store, user: &UserId, secret: &str) -> SecretHash {
        let hash = SecretHash::of(secret);
        assert!(store.begin_session(NewSession { user, hash, agent: None, password: None }).await.unwrap());
        hash
    }

    /// Sets the times of a session, by how long ago they are.
    async fn set(store: &Store, hash: SecretHash, created: Duration, used: Duration) {
        let now = Timestamp::now().as_millisecond();
        let update = sqlx::query("UPDATE sessions SET created_at = ?, used_at = ? WHERE token_hash = ?");
        let update = update.bind(before(now, created)).bind(before(now, used)).bind(hash.as_bytes());
        update.execute(&store.pool).await.unwrap();
    }

    async fn is_there(store: &Store, hash: SecretHash) -> bool {
        let select = sqlx::query_scalar("SELECT id FROM sessions WHERE token_hash = ?").bind(hash.as_bytes());
        let id: Option<String> = select.fetch_optional(&store.pool).await.unwrap();
        match id {
            Some(id) => store.has_session(&id).await.unwrap(),
            None => false,
        }
    }

    #[tokio::test]
    async fn a_session_ends_when_it_is_unused_or_old() {
        let (store, user, _dir) = store().await;
        let minute = Duration::from_secs(60);
        for (created, used, lasts) in [
            (SESSION_AGE - minute, Duration::ZERO, true),
            (SESSION_AGE, Duration::ZERO, false),
            (SESSION_IDLE, SESSION_IDLE - minute, true),
            (SESSION_IDLE, SESSION_IDLE, false),
        ] {
            let hash = begin(&store, &user, "secret").await;
            set(&store, hash, created, used).await;
            assert_eq!(store.sessions(&user).await.unwrap().len(), usize::from(lasts));
            assert_eq!(is_there(&store, hash).await, lasts, "{created:?} {used:?}");
            assert_eq!(store.use_session(hash).await.unwrap().is_some(), lasts);
            store.end_sessions(&user).await.unwrap();
        }
        let hash = begin(&store, &user, "secret").await;
        set(&store, hash, SESSION_IDLE, SESSION_IDLE - minute).await;
        store.use_session(hash).await.unwrap().unwrap();
        let used_at = store.sessions(&user).await.unwrap()[0].used_at;
        assert!(Timestamp::now().duration_since(used_at).as_secs() < 60, "its use is noted");
    }

    /// A password is verified before the session begins, and either may be too late then.
    #[tokio::test]
    async fn no_session_begins_after_a_reset_or_for_a_disabled_account() {
        let (store, user, _dir) = store().await;
        let begin = async |password| {
            let new = NewSession { user: &user, hash: SecretHash::of("secret"), agent: None, password };
            let begun = store.begin_session(new).await.unwrap();
            store.end_sessions(&user).await.unwrap();
            begun
        };
        store.set_password(&user, "old hash", None).await.unwrap();
        assert!(begin(Some("old hash")).await);
        store.set_password(&user, "new hash", None).await.unwrap();
        assert!(!begin(Some("old hash")).await);
        assert!(begin(Some("new hash")).await && begin(None).await);
        let bob = &"bob".parse().unwrap();
        let bob = NewUser { name: bob, role: Role::Admin, password: None, identity: None };
        store.add_user(bob).await.unwrap();
        let disable = UserChange { role: None, is_disabled: Some(true) };
        store.change_user(&user, disable).await.unwrap();
        assert!(!begin(Some("new hash")).await && !begin(None).await);
    }

    #[tokio::test]
    async fn the_session_that_is_unused_longest_makes_room() {
        let (store, user, _dir) = store().await;
        let first = begin(&store, &user, "first").await;
        let second = begin(&store, &user, "second").await;
        set(&store, second, SESSION_IDLE, SESSION_IDLE / 2).await;
        for n in 2..=MAX_SESSIONS {
            begin(&store, &user, &n.to_string()).await;
        }
        assert_eq!(store.sessions(&user).await.unwrap().len(), MAX_SESSIONS as usize);
        assert!(is_there(&store, first).await && !is_there(&store, second).await);
    }
}
