//! Accounts.

use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row, SqliteConnection};

use super::Store;
use super::error::Error;
use super::row::time;
use crate::account::limits::MAX_USERS;
use crate::account::{Role, User, UserId, UserName};

/// A new account.
#[derive(Debug, Clone, Copy)]
pub struct NewUser<'a> {
    /// Name.
    pub name: &'a UserName,
    /// Role.
    pub role: Role,
    /// Hash of the password, in PHC form.
    pub password: Option<&'a str>,
    /// Issuer and subject of an account at an identity provider.
    pub identity: Option<(&'a str, &'a str)>,
}

/// Changes of an account by an admin.
#[derive(Debug, Clone, Copy, Default)]
pub struct UserChange {
    /// New role, if it changes.
    pub role: Option<Role>,
    /// Whether the account is disabled, if that changes.
    pub is_disabled: Option<bool>,
}

pub(super) const USER: &str =
    "u.id, u.name, u.role, u.password IS NOT NULL AS has_password, u.created_at, u.disabled_at";

impl Store {
    /// Whether the app has accounts. Disabled ones count, so that an app never opens by itself.
    pub async fn has_users(&self) -> Result<bool, Error> {
        Ok(sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM users)").fetch_one(&self.pool).await?)
    }

    /// Returns all accounts by name.
    pub async fn users(&self) -> Result<Vec<User>, Error> {
        let select = format!("SELECT {USER} FROM users u ORDER BY u.name");
        let rows: Vec<UserRow> = sqlx::query_as(sqlx::AssertSqlSafe(select)).fetch_all(&self.pool).await?;
        rows.into_iter().map(User::try_from).collect()
    }

    /// Returns an account.
    pub async fn user(&self, id: &UserId) -> Result<Option<User>, Error> {
        let mut conn = self.pool.acquire().await?;
        user(&mut conn, id).await
    }

    /// Returns the account of a name, also if it is disabled, and the hash of its password.
    pub async fn user_by_name(&self, name: &UserName) -> Result<Option<(User, Option<String>)>, Error> {
        let select = format!("SELECT {USER}, u.password FROM users u WHERE u.name = ?");
        let select = sqlx::query(sqlx::AssertSqlSafe(select)).bind(name.as_str());
        let Some(row) = select.fetch_optional(&self.pool).await? else { return Ok(None) };
        let password = row.try_get("password")?;
        Ok(Some((UserRow::from_row(&row)?.try_into()?, password)))
    }

    /// Returns the account of an identity, also if it is disabled.
    pub async fn user_by_identity(&self, issuer: &str, subject: &str) -> Result<Option<User>, Error> {
        let select = format!("SELECT {USER} FROM users u WHERE u.issuer = ? AND u.subject = ?");
        let select = sqlx::query_as(sqlx::AssertSqlSafe(select)).bind(issuer).bind(subject);
        let row: Option<UserRow> = select.fetch_optional(&self.pool).await?;
        row.map(User::try_from).transpose()
    }

    /// Adds an account. The first one must be an admin, and gets the existing chats.
    pub async fn add_user(&self, new: NewUser<'_>) -> Result<User, Error> {
        let mut change = self.writer.begin().await?;
        let user = insert(&mut change, new).await?;
        change.commit().await?;
        Ok(user)
    }

    /// Changes an account. Returns `None` if it does not exist. A disabled one has no sessions.
    pub async fn change_user(&self, id: &UserId, what: UserChange) -> Result<Option<User>, Error> {
        let mut change = self.writer.begin().await?;
        let now = Timestamp::now().as_millisecond();
        let disabled_at = match what.is_disabled {
            Some(true) => "COALESCE(disabled_at, ?2)",
            Some(false) => "NULL",
            None => "disabled_at",
        };
        let update =
            format!("UPDATE users SET role = COALESCE(?1, role), disabled_at = {disabled_at} WHERE id = ?3");
        let update = sqlx::query(sqlx::AssertSqlSafe(update)).bind(what.role.map(Role::name)).bind(now);
        update.bind(id.as_str()).execute(&mut *change).await?;
        let Some(user) = user(&mut change, id).await? else { return Ok(None) };
        must_have_admin(&mut change).await?;
        if user.disabled_at.is_some() {
            end_sessions(&mut change, id, None).await?;
        }
        change.commit().await?;
        Ok(Some(user))
    }

    /// Sets the hash of an account's password, and ends its sessions except `kept`.
    pub async fn set_password(&self, id: &UserId, password: &str, kept: Option<&str>) -> Result<(), Error> {
        let mut change = self.writer.begin().await?;
        let update = sqlx::query("UPDATE users SET password = ? WHERE id = ?");
        update.bind(password).bind(id.as_str()).execute(&mut *change).await?;
        end_sessions(&mut change, id, kept).await?;
        change.commit().await
    }
}

/// Adds an account within a change.
pub(super) async fn insert(conn: &mut SqliteConnection, new: NewUser<'_>) -> Result<User, Error> {
    let count: u32 = sqlx::query_scalar("SELECT COUNT(*) FROM users").fetch_one(&mut *conn).await?;
    if count >= MAX_USERS {
        return Err(Error::Full { what: "accounts", limit: MAX_USERS });
    }
    let id = UserId::random();
    let (issuer, subject) = new.identity.unzip();
    let insert = sqlx::query(
        "INSERT INTO users (id, name, role, password, issuer, subject, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
    );
    let insert = insert.bind(id.as_str()).bind(new.name.as_str()).bind(new.role.name()).bind(new.password);
    let insert = insert.bind(issuer).bind(subject).bind(Timestamp::now().as_millisecond());
    insert.execute(&mut *conn).await.map_err(|error| match error.as_database_error() {
        Some(cause) if cause.is_unique_violation() => Error::NameTaken,
        _ => error.into(),
    })?;
    must_have_admin(conn).await?;
    if count == 0 {
        // Their sandboxes keep having no subject, so that they are found again.
        let adopt = sqlx::query("UPDATE chats SET owner = ? WHERE owner = ''");
        adopt.bind(id.as_str()).execute(&mut *conn).await?;
    }
    user(conn, &id).await?.ok_or(Error::BadAccount)
}

async fn must_have_admin(conn: &mut SqliteConnection) -> Result<(), Error> {
    let select = "SELECT EXISTS (SELECT 1 FROM users WHERE role = 'admin' AND disabled_at IS NULL)";
    match sqlx::query_scalar(select).fetch_one(conn).await? {
        true => Ok(()),
        false => Err(Error::NoAdmin),
    }
}

async fn user(conn: &mut SqliteConnection, id: &UserId) -> Result<Option<User>, Error> {
    let select = format!("SELECT {USER} FROM users u WHERE u.id = ?");
    let select = sqlx::query_as(sqlx::AssertSqlSafe(select)).bind(id.as_str());
    let row: Option<UserRow> = select.fetch_optional(conn).await?;
    row.map(User::try_from).transpose()
}

pub(super) async fn end_sessions(
    conn: &mut SqliteConnection,
    user: &UserId,
    kept: Option<&str>,
) -> Result<(), Error> {
    let delete = sqlx::query("DELETE FROM sessions WHERE user = ? AND id IS NOT ?");
    delete.bind(user.as_str()).bind(kept).execute(conn).await?;
    Ok(())
}

pub(super) struct UserRow {
    id: String,
    name: String,
    role: String,
    has_password: bool,
    created_at: i64,
    disabled_at: Option<i64>,
}

impl FromRow<'_, SqliteRow> for UserRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            name: row.try_get("name")?,
            role: row.try_get("role")?,
            has_password: row.try_get("has_password")?,
            created_at: row.try_get("created_at")?,
            disabled_at: row.try_get("disabled_at")?,
        })
    }
}

impl TryFrom<UserRow> for User {
    type Error = Error;

    fn try_from(row: UserRow) -> Result<Self, Error> {
        Ok(Self {
            id: row.id.parse().map_err(|_| Error::BadAccount)?,
            name: row.name.parse().map_err(|_| Error::BadAccount)?,
            role: Role::of_name(&row.role).ok_or(Error::BadAccount)?,
            has_password: row.has_password,
            created_at: time(row.created_at),
            disabled_at: row.disabled_at.map(time),
        })
    }
}
