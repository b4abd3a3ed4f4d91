//! Invitations.

use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row};
use uuid::Uuid;

use super::Store;
use super::error::Error;
use super::row::time;
use super::users::{NewUser, insert};
use crate::account::limits::{INVITATION_AGE, MAX_INVITATIONS};
use crate::account::{Invitation, Role, SecretHash, User, UserId, UserName};

/// A new invitation.
#[derive(Debug, Clone, Copy)]
pub struct NewInvitation<'a> {
    /// Hash of the link's secret.
    pub hash: SecretHash,
    /// Role of the new account.
    pub role: Role,
    /// The admin who makes it.
    pub created_by: &'a UserId,
}

/// Who accepts an invitation.
#[derive(Debug, Clone, Copy)]
pub struct NewMember<'a> {
    /// Name of the account.
    pub name: &'a UserName,
    /// Hash of its password, in PHC form.
    pub password: Option<&'a str>,
    /// Issuer and subject of an account at an identity provider.
    pub identity: Option<(&'a str, &'a str)>,
}

/// Invitations that count: not expired, of a user who is still an admin.
const OPEN: &str = "i.expires_at > ? AND EXISTS
     (SELECT 1 FROM users u WHERE u.id = i.created_by AND u.role = 'admin' AND u.disabled_at IS NULL)";

impl Store {
    /// Makes an invitation, and removes expired ones.
    pub async fn invite(&self, new: NewInvitation<'_>) -> Result<Invitation, Error> {
        let mut change = self.writer.begin().await?;
        let now = Timestamp::now().as_millisecond();
        sqlx::query("DELETE FROM invitations WHERE expires_at <= ?").bind(now).execute(&mut *change).await?;
        let count = sqlx::query_scalar("SELECT COUNT(*) FROM invitations");
        if count.fetch_one(&mut *change).await.map(|count: u32| count >= MAX_INVITATIONS)? {
            return Err(Error::Full { what: "invitations", limit: MAX_INVITATIONS });
        }
        let id = format!("inv_{}", Uuid::new_v4().simple());
        let age = i64::try_from(INVITATION_AGE.as_millis()).unwrap_or(i64::MAX);
        let insert = sqlx::query(
            "INSERT INTO invitations (id, token_hash, role, created_by, created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?)",
        );
        let insert = insert.bind(&id).bind(new.hash.as_bytes()).bind(new.role.name());
        let insert = insert.bind(new.created_by.as_str()).bind(now).bind(now.saturating_add(age));
        insert.execute(&mut *change).await?;
        let select = sqlx::query_as(
            "SELECT i.id, i.role, u.name, i.created_at, i.expires_at
             FROM invitations i JOIN users u ON u.id = i.created_by WHERE i.id = ?",
        );
        let row: InvitationRow = select.bind(&id).fetch_one(&mut *change).await?;
        change.commit().await?;
        row.try_into()
    }

    /// Returns the open invitations, the newest first.
    pub async fn invitations(&self) -> Result<Vec<Invitation>, Error> {
        let select = format!(
            "SELECT i.id, i.role, n.name, i.created_at, i.expires_at
             FROM invitations i JOIN users n ON n.id = i.created_by WHERE {OPEN} ORDER BY i.created_at DESC, i.id"
        );
        let select = sqlx::query_as(sqlx::AssertSqlSafe(select)).bind(Timestamp::now().as_millisecond());
        let rows: Vec<InvitationRow> = select.fetch_all(&self.pool).await?;
        rows.into_iter().map(Invitation::try_from).collect()
    }

    /// Removes an invitation. Returns whether there was one.
    pub async fn withdraw(&self, id: &str) -> Result<bool, Error> {
        let mut change = self.writer.begin().await?;
        let delete = sqlx::query("DELETE FROM invitations WHERE id = ?").bind(id);
        let removed = delete.execute(&mut *change).await?.rows_affected() > 0;
        change.commit().await?;
        Ok(removed)
    }

    /// Whether the secret is that of an open invitation.
    pub async fn has_invitation(&self, hash: SecretHash) -> Result<bool, Error> {
        let select = format!("SELECT EXISTS (SELECT 1 FROM invitations i WHERE i.token_hash = ? AND {OPEN})");
        let select = sqlx::query_scalar(sqlx::AssertSqlSafe(select)).bind(hash.as_bytes());
        Ok(select.bind(Timestamp::now().as_millisecond()).fetch_one(&self.pool).await?)
    }

    /// Uses up an invitation and adds the account, both or neither. Returns `None` if the invitation is not open.
    pub async fn accept(&self, hash: SecretHash, member: NewMember<'_>) -> Result<Option<User>, Error> {
        let mut change = self.writer.begin().await?;
        let delete = format!(
            "DELETE FROM invitations WHERE id IN (SELECT i.id FROM invitations i WHERE i.token_hash = ? AND {OPEN})
             RETURNING role"
        );
        let delete = sqlx::query_scalar(sqlx::AssertSqlSafe(delete)).bind(hash.as_bytes());
        let delete = delete.bind(Timestamp::now().as_millisecond());
        let role: Option<String> = delete.fetch_optional(&mut *change).await?;
        let Some(role) = role else { return Ok(None) };
        let NewMember { name, password, identity } = member;
        let role = Role::of_name(&role).ok_or(Error::BadAccount)?;
        let user = insert(&mut change, NewUser { name, role, password, identity }).await?;
        change.commit().await?;
        Ok(Some(user))
    }
}

struct InvitationRow {
    id: String,
    role: String,
    created_by: String,
    created_at: i64,
    expires_at: i64,
}

impl FromRow<'_, SqliteRow> for InvitationRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            role: row.try_get("role")?,
            created_by: row.try_get("name")?,
            created_at: row.try_get("created_at")?,
            expires_at: row.try_get("expires_at")?,
        })
    }
}

impl TryFrom<InvitationRow> for Invitation {
    type Error = Error;

    fn try_from(row: InvitationRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id,
            role: Role::of_name(&row.role).ok_or(Error::BadAccount)?,
            created_by: row.created_by.parse().map_err(|_| Error::BadAccount)?,
            created_at: time(row.created_at),
            expires_at: time(row.expires_at),
        })
    }
}
