//! The file of a database and the connections to it: one that writes, a few that read.
//!
//! A connection that failed is discarded, because SQLite keeps some causes (a connection opened on a
//! read-only file system stays read-only). The next call opens a new one, so the store recovers once the cause
//! has gone.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::BoxFuture;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection, SqlitePool};
use tokio::time::timeout;
use tracing::{debug, warn};

use super::ballast;
use super::error::{Fault, from_io, from_sqlite};
use super::schema::Schema;
use crate::Error;
use sandboxd_model::limits;

/// Connections that read; a request reads for well under a millisecond.
const READERS: u32 = 2;

/// The wait for the one writer, and then the wait of SQLite for other programs: together [`limits::STORE_BUSY`].
const HALF_BUSY: Duration = limits::STORE_BUSY.checked_div(2).expect("two is not zero");

/// Work on a connection. Boxed, because the compiler cannot prove that the future of an async closure may move
/// between threads.
pub(super) type Work<'c, T> = BoxFuture<'c, Result<T, sqlx::Error>>;

/// What differs between databases.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tuning {
    /// Number of pages of 4 KiB that the log holds before they move into the database.
    pub(super) log_pages: &'static str,
    /// Memory of each connection for pages, in KiB.
    pub(super) cache_kib: &'static str,
    /// Time limit of a whole call.
    pub(super) call: Duration,
}

/// A database, open.
#[derive(Debug)]
pub(super) struct Connections {
    path: PathBuf,
    /// Device and inode, which show whether the file was moved away.
    identity: (u64, u64),
    call: Duration,
    writer: SqlitePool,
    readers: SqlitePool,
}

impl Connections {
    /// Opens or creates the file at `path`, and brings it to the schema.
    pub(super) async fn open(path: PathBuf, tuning: Tuning, schema: &Schema) -> Result<Self, Error> {
        let identity = make_private(&path).map_err(|error| from_io(&path, error))?;
        let options = options(&path, tuning);
        let mut first = options.connect().await.map_err(|error| from_sqlite(&path, error))?;
        schema.prepare(&mut first, &path).await?;
        let pool = |connections| {
            SqlitePoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(HALF_BUSY)
                .idle_timeout(None)
                .max_lifetime(None)
                .test_before_acquire(false)
                .connect_lazy_with(options.clone())
        };
        let opened = Self { identity, call: tuning.call, writer: pool(1), readers: pool(READERS), path };
        // If no connection is open, SQLite removes the log that others are about to use.
        opened.read(|conn| Box::pin(conn.ping())).await?;
        // A dropped connection is closed by a thread of its own, at some later time.
        if let Err(error) = first.close().await {
            debug!(error = &error as &dyn std::error::Error, "the first connection did not close");
        }
        Ok(opened)
    }

    /// Path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Runs `work` on a connection that reads.
    pub(super) async fn read<T>(
        &self,
        work: impl for<'c> FnOnce(&'c mut SqliteConnection) -> Work<'c, T>,
    ) -> Result<T, Error> {
        let call = async {
            let mut conn = self.readers.acquire().await?;
            let done = work(&mut conn).await;
            if done.as_ref().is_err_and(is_of_connection) {
                drop(conn.detach());
            }
            done
        };
        self.bounded(call).await
    }

    /// Runs `work` with `input` in one transaction. Fails if the file was moved away, and leaves the reserve on the disk that
    /// urgent writes need.
    pub(super) async fn write<I: ?Sized, T>(
        &self,
        input: &I,
        work: &impl for<'c> Fn(&'c mut SqliteConnection, &'c I) -> Work<'c, T>,
    ) -> Result<T, Error> {
        self.write_within(self.call, input, work).await
    }

    /// Like [`Self::write`], with another time limit than other calls have.
    pub(super) async fn write_within<I: ?Sized, T>(
        &self,
        limit: Duration,
        input: &I,
        work: &impl for<'c> Fn(&'c mut SqliteConnection, &'c I) -> Work<'c, T>,
    ) -> Result<T, Error> {
        self.check_usable()?;
        if ballast::is_reserved(&self.path) {
            return Err(from_io(&self.path, io::ErrorKind::StorageFull.into()));
        }
        self.bounded_by(limit, self.write_once(input, work)).await
    }

    /// Like [`Self::write`], and may use the reserve.
    pub(super) async fn write_with_reserve<I: ?Sized, T>(
        &self,
        input: &I,
        work: &impl for<'c> Fn(&'c mut SqliteConnection, &'c I) -> Work<'c, T>,
    ) -> Result<T, Error> {
        self.check_usable()?;
        self.write_unchecked(input, work).await
    }

    fn check_usable(&self) -> Result<(), Error> {
        // Checked first: a fault of the disk is worth waiting for, and a closed database is not.
        if self.writer.is_closed() {
            return Err(from_sqlite(&self.path, sqlx::Error::PoolClosed));
        }
        self.check_file()
    }

    /// Like [`Self::write`], without its checks.
    pub(super) async fn write_unchecked<I: ?Sized, T>(
        &self,
        input: &I,
        work: &impl for<'c> Fn(&'c mut SqliteConnection, &'c I) -> Work<'c, T>,
    ) -> Result<T, Error> {
        self.bounded(self.write_once(input, work)).await
    }

    async fn write_once<I: ?Sized, T>(
        &self,
        input: &I,
        work: &impl for<'c> Fn(&'c mut SqliteConnection, &'c I) -> Work<'c, T>,
    ) -> Result<T, sqlx::Error> {
        let mut conn = self.writer.acquire().await?;
        let done = in_transaction(&mut conn, input, work).await;
        if done.as_ref().is_err_and(is_of_connection) {
            drop(conn.detach());
        }
        done
    }

    async fn bounded<T>(&self, call: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, Error> {
        self.bounded_by(self.call, call).await
    }

    async fn bounded_by<T>(
        &self,
        limit: Duration,
        call: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, Error> {
        let done = timeout(limit, call).await.map_err(|_| Fault::Deadline { path: self.path.clone() })?;
        done.map_err(|error| from_sqlite(&self.path, error))
    }

    /// Fails if the file at the database's path is not the one that is open.
    fn check_file(&self) -> Result<(), Error> {
        match fs::metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == self.identity => Ok(()),
            _ => Err(Fault::Gone { path: self.path.clone() }.into()),
        }
    }

    /// Moves the log into the database.
    pub(super) async fn checkpoint(&self) -> Result<(), Error> {
        let checkpoint = async {
            let mut conn = self.writer.acquire().await?;
            sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut *conn).await
        };
        self.bounded(checkpoint).await.map(drop)
    }

    /// Moves the log into the database and closes it, within a time limit.
    pub(super) async fn close(&self) {
        if let Err(error) = self.checkpoint().await {
            warn!(
                error = &error as &dyn std::error::Error,
                "the log of the database stays for the next start"
            );
        }
        // One after the other: SQLite removes the log with the last connection. If two close at once, each takes
        // the other for the last.
        let closed = async {
            self.readers.close().await;
            self.writer.close().await;
        };
        if timeout(self.call, closed).await.is_err() {
            warn!("the database was left open: it did not close in time");
        }
    }
}

async fn in_transaction<I: ?Sized, T>(
    conn: &mut SqliteConnection,
    input: &I,
    work: &impl for<'c> Fn(&'c mut SqliteConnection, &'c I) -> Work<'c, T>,
) -> Result<T, sqlx::Error> {
    // Immediate: SQLite does not wait for the lock in a transaction that begins by reading and writes later.
    let mut transaction = conn.begin_with("BEGIN IMMEDIATE").await?;
    let done = work(&mut transaction, input).await?;
    transaction.commit().await?;
    Ok(done)
}

/// Whether the connection must not be used again after this error.
fn is_of_connection(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(error) => !error.is_unique_violation(),
        sqlx::Error::RowNotFound | sqlx::Error::ColumnDecode { .. } => false,
        _ => true,
    }
}

fn options(path: &Path, tuning: Tuning) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        // While the daemon runs, a file that is gone must not be replaced by an empty one.
        .create_if_missing(false)
        .busy_timeout(HALF_BUSY)
        .foreign_keys(true)
        // A row lost to a power cut is a workspace without an owner, which would be removed.
        .synchronous(SqliteSynchronous::Full)
        .pragma("wal_autocheckpoint", tuning.log_pages)
        // A negative number is a size in KiB.
        .pragma("cache_size", format!("-{}", tuning.cache_kib))
        .disable_statement_logging()
}

/// Creates the file where it is missing, readable only by this user: it holds environments. SQLite gives its log
/// and its shared memory file the same mode.
fn make_private(path: &Path) -> io::Result<(u64, u64)> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let found = file.metadata()?;
    if found.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok((found.dev(), found.ino()))
}
