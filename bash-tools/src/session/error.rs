//! Errors of opening a session.

use std::sync::Arc;

use crate::{provider, seed};

/// Why a session could not be opened. Cheap to clone, because all callers that wait for the session get the same error.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The maximum number of sessions is open, and all are in use.
    #[error(
        "all {limit} sandboxes of this app are in use: wait until a command ends, or raise app.bash_tools.max_concurrent_sandboxes"
    )]
    AllInUse {
        /// Maximum number of open sessions.
        limit: usize,
    },
    /// The provider has no capacity, regardless of this app's own limit.
    #[error(
        "the provider has no capacity for another sandbox ({0}): its own limit (SANDBOXD_MAX_CONCURRENT) is lower than app.bash_tools.max_concurrent_sandboxes, or other clients use it too"
    )]
    ProviderFull(Arc<provider::Error>),
    /// The provider failed.
    #[error("{0}")]
    Provider(Arc<provider::Error>),
    /// The seed failed.
    #[error("the workspace could not be set up: {0}")]
    Seed(Arc<seed::Error>),
    /// The chat was deleted before the session was open.
    #[error("the sandbox was not opened because its chat was deleted")]
    Deleted,
    /// The task that opened the session was cancelled.
    #[error("the sandbox was not opened because the app is stopping")]
    Stopped,
}

impl Error {
    /// Whether the session may be opened later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::AllInUse { .. } | Self::ProviderFull(_) => true,
            Self::Provider(error) => error.is_temporary(),
            Self::Seed(_) | Self::Deleted | Self::Stopped => false,
        }
    }

    pub(super) fn of(error: provider::Error) -> Self {
        match error {
            provider::Error::Full { .. } => Self::ProviderFull(Arc::new(error)),
            error => Self::Provider(Arc::new(error)),
        }
    }
}
