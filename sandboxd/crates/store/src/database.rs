//! The database's file and the connections to it: one that writes, a few that read.
//!
//! A connection that failed is thrown away, because SQLite remembers some causes (one opened on a read-only
//! file system stays read-only). The next call opens another, so the store recovers with its cause.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection, SqlitePool};
use tokio::time::timeout;
use tracing::{debug, warn};

use super::ballast::{self, Ballast};
use super::{Error, schema};
use sandboxd_model::limits;

/// Name of the database in the state dir.
pub const FILE: &str = "sandboxd.db";

/// Pages of 4 KiB in the log before they move into the database. Fewer than SQLite's own 1000, because on a full
/// disk the log must not outgrow the ballast.
const LOG_PAGES: &str = "100";

/// Connections that read; a request reads for well under a millisecond.
const READERS: u32 = 2;

/// The wait for the one writer, and then the wait of SQLite for other programs: together [`limits::STORE_BUSY`].
const HALF_BUSY: Duration = limits::STORE_BUSY.checked_div(2).expect("two is not zero");

/// How long a call may take in all, where the disk itself does not answer.
const CALL: Duration = limits::STORE_BUSY.saturating_add(Duration::from_secs(1));

/// What is done with a connection. Boxed, because the compiler cannot tell of an async closure that its
/// future may move between threads.
pub(super) type Work<'c, T> = BoxFuture<'c, Result<T, sqlx::Error>>;

#[derive(Debug)]
pub(super) struct Database {
    path: PathBuf,
    /// Device and inode, by which a file that was moved away is known.
    identity: (u64, u64),
    writer: SqlitePool,
    readers: SqlitePool,
    ballast: Ballast,
    /// The daemon's age as last told, in milliseconds.
    age_ms: AtomicU64,
}

impl Database {
    pub(super) async fn open(state_dir: &Path) -> Result<Self, Error> {
        match Self::open_once(state_dir).await {
            // The log and its index take space before anything is written.
            Err(Error::Full { .. }) if Ballast::new(state_dir).give_up() => Self::open_once(state_dir).await,
            opened => opened,
        }
    }

    async fn open_once(state_dir: &Path) -> Result<Self, Error> {
        let path = state_dir.join(FILE);
        let ballast = Ballast::new(state_dir);
        let identity = make_private(&path).map_err(|error| Error::from_io(&path, error))?;
        let options = options(&path);
        let mut first = options.connect().await.map_err(|error| Error::from_sqlite(&path, error))?;
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
        let opened = Self {
            identity,
            writer: pool(1),
            readers: pool(READERS),
            ballast,
            path,
            age_ms: AtomicU64::new(0),
        };
        // With no connection left SQLite would remove the log that others are about to use.
        opened.read(|conn| Box::pin(conn.ping())).await?;
        // Dropped, it would be closed by a thread of its own at some later time.
        if let Err(error) = first.close().await {
            debug!(error = &error as &dyn std::error::Error, "the first connection did not close");
        }
        opened.restore_ballast();
        Ok(opened)
    }

    pub(super) fn age_ms(&self) -> u64 {
        self.age_ms.load(Ordering::Relaxed)
    }

    pub(super) fn note_age_ms(&self, age_ms: u64) {
        self.age_ms.store(age_ms, Ordering::Relaxed);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.writer.is_closed()
    }

    /// Does `work` beside the writer.
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

    /// Does `work` with `input` in one transaction. Leaves alone what [`Self::write_at_last`] lives on.
    pub(super) async fn write<I: ?Sized, T>(
        &self,
        input: &I,
        work: impl for<'c> Fn(&'c mut SqliteConnection, &'c I) -> Work<'c, T>,
    ) -> Result<T, Error> {
        self.check_place()?;
        if ballast::is_reserve(&self.path) {
            return Err(Error::from_io(&self.path, io::ErrorKind::StorageFull.into()));
        }
        self.bounded(self.write_once(input, &work)).await
    }

    /// As [`Self::write`], for what must be possible on a full disk: to be rid of a sandbox. Done once more
    /// without the ballast where there is no space.
    pub(super) async fn write_at_last<I: ?Sized, T>(
        &self,
        input: &I,
        work: impl for<'c> Fn(&'c mut SqliteConnection, &'c I) -> Work<'c, T>,
    ) -> Result<T, Error> {
        match self.bounded(self.write_once(input, &work)).await {
            Err(Error::Full { .. }) => {
                if self.ballast.give_up() {
                    warn!(path = %self.path.display(), "the disk is full; the ballast is given up");
                }
                // What is in the log twice is in the database once.
                if let Err(error) = self.checkpoint().await {
                    debug!(error = &error as &dyn std::error::Error, "the log could not be emptied");
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
        let done = timeout(CALL, call).await.map_err(|_| Error::Deadline { path: self.path.clone() })?;
        done.map_err(|error| Error::from_sqlite(&self.path, error))
    }

    /// Whether the file in the database's place is the one that is open.
    pub(super) fn check_place(&self) -> Result<(), Error> {
        match fs::metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == self.identity => Ok(()),
            _ => Err(Error::Gone { path: self.path.clone() }),
        }
    }

    pub(super) fn restore_ballast(&self) -> bool {
        self.ballast.restore().unwrap_or_else(|error| {
            warn!(error = &error as &dyn std::error::Error, "the ballast cannot be made");
            false
        })
    }

    async fn checkpoint(&self) -> Result<(), Error> {
        let checkpoint = async {
            let mut conn = self.writer.acquire().await?;
            sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut *conn).await
        };
        self.bounded(checkpoint).await.map(drop)
    }

    /// Moves the log into the database and closes it.
    pub(super) async fn close(&self) {
        if let Err(error) = self.checkpoint().await {
            warn!(error = &error as &dyn std::error::Error, "the store's log stays for the next start");
        }
        // One after the other: SQLite removes the log with the last connection, and two that leave at once each
        // take the other for the last.
        let closed = async {
            self.readers.close().await;
            self.writer.close().await;
        };
        if timeout(CALL, closed).await.is_err() {
            warn!("the store was left open");
        }
    }
}

async fn in_transaction<I: ?Sized, T>(
    conn: &mut SqliteConnection,
    input: &I,
    work: &impl for<'c> Fn(&'c mut SqliteConnection, &'c I) -> Work<'c, T>,
) -> Result<T, sqlx::Error> {
    // Immediate: a transaction that begins by reading and then cannot write is not told to wait.
    let mut transaction = conn.begin_with("BEGIN IMMEDIATE").await?;
    let done = work(&mut transaction, input).await?;
    transaction.commit().await?;
    Ok(done)
}

/// Whether a connection should not be used again after this.
fn is_of_connection(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(said) => !said.is_unique_violation(),
        sqlx::Error::RowNotFound | sqlx::Error::ColumnDecode { .. } => false,
        _ => true,
    }
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        // A file that is gone must not be replaced by an empty one in the middle of life.
        .create_if_missing(false)
        .busy_timeout(HALF_BUSY)
        .foreign_keys(true)
        // A row lost to a power cut is a workspace that nobody knows, which would be swept.
        .synchronous(SqliteSynchronous::Full)
        .pragma("wal_autocheckpoint", LOG_PAGES)
        .disable_statement_logging()
}

/// Makes the file where it is missing, for nobody but us: it holds environments. SQLite gives its log and its
/// shared memory the same mode.
fn make_private(path: &Path) -> io::Result<(u64, u64)> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    let found = file.metadata()?;
    if found.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok((found.dev(), found.ino()))
}
