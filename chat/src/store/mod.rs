//! The chats that are kept, in one SQLite database in the state dir. It decides nothing.

mod change;
mod chats;
#[cfg(test)]
mod full_disk;
mod row;

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use self::change::Writer;
pub use self::chats::{Chat, ChatPage, Cut, NewTurn};

/// Longest that a call waits for another one's write.
const BUSY: Duration = Duration::from_secs(5);

/// Connections that read; one more writes.
const READERS: u32 = 4;

/// The chats, open. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    /// To read.
    pool: SqlitePool,
    writer: Writer,
}

/// The store did not do it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// SQLite did not.
    #[error("the chats' database cannot be used")]
    Database(#[from] sqlx::Error),
    /// Its tables are of another version.
    #[error("the chats' database is not of this version")]
    Schema(#[from] sqlx::migrate::MigrateError),
    /// A message in it is none.
    #[error("a message in the chats' database cannot be read")]
    BadMessage(#[from] serde_json::Error),
}

impl Store {
    /// Opens or makes `chat.db` in a directory, which must exist.
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
        sqlx::migrate!().run(&pool).await?;
        Ok(Self { pool, writer: Writer::new(options) })
    }
}
