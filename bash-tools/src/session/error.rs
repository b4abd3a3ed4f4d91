//! Why a chat has no sandbox.

use std::sync::Arc;

use crate::{provider, seed};

/// A session could not be opened. Cheap to clone: all who wait for one session are told the same.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// As many are open as may be, and all are in use.
    #[error(
        "all {limit} sandboxes of this app are in use: wait until a command ends, or raise app.bash_tools.max_concurrent_sandboxes"
    )]
    AllInUse {
        /// How many may be open.
        limit: usize,
    },
    /// The provider has no room, whatever this app's own limit is.
    #[error(
        "the provider has no room for another sandbox ({0}): its own limit (SANDBOXD_MAX_CONCURRENT) is lower than app.bash_tools.max_concurrent_sandboxes, or others use it too"
    )]
    ProviderFull(Arc<provider::Error>),
    /// The provider failed.
    #[error("{0}")]
    Provider(Arc<provider::Error>),
    /// The sandbox is there and its first files are not.
    #[error("the workspace has not got its files: {0}")]
    Seed(Arc<seed::Error>),
    /// Its chat was deleted before it was open.
    #[error("the sandbox was not opened because its chat was deleted")]
    Deleted,
    /// What opened it was ended from outside.
    #[error("the sandbox was not opened because the app stops")]
    Stopped,
}

impl Error {
    pub(super) fn of(error: provider::Error) -> Self {
        match error {
            provider::Error::Full { .. } => Self::ProviderFull(Arc::new(error)),
            error => Self::Provider(Arc::new(error)),
        }
    }
}
