//! Why an act of accounts failed.

use std::time::Duration;

use crate::store;

/// A value, or why there is none.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an act failed. Every message is for the user.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is unknown, the password is wrong, or the account is disabled.
    #[error("the name or the password is wrong")]
    WrongPassword,
    /// The current password is wrong.
    #[error("the current password is wrong")]
    WrongCurrentPassword,
    /// The invitation is unknown, used, withdrawn or expired.
    #[error("this invitation is not valid any more; ask for another one")]
    BadInvitation,
    /// The account is disabled, and its user is known.
    #[error("this account is disabled; ask an admin")]
    Disabled,
    /// A new user may not join.
    #[error("there is no account for you; ask an admin for an invitation")]
    NotInvited,
    /// There were too many attempts.
    #[error("too many attempts; try again in {} s", .wait.as_secs() + 1)]
    TooManyAttempts {
        /// How long to wait.
        wait: Duration,
    },
    /// Too many passwords are being checked.
    #[error("too many people are signing in at once; try again")]
    Busy,
    /// A field of the request is invalid.
    #[error("`{field}` {problem}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// Rest of a sentence that begins with the field.
        problem: String,
    },
    /// Something does not exist.
    #[error("there is no such {what}")]
    NotFound {
        /// What does not exist.
        what: &'static str,
    },
    /// The database failed, or forbids it.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The system provides no random bytes.
    #[error("the system provides no random bytes")]
    Random(#[from] getrandom::Error),
    /// A password could not be hashed, or a stored hash is invalid.
    #[error("the password cannot be checked")]
    Hash(#[source] argon2::password_hash::Error),
    /// The thread that hashes has failed.
    #[error("the password cannot be checked")]
    Thread(#[from] tokio::task::JoinError),
}
