//! Stored chats and accounts, in one SQLite database in the state directory. The store makes no decisions.

mod backup;
mod change;
mod chat;
mod chats;
mod error;
#[cfg(test)]
mod full_disk;
mod invitations;
mod row;
mod sessions;
mod turns;
#[cfg(test)]
mod upgrade;
mod users;

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{SqlSafeStr, SqlitePool};

use self::change::Writer;
pub use self::chat::Chat;
pub use self::chats::{ChatPage, NewTurn, OwnedChats, Removal};
pub use self::error::Error;
pub use self::invitations::{NewInvitation, NewMember};
pub use self::sessions::NewSession;
pub use self::turns::OpenTurn;
pub use self::users::{NewUser, UserChange};

/// Maximum time that a call waits for another one's write.
const BUSY: Duration = Duration::from_secs(5);

/// Number of reading connections. One more writes.
const READERS: u32 = 4;

/// The open store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    /// Reading connections.
    pool: SqlitePool,
    writer: Writer,
}

impl Store {
    /// Opens or creates `chat.db` in an existing directory. Copies one of an earlier version first, and changes its tables.
    pub async fn open(state_dir: &Path) -> Result<Self, Error> {
        let file = state_dir.join("chat.db");
        let options = options(&file)?.create_if_missing(true);
        let pool = connect(&options).await?;
        let migrations = migrations();
        backup::copy_older(&pool, &file, &migrations).await?;
        migrations.run(&pool).await?;
        Ok(Self { pool, writer: Writer::new(options) })
    }

    /// Opens `chat.db` beside a running server.
    ///
    /// # Errors
    /// [`Error::OtherVersion`] if the tables are not those of this version: a server of another version may use them.
    pub async fn open_beside(state_dir: &Path) -> Result<Self, Error> {
        let options = options(&state_dir.join("chat.db"))?;
        let pool = connect(&options).await?;
        let newest = migrations().iter().map(|migration| migration.version).max();
        if backup::version(&pool).await? != newest {
            return Err(Error::OtherVersion);
        }
        Ok(Self { pool, writer: Writer::new(options) })
    }
}

fn options(file: &Path) -> Result<SqliteConnectOptions, Error> {
    let options = SqliteConnectOptions::from_str("sqlite:")?.filename(file);
    let options = options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Normal);
    Ok(options.foreign_keys(true).busy_timeout(BUSY))
}

async fn connect(options: &SqliteConnectOptions) -> Result<SqlitePool, Error> {
    Ok(SqlitePoolOptions::new().max_connections(READERS).connect_with(options.clone()).await?)
}

/// The files in `migrations`. Databases have a checksum of each, so they never change.
fn migrations() -> Migrator {
    let migration = |version, name: &'static str, sql: &'static str| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(vec![
        migration(1, "chats", include_str!("../../migrations/0001_chats.sql")),
        migration(2, "users", include_str!("../../migrations/0002_users.sql")),
        migration(3, "turns", include_str!("../../migrations/0003_turns.sql")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_migration_file_is_listed() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations");
        let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let found: Vec<_> = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
        let migrations = migrations();
        assert_eq!(migrations.iter().map(|migration| migration.sql.as_str()).collect::<Vec<_>>(), found);
    }
}
