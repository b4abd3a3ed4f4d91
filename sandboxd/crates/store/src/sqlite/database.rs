//! The store's database: its file, and the reserve that keeps deletions possible on a full disk.

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::SqliteConnection;
use tracing::{debug, warn};

use super::ballast::{self, Ballast};
use super::connections::{Connections, Tuning, Work};
use super::schema;
use crate::backend::Backend;
use crate::{Error, ErrorKind};
use sandboxd_model::limits;

/// Name of the database in the state dir.
pub const FILE: &str = "sandboxd.db";

/// Pages of 4 KiB that the log holds before they move into the database. Fewer than SQLite's default of 1000,
/// because on a full disk the log must not outgrow the ballast.
const LOG_PAGES: &str = "100";

/// Memory of each connection for pages, in KiB: SQLite's default.
const CACHE_KIB: &str = "2000";

/// Time limit of a whole call, for a disk that does not answer.
const CALL: Duration = limits::STORE_BUSY.saturating_add(Duration::from_secs(1));

/// The database, open.
#[derive(Debug)]
pub struct Database {
    connections: Connections,
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
        let tuning = Tuning { log_pages: LOG_PAGES, cache_kib: CACHE_KIB, call: CALL };
        let connections = Connections::open(state_dir.join(FILE), tuning, &schema::STORE).await?;
        let opened = Self { connections, ballast: Ballast::new(state_dir) };
        // The daemon is not ready without ordinary writes, and then a client would not delete a sandbox to make room.
        if ballast::is_reserved(opened.connections.path()) {
            opened.ballast.delete();
        }
        opened.restore_ballast();
        Ok(opened)
    }

    /// Runs `work` on a connection that reads.
    pub(super) async fn read<T>(
        &self,
        work: impl for<'c> FnOnce(&'c mut SqliteConnection) -> Work<'c, T>,
    ) -> Result<T, Error> {
        self.connections.read(work).await
    }

    /// Runs `work` with `input` in one transaction. Leaves the reserve that [`Self::write_from_reserve`] needs.
    pub(super) async fn write<I: ?Sized, T>(
        &self,
        input: &I,
        work: impl for<'c> Fn(&'c mut SqliteConnection, &'c I) -> Work<'c, T>,
    ) -> Result<T, Error> {
        self.connections.write(input, &work).await
    }

    /// Like [`Self::write`], with another time limit than other calls have. Meanwhile, other writes wait, and fail if that takes
    /// too long for them.
    pub(super) async fn write_within<I: ?Sized, T>(
        &self,
        limit: Duration,
        input: &I,
        work: impl for<'c> Fn(&'c mut SqliteConnection, &'c I) -> Work<'c, T>,
    ) -> Result<T, Error> {
        self.connections.write_within(limit, input, &work).await
    }

    /// Like [`Self::write`], for what must be possible on a full disk: to remove a sandbox. If the disk is full,
    /// deletes the ballast and tries once more.
    pub(super) async fn write_from_reserve<I: ?Sized, T>(
        &self,
        input: &I,
        work: impl for<'c> Fn(&'c mut SqliteConnection, &'c I) -> Work<'c, T>,
    ) -> Result<T, Error> {
        match self.connections.write_unchecked(input, &work).await {
            Err(error) if error.kind() == ErrorKind::Full => {
                if self.ballast.delete() {
                    let path = self.connections.path();
                    warn!(path = %path.display(), "the disk is full; the ballast was deleted");
                }
                // A page may be in the log several times, and is in the database once.
                if let Err(error) = self.connections.checkpoint().await {
                    debug!(
                        error = &error as &dyn std::error::Error,
                        "the log could not be moved into the database"
                    );
                }
                self.connections.write_unchecked(input, &work).await
            }
            done => done,
        }
    }

    fn restore_ballast(&self) {
        if let Err(error) = self.ballast.restore() {
            warn!(error = &error as &dyn std::error::Error, "the ballast cannot be created");
        }
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
        self.connections.close().await;
    }
}
