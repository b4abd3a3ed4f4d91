//! The errors of a sealed store.

use std::error::Error as StdError;

/// Why a remote store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It does not answer, or failed.
    #[error("the store cannot access {object}")]
    Unavailable {
        /// Path of the object, or a prefix of paths.
        object: String,
        /// The object store's error.
        source: object_store::Error,
    },
    /// It took too long to open it.
    #[error("the store did not answer in time")]
    Deadline,
    /// It rejects the access key.
    #[error("the store rejects the access key, or the key may not access {object}")]
    Denied {
        /// Path of the object, or a prefix of paths.
        object: String,
        /// The object store's error.
        source: object_store::Error,
    },
    /// The settings do not name a usable store.
    #[error("the settings of the store are not usable")]
    Settings(#[source] object_store::Error),
    /// No master key opens the data key.
    #[error(
        "no key in the key file opens the data key {data_key}, which needs one of the keys {needed}; the file has {given}"
    )]
    WrongKey {
        /// Id of the data key.
        data_key: String,
        /// Ids of master keys that open it, separated by commas.
        needed: String,
        /// Ids of the master keys that are known, separated by commas.
        given: String,
    },
    /// The data key of recorded snapshots is not in the store.
    #[error(
        "the store does not have the data key {data_key}, with which the recorded snapshots are encrypted"
    )]
    LostKey {
        /// Id of the data key.
        data_key: String,
    },
    /// An encrypted data key, or the object that names the owner, is damaged.
    #[error("the object {object} is damaged")]
    Damaged {
        /// Its path.
        object: String,
        /// What is wrong with it.
        source: Damage,
    },
    /// Another installation uses the store.
    #[error("the installation {owner} uses the store; if it is permanently lost, delete the object {object}")]
    Owned {
        /// Its id.
        owner: String,
        /// Path of the object that names it.
        object: String,
    },
    /// The system provides no random numbers, or the work was cancelled.
    #[error("the system cannot process keys")]
    System(#[source] Box<dyn StdError + Send + Sync>),
}

impl Error {
    /// The error of a request for an object or a prefix.
    pub(crate) fn of_store(object: impl ToString) -> impl FnOnce(object_store::Error) -> Self {
        move |source| {
            let object = object.to_string();
            match (&source, Damage::of(&source)) {
                (_, Some(damage)) => Self::Damaged { object, source: damage },
                (
                    object_store::Error::PermissionDenied { .. }
                    | object_store::Error::Unauthenticated { .. },
                    None,
                ) => Self::Denied { object, source },
                _ => Self::Unavailable { object, source },
            }
        }
    }
}

/// What is wrong with the bytes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// Its bytes were changed, cut or exchanged.
    #[error("its bytes were changed after they were encrypted")]
    Changed,
    /// It has another length than an encrypted object can have.
    #[error("it is cut off, or larger than any object that the daemon writes")]
    Length,
    /// It does not begin like an encrypted object.
    #[error("it is not an encrypted object")]
    Header,
    /// A later version wrote it.
    #[error("it has version {0}, which this program does not read")]
    Version(u32),
    /// It was encrypted with another key.
    #[error("it was encrypted with another key")]
    OtherKey,
}

impl Damage {
    /// Whether the object was changed, and is not only unknown to this program.
    pub fn is_change(self) -> bool {
        match self {
            Self::Changed | Self::Length | Self::Header => true,
            Self::Version(_) | Self::OtherKey => false,
        }
    }

    /// The damage that an error of a sealed store reports. `None` if it reports something else.
    pub fn of(error: &object_store::Error) -> Option<Self> {
        match error {
            object_store::Error::Generic { source, .. } => source.downcast_ref().copied(),
            _ => None,
        }
    }
}

/// Name of this store in errors of `object_store`.
const STORE: &str = "sealed";

impl From<Damage> for object_store::Error {
    fn from(damage: Damage) -> Self {
        Self::Generic { store: STORE, source: damage.into() }
    }
}

/// An error of the system or the runtime.
pub(crate) fn system(source: impl Into<Box<dyn StdError + Send + Sync>>) -> object_store::Error {
    object_store::Error::Generic { store: STORE, source: source.into() }
}
