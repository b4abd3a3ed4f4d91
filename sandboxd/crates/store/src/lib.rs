//! What must outlive the daemon: the sandboxes and what they are made from, the commands' history, and the
//! daemon's age. One SQLite database in the state dir.
//!
//! It decides nothing. No command needs it to go on: a store that cannot be written fails the calls that must
//! write, within a bound, and works again once the cause has gone.

mod ballast;
mod commands;
mod database;
mod error;
mod history;
mod identity;
mod links;
mod row;
mod sandboxes;
mod schema;

pub use commands::Written;
pub use database::FILE;
pub use error::{Cause, Error};
pub use history::History;
pub use identity::Identity;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use self::database::Database;
use self::row::saturated;

/// The store, open.
#[derive(Debug)]
pub struct Store {
    db: Arc<Database>,
    history: History,
    is_loaded: AtomicBool,
}

impl Store {
    /// Opens or makes `sandboxd.db` in `state_dir`, which must exist and be private.
    pub async fn open(state_dir: &Path) -> Result<Self, Error> {
        let db = Arc::new(Database::open(state_dir).await?);
        let select = "SELECT is_loaded, age_ms FROM daemon";
        let select = sqlx::query_as::<_, (bool, i64)>(select);
        let (is_loaded, age_ms) = db.read(|conn| Box::pin(select.fetch_one(conn))).await?;
        db.note_age_ms(age_ms.try_into().unwrap_or_default());
        let history = History::start(Arc::clone(&db));
        Ok(Self { db, history, is_loaded: AtomicBool::new(is_loaded) })
    }

    /// Whether no sandboxes were ever taken into it, so that the engine's labels know more:
    /// [`Store::rehydrate`] ends that.
    pub fn is_new(&self) -> bool {
        !self.is_loaded.load(Ordering::Acquire)
    }

    fn set_loaded(&self) {
        self.is_loaded.store(true, Ordering::Release);
    }

    /// Where the commands' history is noted.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The daemon's age: how long it has been running over all its starts, in milliseconds, as of the last
    /// [`Store::set_age_ms`]. Retention goes by it and not by the wall clock, which can jump.
    pub async fn age_ms(&self) -> Result<u64, Error> {
        let select = sqlx::query_scalar::<_, i64>("SELECT age_ms FROM daemon");
        let age = self.db.read(|conn| Box::pin(select.fetch_one(conn))).await?;
        Ok(age.try_into().unwrap_or_default())
    }

    /// Writes the daemon's age.
    pub async fn set_age_ms(&self, age: u64) -> Result<(), Error> {
        self.db.note_age_ms(age);
        let update = self.db.write(&age, |conn, age| {
            Box::pin(sqlx::query("UPDATE daemon SET age_ms = ?").bind(saturated(*age)).execute(conn))
        });
        update.await.map(drop)
    }

    /// Whether it can be written right now.
    pub async fn check(&self) -> Result<(), Error> {
        self.db.check_place()?;
        let write = self
            .db
            .write(&(), |conn, ()| Box::pin(sqlx::query("UPDATE daemon SET age_ms = age_ms").execute(conn)));
        write.await.map(drop)
    }

    /// Makes the file again that is given up when the disk is full; says whether it is there.
    pub fn restore_ballast(&self) -> bool {
        self.db.restore_ballast()
    }

    /// Writes what history is on its way, moves the log into the database and closes it; bounded.
    pub async fn close(&self) {
        if !self.history.flush().await {
            tracing::warn!("history on its way to the store is lost");
        }
        self.db.close().await;
    }
}
