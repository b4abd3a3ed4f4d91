//! Why a workspace has not got its first files.

use crate::provider;

/// Whether a seed is there.
pub type Result<T> = std::result::Result<T, Error>;

/// It is not.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The sandbox or its provider.
    #[error("{0}")]
    Provider(#[source] provider::Error),
}
