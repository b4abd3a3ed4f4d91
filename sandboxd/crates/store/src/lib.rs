//! Everything that must outlive the daemon: the sandboxes and their specifications, the history of commands, the
//! links to previews, and the daemon's age.
//!
//! The crate has two layers. `operations` and `rows` apply to every database. They define what each operation
//! promises, and how values of the model become columns. `sqlite` has the statements of SQLite and everything about
//! its durability. A second database is a module beside `sqlite`.
//!
//! The store makes no decisions, and no running command depends on it. If the store cannot be written, the calls
//! that must write fail within a time limit. They succeed again once the cause has gone.

mod age;
mod error;
mod history;
mod operations;
mod rows;
mod sqlite;

pub use error::{Cause, Error};
pub use history::History;
pub use rows::commands::Written;
pub use rows::daemon::Identity;
pub use sqlite::FILE;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use self::age::Age;
use self::sqlite::Database;

/// The store, open.
#[derive(Debug)]
pub struct Store {
    database: Arc<Database>,
    history: History,
    age: Arc<Age>,
    is_loaded: AtomicBool,
}

impl Store {
    /// Opens or creates `sandboxd.db` in `state_dir`, which must exist and be private.
    pub async fn open(state_dir: &Path) -> Result<Self, Error> {
        let database = Arc::new(Database::open(state_dir).await?);
        let age = Arc::new(Age::from_ms(database.age_ms().await?));
        let is_loaded = AtomicBool::new(database.is_loaded().await?);
        let history = History::start(Arc::clone(&database), Arc::clone(&age));
        Ok(Self { database, history, age, is_loaded })
    }

    /// Whether no sandboxes were ever loaded into the store, so that the engine's labels know more.
    /// [`Store::rehydrate`] loads them.
    pub fn is_new(&self) -> bool {
        !self.is_loaded.load(Ordering::Acquire)
    }

    fn set_loaded(&self) {
        self.is_loaded.store(true, Ordering::Release);
    }

    /// Whether the store can be written right now.
    pub async fn check(&self) -> Result<(), Error> {
        self.database.check().await
    }

    /// Creates the file again that is deleted when the disk is full. Returns whether the file exists.
    pub fn restore_ballast(&self) -> bool {
        self.database.restore_ballast()
    }

    /// Writes the queue of the history, moves the log into the database and closes the database, within a bound.
    pub async fn close(&self) {
        if !self.history.flush().await {
            tracing::warn!("the queue of the command history is lost");
        }
        self.database.close().await;
    }
}
