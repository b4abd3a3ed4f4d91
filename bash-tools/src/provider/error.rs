//! Errors of a provider.

use std::time::Duration;

/// Result of a provider's operation.
pub type Result<T> = std::result::Result<T, Error>;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// An operation failed, or its outcome is unknown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The sandbox no longer exists.
    #[error("the sandbox is gone")]
    Gone,
    /// The file does not exist.
    #[error("File not found: {path}")]
    NoFile {
        /// Path as requested.
        path: String,
    },
    /// The file changed since it was read.
    #[error("{path} has changed since it was read")]
    Changed {
        /// Path as requested.
        path: String,
    },
    /// There is no capacity for another sandbox.
    #[error("no capacity for another sandbox: {message}")]
    Full {
        /// Message of the provider.
        message: String,
        /// When to retry, if the provider reports it.
        retry_after: Option<Duration>,
    },
    /// The sandbox reached a limit or is in use.
    #[error("{message}")]
    Busy {
        /// Message of the provider.
        message: String,
    },
    /// The provider rejected the request. Its message is about the request and may be shown.
    #[error("{message}")]
    Refused {
        /// Message of the provider.
        message: String,
    },
    /// The provider rejected the app's credentials.
    #[error("the sandbox provider rejects this app's credentials")]
    Unauthenticated,
    /// The app's credentials have expired.
    #[error("this app's credentials for the sandbox provider expired {} minutes ago: renew them", .ago.as_secs() / 60)]
    Expired {
        /// How long ago they expired.
        ago: Duration,
    },
    /// The provider is temporarily unable to do this.
    #[error("the sandbox provider is not available: {message}")]
    Unavailable {
        /// Message of the provider.
        message: String,
    },
    /// The provider did not respond, sent an unexpected response, or broke off.
    #[error("the sandbox provider (sandboxd or Vercel) does not respond, or its response is invalid")]
    Broken(#[source] Source),
    /// The content to send could not be read.
    #[error("the data to send could not be read")]
    Unreadable(#[source] Source),
}

impl Error {
    /// The provider does not make checkpoints.
    pub(crate) fn no_checkpoints() -> Self {
        Self::Refused { message: "this provider makes no checkpoints".into() }
    }

    /// Whether the same operation may succeed later.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Full { .. } | Self::Busy { .. } | Self::Unavailable { .. } | Self::Broken(_) => true,
            Self::Gone
            | Self::NoFile { .. }
            | Self::Changed { .. }
            | Self::Refused { .. }
            | Self::Unauthenticated
            | Self::Expired { .. }
            | Self::Unreadable(_) => false,
        }
    }
}
