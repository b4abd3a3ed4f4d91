//! SQLite keeps the contract, and works on files and disks that fail.

mod chunks;
mod fault_injection;
mod faults;
mod files;
mod upgrades;

use sandboxd_store::Store;
use sqlx::SqliteConnection;
use tempfile::TempDir;

use self::fault_injection::{connect, execute};

use crate::contract::TestDatabase;

contract!(crate::sqlite::Sqlite);

/// A database in a directory of its own.
pub(crate) struct Sqlite(TempDir);

impl TestDatabase for Sqlite {
    type Lock = SqliteConnection;

    async fn create() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    async fn open(&self) -> Store {
        Store::open(self.0.path()).await.unwrap()
    }

    async fn lock(&self) -> SqliteConnection {
        let mut other = connect(self.0.path()).await;
        execute(&mut other, "BEGIN EXCLUSIVE").await;
        other
    }

    async fn unlock(&self, mut other: SqliteConnection) {
        execute(&mut other, "ROLLBACK").await;
    }
}

/// An open store without sandboxes, and the directory of its database.
async fn new_store() -> (TempDir, Store) {
    let (Sqlite(dir), store) = crate::contract::new_store().await;
    (dir, store)
}
