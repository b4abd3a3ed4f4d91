//! One change of the database at a time, all of it or nothing.
//!
//! A change that fails takes its connection with it. Where the disk is full SQLite ends the transaction by itself or does not, and
//! who goes on with the connection may hold the lock of a transaction that nobody ends.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::Error;

/// Who changes the database. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    options: Arc<SqliteConnectOptions>,
    /// None until somebody needs it, and after a change that failed.
    connection: Arc<Mutex<Option<SqliteConnection>>>,
}

/// A change under way. Without its commit nothing of it is kept.
#[derive(Debug)]
pub(super) struct Change {
    connection: SqliteConnection,
    place: OwnedMutexGuard<Option<SqliteConnection>>,
}

impl Writer {
    pub(super) fn new(options: SqliteConnectOptions) -> Self {
        Self { options: Arc::new(options), connection: Arc::default() }
    }

    /// Waits for the change before it.
    pub(super) async fn begin(&self) -> Result<Change, Error> {
        let mut place = Arc::clone(&self.connection).lock_owned().await;
        let mut connection = match place.take() {
            Some(connection) => connection,
            None => self.options.connect().await?,
        };
        sqlx::query("BEGIN IMMEDIATE").execute(&mut connection).await?;
        Ok(Change { connection, place })
    }
}

impl Change {
    /// Keeps it.
    pub(super) async fn commit(mut self) -> Result<(), Error> {
        sqlx::query("COMMIT").execute(&mut self.connection).await?;
        *self.place = Some(self.connection);
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
