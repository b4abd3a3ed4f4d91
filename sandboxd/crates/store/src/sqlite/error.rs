//! What can be wrong with the database's file, and which [`Error`] it is.

use std::io;
use std::path::{Path, PathBuf};

use sqlx::sqlite::SqliteRow;

use super::ballast;
use crate::rows::BadColumn;
use crate::{Error, ErrorKind};

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

/// What an operator can do about a database that this program cannot use.
const REPLACE: &str = "stop sandboxd and move sandboxd.db, sandboxd.db-wal and sandboxd.db-shm away together: sandboxes are then restored from the engine's labels, without their environment, history and retention";

/// A fault of the database at `path`.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// A later version of sandboxd wrote the database.
    #[error("the database {} has schema {found}; this sandboxd supports schemas up to {known}", path.display())]
    Newer { path: PathBuf, found: i64, known: i64 },
    #[error("the schema of the database {} cannot be migrated", path.display())]
    Schema { path: PathBuf, source: Box<sqlx::migrate::MigrateError> },
    /// SQLite cannot read the file.
    #[error("the database {} is damaged", path.display())]
    Corrupt { path: PathBuf, source: sqlx::Error },
    /// SQLite can read the file, and its own check finds faults. `fault` is the first one.
    #[error("the database {} is damaged: {fault}", path.display())]
    Faulty { path: PathBuf, fault: String },
    /// Another program has locked the database, or there are too many callers.
    #[error("the database {} is locked by another program", path.display())]
    Busy { path: PathBuf, source: sqlx::Error },
    /// The file or its file system is read-only.
    #[error("the database {} cannot be written", path.display())]
    ReadOnly { path: PathBuf, source: Cause },
    #[error("no space left for the database {}", path.display())]
    Full { path: PathBuf, source: Cause },
    /// The system could not read or write the file.
    #[error("the database {} cannot be read or written", path.display())]
    Io { path: PathBuf, source: Cause },
    /// The disk does not answer.
    #[error("the database {} does not answer", path.display())]
    Deadline { path: PathBuf },
    /// The file at the database's path is not the one that is open.
    #[error("the database {} was moved away or deleted", path.display())]
    Gone { path: PathBuf },
    /// SQLite rejected a statement, or the database is closed.
    #[error("the database {} rejected a statement", path.display())]
    Refused { path: PathBuf, source: sqlx::Error },
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Cause {
    #[error(transparent)]
    Sqlite(#[from] sqlx::Error),
    #[error(transparent)]
    System(#[from] io::Error),
}

impl Fault {
    /// Classifies an error of SQLite about the database at `path`.
    pub(super) fn from_sqlite(path: &Path, source: sqlx::Error) -> Self {
        let owned = path.to_owned();
        match &source {
            sqlx::Error::PoolTimedOut => return Self::Busy { path: owned, source },
            sqlx::Error::Io(_) => return Self::Io { path: owned, source: source.into() },
            _ => {}
        }
        match primary_code(&source) {
            Some(code::BUSY | code::LOCKED) => Self::Busy { path: owned, source },
            Some(code::READONLY | code::PERM) => Self::ReadOnly { path: owned, source: source.into() },
            Some(code::FULL) => Self::Full { path: owned, source: source.into() },
            // SQLite reports an I/O error if it cannot allocate a page in the shared memory file.
            Some(code::IOERR | code::CANTOPEN) if ballast::is_full(path) => {
                Self::Full { path: owned, source: source.into() }
            }
            Some(code::IOERR | code::CANTOPEN) => Self::Io { path: owned, source: source.into() },
            Some(code::CORRUPT | code::NOTADB) => Self::Corrupt { path: owned, source },
            _ => Self::Refused { path: owned, source },
        }
    }

    fn kind(&self) -> ErrorKind {
        match self {
            Self::Newer { .. } => ErrorKind::Newer,
            Self::Schema { .. } => ErrorKind::Schema,
            Self::Corrupt { .. } | Self::Faulty { .. } => ErrorKind::Corrupt,
            Self::Busy { .. } => ErrorKind::Busy,
            Self::ReadOnly { .. } => ErrorKind::ReadOnly,
            Self::Full { .. } => ErrorKind::Full,
            Self::Io { .. } | Self::Gone { .. } => ErrorKind::Unreachable,
            Self::Deadline { .. } => ErrorKind::Deadline,
            Self::Refused { .. } => ErrorKind::Refused,
        }
    }

    fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Newer { .. } => Some(
                "run the later sandboxd again, or move the database away: sandboxes are then restored from the engine's labels, without their environment, history and retention",
            ),
            Self::Schema { .. } | Self::Corrupt { .. } | Self::Faulty { .. } => Some(REPLACE),
            Self::Busy { .. } => {
                Some("stop the program that has the database open, such as a `sqlite3` shell")
            }
            Self::ReadOnly { .. } => Some("make the state dir writable again (`mount`, `lsattr`)"),
            Self::Full { .. } => {
                Some("free space on the state dir's file system; deleting sandboxes still works")
            }
            Self::Io { .. } | Self::Deadline { .. } => Some("check the state dir's disk (`dmesg`, `df`)"),
            Self::Gone { .. } => Some("put the file back, or restart sandboxd"),
            Self::Refused { .. } => None,
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let advice = fault.advice();
        Self::new(fault.kind(), fault).with_advice(advice)
    }
}

/// The error for an error of SQLite about the database at `path`.
pub(super) fn from_sqlite(path: &Path, source: sqlx::Error) -> Error {
    match source.as_database_error() {
        Some(error) if error.is_unique_violation() => Error::taken(column_of(error.message())),
        _ => Fault::from_sqlite(path, source).into(),
    }
}

/// The error for an error of the system about the file at `path`.
pub(super) fn from_io(path: &Path, error: io::Error) -> Error {
    let (path, kind, source) = (path.to_owned(), error.kind(), error.into());
    let fault = match kind {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            Fault::ReadOnly { path, source }
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Fault::Full { path, source },
        _ => Fault::Io { path, source },
    };
    fault.into()
}

/// Makes the error for a row of `table` whose key is in the column `key`.
pub(super) fn bad_row(
    table: &'static str,
    key: &'static str,
    row: &SqliteRow,
) -> impl FnOnce(BadColumn) -> Error {
    move |bad| Error::new(ErrorKind::BadRow, bad.in_row(table, key, row)).with_advice(Some(REPLACE))
}

/// SQLite's extended codes carry the primary one in their low byte.
fn primary_code(error: &sqlx::Error) -> Option<i32> {
    let extended: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xff)
}

fn column_of(message: &str) -> &'static str {
    ["session_key", "uid"].into_iter().find(|column| message.contains(column)).unwrap_or("id")
}
