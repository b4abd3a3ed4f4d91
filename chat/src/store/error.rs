//! Errors of the store.

/// Why a call of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// SQLite failed.
    #[error("the database of chats cannot be used")]
    Database(#[from] sqlx::Error),
    /// The tables have another version.
    #[error("the database of chats has an unknown version")]
    Schema(#[from] sqlx::migrate::MigrateError),
    /// A stored message is invalid.
    #[error("a message in the database of chats is invalid")]
    BadMessage(#[from] serde_json::Error),
}
