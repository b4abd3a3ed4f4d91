//! The error of the store.

use std::error::Error as StdError;
use std::fmt;

/// An operation of the store failed. The kind means the same for every backend. The message and the advice are the
/// backend's.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    fault: Box<dyn StdError + Send + Sync>,
    advice: Option<&'static str>,
}

/// What kind of failure an [`Error`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Another sandbox has the same id, session key or slot.
    Taken {
        /// `id`, `session_key` or `uid`.
        column: &'static str,
    },
    /// The row to change does not exist.
    Absent,
    /// A row has a value that this program does not write.
    BadRow,
    /// A later version of sandboxd wrote the database.
    Newer,
    /// The schema could not be migrated.
    Schema,
    /// The database is damaged.
    Corrupt,
    /// Another program has locked the database, or there are too many callers.
    Busy,
    /// The database is read-only.
    ReadOnly,
    /// The database has no space left.
    Full,
    /// The database cannot be reached, read or written.
    Unreachable,
    /// The database does not answer in time.
    Deadline,
    /// The database rejected a statement, or the store is closed.
    Refused,
}

impl ErrorKind {
    /// Whether the store is unavailable: the same call succeeds once the cause has gone. False if the database or
    /// the call is at fault.
    pub fn is_unavailable(self) -> bool {
        match self {
            Self::Busy | Self::ReadOnly | Self::Full | Self::Unreachable | Self::Deadline => true,
            Self::Taken { .. }
            | Self::Absent
            | Self::BadRow
            | Self::Newer
            | Self::Schema
            | Self::Corrupt
            | Self::Refused => false,
        }
    }
}

impl Error {
    /// An error of this kind. `fault` names the database and says what is wrong.
    pub fn new(kind: ErrorKind, fault: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { kind, fault: fault.into(), advice: None }
    }

    /// Another sandbox has the same value in `column`.
    pub fn taken(column: &'static str) -> Self {
        Self::new(ErrorKind::Taken { column }, format!("another sandbox has the same `{column}`"))
    }

    /// Adds what an operator can do about it.
    #[must_use]
    pub fn with_advice(self, advice: Option<&'static str>) -> Self {
        Self { advice, ..self }
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the store is unavailable. See [`ErrorKind::is_unavailable`].
    pub fn is_unavailable(&self) -> bool {
        self.kind.is_unavailable()
    }

    /// What an operator can do about it.
    pub fn advice(&self) -> Option<&'static str> {
        self.advice
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.fault.source()
    }
}
