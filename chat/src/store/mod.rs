//! Stored chats, in one SQLite database in the state directory. The store makes no decisions.

mod change;
mod chat;
mod chats;
mod error;
#[cfg(test)]
mod full_disk;
mod row;

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{SqlSafeStr, SqlitePool};

use self::change::Writer;
pub use self::chat::Chat;
pub use self::chats::{ChatPage, NewTurn, Removal};
pub use self::error::Error;

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
    /// Opens or creates `chat.db` in an existing directory.
    pub async fn open(state_dir: &Path) -> Result<Self, Error> {
        let file = state_dir.join("chat.db");
        let options = SqliteConnectOptions::from_str("sqlite:")?
            .filename(file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .foreign_keys(true)
            .busy_timeout(BUSY);
        let pool = SqlitePoolOptions::new().max_connections(READERS).connect_with(options.clone()).await?;
        migrations().run(&pool).await?;
        Ok(Self { pool, writer: Writer::new(options) })
    }
}

/// The files in `migrations`. Databases have a checksum of each, so they never change.
fn migrations() -> Migrator {
    let chats = include_str!("../../migrations/0001_chats.sql").into_sql_str();
    Migrator::with_migrations(vec![Migration::new(1, "chats".into(), MigrationType::Simple, chats, false)])
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
