//! What can go wrong between this crate and where sandboxes are.

use std::time::Duration;

/// A provider's answer.
pub type Result<T> = std::result::Result<T, Error>;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// An act did not happen, or nobody knows whether it did.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such sandbox any more.
    #[error("the sandbox is gone")]
    Gone,
    /// There is no such file.
    #[error("File not found: {path}")]
    NoFile {
        /// As it was asked for.
        path: String,
    },
    /// The file is not as it was when it was read.
    #[error("{path} was changed meanwhile")]
    Changed {
        /// As it was asked for.
        path: String,
    },
    /// There is no room for another sandbox.
    #[error("no room for another sandbox at present: {said}")]
    Full {
        /// The provider's words.
        said: String,
        /// When to ask again, where the provider tells.
        retry_after: Option<Duration>,
    },
    /// The sandbox does as much as it may already, or is in use.
    #[error("{said}")]
    Busy {
        /// The provider's words.
        said: String,
    },
    /// What was asked for is understood and not done. The words are the provider's, about the request, and may be shown.
    #[error("{said}")]
    Refused {
        /// The provider's words.
        said: String,
    },
    /// The provider does not let this app in.
    #[error("the provider of sandboxes refuses this app's credentials")]
    Unauthenticated,
    /// The credentials of this app were good.
    #[error("this app's credentials for the provider of sandboxes expired {} minutes ago: it needs new ones", .ago.as_secs() / 60)]
    Expired {
        /// How long they have not been good.
        ago: Duration,
    },
    /// The provider cannot do it at present.
    #[error("the provider of sandboxes cannot be used at present: {said}")]
    Unavailable {
        /// The provider's words.
        said: String,
    },
    /// The provider did not answer, answered with something else, or broke off.
    #[error("the provider of sandboxes (sandboxd, or Vercel) does not answer, or not as it should")]
    Broken(#[source] Source),
    /// What comes to be sent could not be read.
    #[error("what was to be sent could not be read")]
    Unreadable(#[source] Source),
}

impl Error {
    /// Whether the same act may work a while later.
    pub fn is_passing(&self) -> bool {
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
