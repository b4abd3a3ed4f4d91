//! The error of the store.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// An operation of the store failed.
#[derive(Debug, Error)]
pub enum Error {
    /// A later version of sandboxd wrote the database.
    #[error("the database {} has schema {found}; this sandboxd supports schemas up to {known}", path.display())]
    Newer {
        /// The database.
        path: PathBuf,
        /// Version of its schema.
        found: i64,
        /// Latest version that this program supports.
        known: i64,
    },
    /// The schema could not be migrated.
    #[error("the schema of the database {} cannot be migrated", path.display())]
    Schema {
        /// The database.
        path: PathBuf,
        /// The failed step and its cause.
        source: Box<sqlx::migrate::MigrateError>,
    },
    /// SQLite cannot read the file.
    #[error("the database {} is damaged", path.display())]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// The error of SQLite.
        source: sqlx::Error,
    },
    /// SQLite can read the file, and its own check finds faults.
    #[error("the database {} is damaged: {fault}", path.display())]
    Faulty {
        /// The database.
        path: PathBuf,
        /// The first fault.
        fault: String,
    },
    /// A row has a value that this program does not write.
    #[error("the row {id:?} of the table `{table}` cannot be read: its `{column}` is invalid")]
    BadRow {
        /// Name of the table.
        table: &'static str,
        /// Key of the row, such as the id of a sandbox or command.
        id: String,
        /// Name of the invalid column.
        column: &'static str,
    },
    /// Another sandbox has the same id, session key or slot.
    #[error("another sandbox has the same `{column}`")]
    Taken {
        /// `id`, `session_key` or `uid`.
        column: &'static str,
    },
    /// The row to change does not exist.
    #[error("the store has no sandbox {id}")]
    Absent {
        /// Id of the sandbox.
        id: String,
    },
    /// Another program has locked the database, or there are too many callers.
    #[error("the database {} is locked by another program", path.display())]
    Busy {
        /// The database.
        path: PathBuf,
        /// The error of SQLite.
        source: sqlx::Error,
    },
    /// The file or its file system is read-only.
    #[error("the database {} cannot be written", path.display())]
    ReadOnly {
        /// The database.
        path: PathBuf,
        /// The cause.
        source: Cause,
    },
    /// The disk is full.
    #[error("no space left for the database {}", path.display())]
    Full {
        /// The database.
        path: PathBuf,
        /// The cause.
        source: Cause,
    },
    /// The system could not read or write the file.
    #[error("the database {} cannot be read or written", path.display())]
    Io {
        /// The database.
        path: PathBuf,
        /// The cause.
        source: Cause,
    },
    /// The disk does not answer.
    #[error("the database {} does not answer", path.display())]
    Deadline {
        /// The database.
        path: PathBuf,
    },
    /// The file at the database's path is not the one that is open: it was moved or deleted.
    #[error("the database {} was moved away or deleted", path.display())]
    Gone {
        /// Where the database should be.
        path: PathBuf,
    },
    /// SQLite rejected a statement, or the store is closed.
    #[error("the database {} rejected a statement", path.display())]
    Refused {
        /// The database.
        path: PathBuf,
        /// The error of SQLite.
        source: sqlx::Error,
    },
}

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub enum Cause {
    /// An error of SQLite.
    #[error(transparent)]
    Sqlite(#[from] sqlx::Error),
    /// An error of the system.
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Error {
    /// Whether the store is unavailable: the same call succeeds once the cause has gone. False if the database or
    /// the call is at fault.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Busy { .. }
            | Self::ReadOnly { .. }
            | Self::Full { .. }
            | Self::Io { .. }
            | Self::Deadline { .. }
            | Self::Gone { .. } => true,
            Self::Newer { .. }
            | Self::Schema { .. }
            | Self::Corrupt { .. }
            | Self::Faulty { .. }
            | Self::BadRow { .. }
            | Self::Taken { .. }
            | Self::Absent { .. }
            | Self::Refused { .. } => false,
        }
    }

    /// What an operator can do about it.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Newer { .. } => Some(
                "run the later sandboxd again, or move the database away: sandboxes are then restored from the engine's labels, without their environment, history and retention",
            ),
            Self::Schema { .. } | Self::Corrupt { .. } | Self::Faulty { .. } | Self::BadRow { .. } => Some(
                "stop sandboxd and move sandboxd.db, sandboxd.db-wal and sandboxd.db-shm away together: sandboxes are then restored from the engine's labels, without their environment, history and retention",
            ),
            Self::Busy { .. } => {
                Some("stop the program that has the database open, such as a `sqlite3` shell")
            }
            Self::ReadOnly { .. } => Some("make the state dir writable again (`mount`, `lsattr`)"),
            Self::Full { .. } => {
                Some("free space on the state dir's file system; deleting sandboxes still works")
            }
            Self::Io { .. } | Self::Deadline { .. } => Some("check the state dir's disk (`dmesg`, `df`)"),
            Self::Gone { .. } => Some("put the file back, or restart sandboxd"),
            Self::Taken { .. } | Self::Absent { .. } | Self::Refused { .. } => None,
        }
    }
}
