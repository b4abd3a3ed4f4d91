//! Errors of the store.

use std::path::PathBuf;

/// Why a call of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// SQLite failed.
    #[error("the database of chats cannot be used")]
    Database(#[from] sqlx::Error),
    /// The tables have another version.
    #[error("the database of chats has an unknown version")]
    Schema(#[from] sqlx::migrate::MigrateError),
    /// The tables are those of another version, whose server may be running.
    #[error(
        "the database of chats is of another version; stop its server and start this version's, which changes the tables"
    )]
    OtherVersion,
    /// A stored message is invalid.
    #[error("a message in the database of chats is invalid")]
    BadMessage(#[from] serde_json::Error),
    /// A row of an account is invalid.
    #[error("an account in the database of chats is invalid")]
    BadAccount,
    /// The database could not be copied before its tables change.
    #[error("the database of chats could not be copied to {}", .path.display())]
    Copy {
        /// The file that the copy would have become.
        path: PathBuf,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// Another account has the name.
    #[error("another account has this name")]
    NameTaken,
    /// The first account must be an admin, and the last admin stays one.
    #[error("there must be an admin")]
    NoAdmin,
    /// There are too many of something.
    #[error("there are {limit} {what} already")]
    Full {
        /// What there is too much of.
        what: &'static str,
        /// Maximum number.
        limit: u32,
    },
}
