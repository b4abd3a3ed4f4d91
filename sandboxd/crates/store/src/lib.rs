//! Everything that must outlive the daemon: the sandboxes and their specifications, the history of commands, the
//! links to previews, the wrapped servers, the snapshots, and the daemon's age.
//!
//! [`Store`] has the operations, and does what is the same for every database: the queue of the history and the
//! daemon's age. It keeps everything in a [`Backend`]. `rows` has what SQL databases share: how values of the model
//! become columns, and the statements that follow from the columns. [`sqlite`] has the statements of SQLite and
//! everything about its durability. A second database is a module beside it, and runs the same tests.
//!
//! [`ChunkIndex`] is apart from the store, in a database of its own: where the chunks of snapshots are. It is a cache that
//! can be rebuilt.
//!
//! The store makes no decisions, and no running command depends on it. If the store cannot be written, the calls
//! that must write fail within a time limit. They succeed again once the cause has gone.

mod age;
mod backend;
mod chunks;
mod error;
mod history;
mod operations;
mod rows;
pub mod sqlite;

pub use backend::{
    AuditHead, Backend, Change, CommandTable, DaemonTable, EndedCommand, Identity, LinkTable, McpServerTable,
    ProjectTable, QuotaTable, RepositoryTable, SandboxTable, SnapshotTable, ValueTable, Written,
};
pub use chunks::{ChunkHash, ChunkLocation, ChunkPack, ChunkPackUse, Generation};
pub use error::{Error, ErrorKind};
pub use history::History;
pub use sqlite::ChunkIndex;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use self::age::Age;

/// The store, open.
#[derive(Debug)]
pub struct Store {
    database: Arc<dyn Backend>,
    history: History,
    age: Arc<Age>,
    is_loaded: AtomicBool,
}

impl Store {
    /// Opens or creates the database in `state_dir`, which must exist and be private.
    pub async fn open(state_dir: &Path) -> Result<Self, Error> {
        Self::with_backend(Arc::new(sqlite::Database::open(state_dir).await?)).await
    }

    /// A store that keeps everything in `database`, which is open.
    pub async fn with_backend(database: Arc<dyn Backend>) -> Result<Self, Error> {
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

    /// Does the periodic work that the database needs for its durability.
    pub async fn maintain(&self) {
        self.database.maintain().await;
    }

    /// Writes the queue of the history and closes the database, within a time limit.
    pub async fn close(&self) {
        if !self.history.flush().await {
            tracing::warn!("the queue of the command history is lost");
        }
        self.database.close().await;
    }
}
