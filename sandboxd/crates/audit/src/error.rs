//! The errors of the audit record.

use std::io;
use std::path::PathBuf;

/// Why the audit record cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system returned an error. A symbolic link in the place of the directory or a file is one too.
    #[error("the audit record cannot use {}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A sync has failed. Nothing is written until one succeeds.
    #[error("the last lines of the audit record in {} are not on the disk", path.display())]
    InDoubt {
        /// The file.
        path: PathBuf,
    },
    /// Another daemon writes into the directory.
    #[error("another daemon writes its audit record into {}", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
}

impl Error {
    /// Whether the disk or a quota is full.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match self {
            Self::Io { source, .. } => {
                matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge)
            }
            Self::InUse { .. } | Self::InDoubt { .. } => false,
        }
    }
}
