//! What can go wrong with the store.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::ballast;

/// The store could not do what was asked.
#[derive(Debug, Error)]
pub enum Error {
    /// A later sandboxd wrote it.
    #[error("the database {} has schema {found}, and this sandboxd knows none later than {known}", path.display())]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The latest this program knows.
        known: i64,
    },
    /// Its schema could not be brought up to date.
    #[error("the schema of the database {} cannot be brought up to date", path.display())]
    Schema {
        /// The database.
        path: PathBuf,
        /// Which step, and why.
        source: Box<sqlx::migrate::MigrateError>,
    },
    /// SQLite cannot make sense of it.
    #[error("the database {} is damaged", path.display())]
    Corrupt {
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        source: sqlx::Error,
    },
    /// SQLite can read it, and its own check finds faults.
    #[error("the database {} is damaged: {fault}", path.display())]
    Faulty {
        /// The database.
        path: PathBuf,
        /// The first fault.
        fault: String,
    },
    /// A row is not what this program writes.
    #[error("the row {id:?} of the table `{table}` cannot be read: its `{column}` makes no sense")]
    BadRow {
        /// In which table.
        table: &'static str,
        /// Of which sandbox or command.
        id: String,
        /// What is wrong in it.
        column: &'static str,
    },
    /// Another sandbox has the same id, session key or slot.
    #[error("there is another sandbox with the same `{column}`")]
    Taken {
        /// `id`, `session_key` or `uid`.
        column: &'static str,
    },
    /// There is no row to change.
    #[error("the store has no sandbox {id}")]
    Absent {
        /// The one that was looked for.
        id: String,
    },
    /// Another program has it locked, or there are too many callers.
    #[error("the database {} is locked by another program", path.display())]
    Busy {
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        source: sqlx::Error,
    },
    /// The file or its file system may not be written.
    #[error("the database {} cannot be written", path.display())]
    ReadOnly {
        /// The database.
        path: PathBuf,
        /// What was said.
        source: Cause,
    },
    /// There is no space left for it.
    #[error("there is no space left for the database {}", path.display())]
    Full {
        /// The database.
        path: PathBuf,
        /// What was said.
        source: Cause,
    },
    /// The system refused to read or write it.
    #[error("the database {} cannot be read or written", path.display())]
    Io {
        /// The database.
        path: PathBuf,
        /// What was said.
        source: Cause,
    },
    /// The disk does not answer.
    #[error("the database {} does not answer", path.display())]
    Deadline {
        /// The database.
        path: PathBuf,
    },
    /// The file that is open is not the one in its place: somebody moved or deleted it.
    #[error("the database {} was moved away or deleted", path.display())]
    Gone {
        /// Where it should be.
        path: PathBuf,
    },
    /// SQLite refused a statement, or the store is closed.
    #[error("the database {} refused a statement", path.display())]
    Refused {
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        source: sqlx::Error,
    },
}

/// Who said that a file cannot be used.
#[derive(Debug, Error)]
pub enum Cause {
    /// SQLite.
    #[error(transparent)]
    Sqlite(#[from] sqlx::Error),
    /// The system.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Primary result codes of SQLite (sqlite.org/rescode.html).
mod code {
    pub(super) const PERM: i32 = 3;
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const READONLY: i32 = 8;
    pub(super) const IOERR: i32 = 10;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const CANTOPEN: i32 = 14;
    pub(super) const NOTADB: i32 = 26;
}

impl Error {
    /// Gives what SQLite said about the database at `path` its name.
    pub(super) fn from_sqlite(path: &Path, source: sqlx::Error) -> Self {
        let owned = path.to_owned();
        match &source {
            sqlx::Error::PoolTimedOut => return Self::Busy { path: owned, source },
            sqlx::Error::Io(_) => return Self::Io { path: owned, source: source.into() },
            sqlx::Error::Database(said) if said.is_unique_violation() => {
                return Self::Taken { column: column_of(said.message()) };
            }
            _ => {}
        }
        match primary_code(&source) {
            Some(code::BUSY | code::LOCKED) => Self::Busy { path: owned, source },
            Some(code::READONLY | code::PERM) => Self::ReadOnly { path: owned, source: source.into() },
            Some(code::FULL) => Self::Full { path: owned, source: source.into() },
            // A page that cannot be allocated in the shared memory file is an I/O error to SQLite.
            Some(code::IOERR | code::CANTOPEN) if ballast::is_full(path) => {
                Self::Full { path: owned, source: source.into() }
            }
            Some(code::IOERR | code::CANTOPEN) => Self::Io { path: owned, source: source.into() },
            Some(code::CORRUPT | code::NOTADB) => Self::Corrupt { path: owned, source },
            _ => Self::Refused { path: owned, source },
        }
    }

    /// Gives what the system said about the file at `path` its name.
    pub(super) fn from_io(path: &Path, error: io::Error) -> Self {
        let (path, kind, source) = (path.to_owned(), error.kind(), error.into());
        match kind {
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                Self::ReadOnly { path, source }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path, source },
            _ => Self::Io { path, source },
        }
    }

    /// Whether the store cannot be used right now, rather than being wrong or being asked wrongly: the same
    /// call succeeds once the cause has gone.
    pub fn is_away(&self) -> bool {
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

    /// What to do about it, where a person can do something.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Newer { .. } => Some(
                "run the later sandboxd again, or move the database away: sandboxes are then taken back from the engine's labels, without their environment, history and retention",
            ),
            Self::Schema { .. } | Self::Corrupt { .. } | Self::Faulty { .. } | Self::BadRow { .. } => Some(
                "stop sandboxd and move sandboxd.db, sandboxd.db-wal and sandboxd.db-shm away together: sandboxes are then taken back from the engine's labels, without their environment, history and retention",
            ),
            Self::Busy { .. } => {
                Some("end the program that has the database open, such as a `sqlite3` shell")
            }
            Self::ReadOnly { .. } => Some("make the state dir writable again (`mount`, `lsattr`)"),
            Self::Full { .. } => {
                Some("make room on the state dir's file system; deleting sandboxes still works")
            }
            Self::Io { .. } | Self::Deadline { .. } => Some("look at the state dir's disk (`dmesg`, `df`)"),
            Self::Gone { .. } => Some("put the file back, or start sandboxd anew"),
            Self::Taken { .. } | Self::Absent { .. } | Self::Refused { .. } => None,
        }
    }
}

/// SQLite's extended codes carry the primary one in their low byte.
fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let extended: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xff)
}

fn column_of(message: &str) -> &'static str {
    ["session_key", "uid"].into_iter().find(|column| message.contains(column)).unwrap_or("id")
}
