//! Which [`Error`] a fault of SQLite or of the file system is.

use std::io;
use std::path::Path;

use super::ballast;
use crate::Error;

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

/// Classifies an error of SQLite about the database at `path`.
pub(super) fn from_sqlite(path: &Path, source: sqlx::Error) -> Error {
    let owned = path.to_owned();
    match &source {
        sqlx::Error::PoolTimedOut => return Error::Busy { path: owned, source },
        sqlx::Error::Io(_) => return Error::Io { path: owned, source: source.into() },
        sqlx::Error::Database(database) if database.is_unique_violation() => {
            return Error::Taken { column: column_of(database.message()) };
        }
        _ => {}
    }
    match primary_code(&source) {
        Some(code::BUSY | code::LOCKED) => Error::Busy { path: owned, source },
        Some(code::READONLY | code::PERM) => Error::ReadOnly { path: owned, source: source.into() },
        Some(code::FULL) => Error::Full { path: owned, source: source.into() },
        // SQLite reports an I/O error if it cannot allocate a page in the shared memory file.
        Some(code::IOERR | code::CANTOPEN) if ballast::is_full(path) => {
            Error::Full { path: owned, source: source.into() }
        }
        Some(code::IOERR | code::CANTOPEN) => Error::Io { path: owned, source: source.into() },
        Some(code::CORRUPT | code::NOTADB) => Error::Corrupt { path: owned, source },
        _ => Error::Refused { path: owned, source },
    }
}

/// Classifies an error of the system about the file at `path`.
pub(super) fn from_io(path: &Path, error: io::Error) -> Error {
    let (path, kind, source) = (path.to_owned(), error.kind(), error.into());
    match kind {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            Error::ReadOnly { path, source }
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full { path, source },
        _ => Error::Io { path, source },
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
