//! The database's file and the connections to it: one that writes, a few that read.
//!
//! A connection that failed is discarded, because SQLite remembers some causes (a connection opened on a
//! read-only file system stays read-only). The next call opens a new one, so the store recovers once the cause
//! has gone.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection, SqlitePool};
use tokio::time::timeout;
use tracing::{debug, warn};

use super::ballast::{self, Ballast};
use super::error::{Fault, from_io, from_sqlite};
use super::schema;
use crate::backend::Backend;
use crate::{Error, ErrorKind};
use sandboxd_model::limits;

/// Name of the database in the state dir.
pub const FILE: &str = "sandboxd.db";

/// Pages of 4 KiB that the log holds before they move into the database. Fewer than SQLite's default of 1000,
/// because on a full disk the log must not outgrow the ballast.
const LOG_PAGES: &str = "100";

/// Connections that read; a request reads for well under a millisecond.
const READERS: u32 = 2;

/// The wait for the one writer, and then the wait of SQLite for other programs: together [`limits::STORE_BUSY`].
const HALF_BUSY: Duration = limits::STORE_BUSY.checked_div(2).expect("two is not zero");

/// Time limit of a whole call, for a disk that does not answer.
const CALL: Duration = limits::STORE_BUSY.saturating_add(Duration::from_secs(1));

/// Work on a connection. Boxed, because the compiler cannot prove that the future of an async closure may move
/// between threads.
pub(super) type Work<'c, T> = BoxFuture<'c, Result<T, sqlx::Error>>;

/// The database, open.
#[derive(Debug)]
pub struct Database {
    path: PathBuf,
    /// Device and inode, which show whether the file was moved away.
    identity: (u64, u64),
    writer: SqlitePool,
    readers: SqlitePool,
    ballast: Ballast,
}

impl Database {
    /// Opens or creates the file in `state_dir`, which must exist and be private.
    pub async fn open(state_dir: &Path) -> Result<Self, Error> {
        match Self::open_once(state_dir).await {
            // The log and its index take space before anything is written.
            Err(error) if error.kind() == ErrorKind::Full && Ballast::new(state_dir).delete() => {
                Self::open_once(state_dir).await
            }
            opened => opened,
        }
    }

    async fn open_once(state_dir: &Path) -> Result<Self, Error> {
        let path = state_dir.join(FILE);
        let ballast = Ballast::new(state_dir);
        let identity = make_private(&path).map_err(|error| from_io(&path, error))?;
        let options = options(&path);
        let mut first = options.connect().await.map_err(|error| from_sqlite(&path, error))?;
        schema::prepare(&mut first, &path).await?;
        let pool = |connections| {
            SqlitePoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(HALF_BUSY)
                .idle_timeout(None)
                .max_lifetime(None)
                .test_before_acquire(false)
                .connect_lazy_with(options.clone())
        };
        let opened = Self { identity, writer: pool(1), readers: pool(READERS), ballast, path };
        // If no connection is open, SQLite removes the log that others are about to use.
        opened.read(|conn| Box::pin(conn.ping())).await?;
        // A dropped connection is closed by a thread of its own, at some later time.
        if let Err(error) = first.close().await {
            debug!(error = &error as &dyn std::error::Error, "the first connection did not close");
        }
        opened.restore_ballast();
        Ok(opened)
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

    /// Runs `work` with `input` in one transaction. Leaves the reserve that [`Self::write_from_reserve`] needs.
    pub(super) async fn write<I: ?Sized, T>(
        &self,
        input: &I,
        work: impl for<'c> Fn(&'c mut SqliteConnection, &'c I) -> Work<'c, T>,
    ) -> Result<T, Error> {
        // Checked first: a fault of the disk is worth waiting for, and a closed database is not.
        if self.writer.is_closed() {
            return Err(from_sqlite(&self.path, sqlx::Error::PoolClosed));
        }
        self.check_file()?;
        if ballast::is_reserved(&self.path) {
            return Err(from_io(&self.path, io::ErrorKind::StorageFull.into()));
        }
        self.bounded(self.write_once(input, &work)).await
    }

    /// Like [`Self::write`], for what must be possible on a full disk: to remove a sandbox. If the disk is full,
    /// deletes the ballast and tries once more.
    pub(super) async fn write_from_reserve<I: ?Sized, T>(
        &self,
        input: &I,
        work: impl for<'c> Fn(&'c mut SqliteConnection, &'c I) -> Work<'c, T>,
    ) -> Result<T, Error> {
        match self.bounded(self.write_once(input, &work)).await {
            Err(error) if error.kind() == ErrorKind::Full => {
                if self.ballast.delete() {
                    warn!(path = %self.path.display(), "the disk is full; the ballast was deleted");
                }
                // A page may be in the log several times, and is in the database once.
                if let Err(error) = self.checkpoint().await {
                    debug!(
                        error = &error as &dyn std::error::Error,
                        "the log could not be moved into the database"
                    );
                }
                self.bounded(self.write_once(input, &work)).await
            }
            done => done,
        }
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
        let done = timeout(CALL, call).await.map_err(|_| Fault::Deadline { path: self.path.clone() })?;
        done.map_err(|error| from_sqlite(&self.path, error))
    }

    /// Fails if the file at the database's path is not the one that is open.
    fn check_file(&self) -> Result<(), Error> {
        match fs::metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == self.identity => Ok(()),
            _ => Err(Fault::Gone { path: self.path.clone() }.into()),
        }
    }

    fn restore_ballast(&self) {
        if let Err(error) = self.ballast.restore() {
            warn!(error = &error as &dyn std::error::Error, "the ballast cannot be created");
        }
    }

    async fn checkpoint(&self) -> Result<(), Error> {
        let checkpoint = async {
            let mut conn = self.writer.acquire().await?;
            sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut *conn).await
        };
        self.bounded(checkpoint).await.map(drop)
    }
}

#[async_trait]
impl Backend for Database {
    async fn check(&self) -> Result<(), Error> {
        let write = self
            .write(&(), |conn, ()| Box::pin(sqlx::query("UPDATE daemon SET age_ms = age_ms").execute(conn)));
        write.await.map(drop)
    }

    /// Creates the ballast again that was deleted when the disk was full.
    async fn maintain(&self) {
        self.restore_ballast();
    }

    /// Moves the log into the database and closes it.
    async fn close(&self) {
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
        if timeout(CALL, closed).await.is_err() {
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

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        // While the daemon runs, a file that is gone must not be replaced by an empty one.
        .create_if_missing(false)
        .busy_timeout(HALF_BUSY)
        .foreign_keys(true)
        // A row lost to a power cut is a workspace without an owner, which would be removed.
        .synchronous(SqliteSynchronous::Full)
        .pragma("wal_autocheckpoint", LOG_PAGES)
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
