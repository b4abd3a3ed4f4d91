//! Changes of the database, one at a time and atomic.
//!
//! A failed change drops its connection. On a full disk, SQLite may or may not end the transaction. Further use
//! of the connection might hold the lock of a transaction that never ends.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::error::Error;

/// The writing connection. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    options: Arc<SqliteConnectOptions>,
    /// `None` before the first change, and after a failed one.
    connection: Arc<Mutex<Option<SqliteConnection>>>,
}

/// A running change. Without a commit it is rolled back.
#[derive(Debug)]
pub(super) struct Change {
    connection: SqliteConnection,
    slot: OwnedMutexGuard<Option<SqliteConnection>>,
}

impl Writer {
    pub(super) fn new(options: SqliteConnectOptions) -> Self {
        Self { options: Arc::new(options), connection: Arc::default() }
    }

    /// Waits for the previous change, and starts one.
    pub(super) async fn begin(&self) -> Result<Change, Error> {
        let mut slot = Arc::clone(&self.connection).lock_owned().await;
        let mut connection = match slot.take() {
            Some(connection) => connection,
            None => self.options.connect().await?,
        };
        sqlx::query("BEGIN IMMEDIATE").execute(&mut connection).await?;
        Ok(Change { connection, slot })
    }
}

impl Change {
    /// Commits the change.
    pub(super) async fn commit(mut self) -> Result<(), Error> {
        sqlx::query("COMMIT").execute(&mut self.connection).await?;
        *self.slot = Some(self.connection);
        Ok(())
    }
}

impl Deref for Change {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.connection
    }
}

impl DerefMut for Change {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }
}
