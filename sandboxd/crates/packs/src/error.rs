//! The errors of the chunk store.

use sandboxd_sealed::Damage;
use snapshot_format::Hash;
use snapshot_format::compression::CorruptChunk;

/// Why the index is unavailable.
pub type IndexError = Box<dyn std::error::Error + Send + Sync>;

/// Why an operation on chunks or objects failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The index does not have the chunk.
    #[error("the chunk {chunk} is missing")]
    Missing {
        /// The chunk's name.
        chunk: Hash,
    },
    /// The index has the chunk, but its pack does not exist.
    #[error("the chunk {chunk} is missing, because the pack {pack} does not exist")]
    PackMissing {
        /// The chunk's name.
        chunk: Hash,
        /// Name of the pack.
        pack: Hash,
    },
    /// The stored bytes of a chunk are not those of the chunk.
    #[error("the chunk {chunk} is damaged in the pack {pack}")]
    Corrupt {
        /// The chunk's name.
        chunk: Hash,
        /// Name of the pack.
        pack: Hash,
        /// What is wrong with its bytes.
        source: CorruptChunk,
    },
    /// The pack is shorter than the index says.
    #[error("the chunk {chunk} is cut off in the pack {pack}")]
    CutOff {
        /// The chunk's name.
        chunk: Hash,
        /// Name of the pack.
        pack: Hash,
    },
    /// The object store has other bytes than were written.
    #[error("the object {object} is damaged in the store")]
    Damaged {
        /// Its path.
        object: String,
        /// What is wrong with its bytes.
        source: Damage,
    },
    /// The object store does not answer, or cannot read or write the object.
    #[error("the object store cannot access {object}")]
    Unavailable {
        /// Path of the object, or a prefix of paths.
        object: String,
        /// The object store's error.
        source: object_store::Error,
    },
    /// A check could not read some packs.
    #[error("packs that could not be read: {packs}")]
    Unread {
        /// Number of packs.
        packs: u64,
    },
    /// The index cannot be read or written.
    #[error("the index of the chunks is unavailable")]
    Index(#[source] IndexError),
    /// The index is newer than the packs and does not list all of them.
    #[error("the index does not list all packs yet; check the packs and rebuild the index")]
    IndexIncomplete,
    /// There is no such object.
    #[error("the object {path} does not exist")]
    NoObject {
        /// Its path.
        path: String,
    },
    /// The object is larger than the caller accepts.
    #[error("the object {path} has {size_bytes} bytes, more than the limit of {max_bytes}")]
    ObjectTooLarge {
        /// Its path.
        path: String,
        /// Its size in bytes.
        size_bytes: u64,
        /// The limit in bytes.
        max_bytes: u64,
    },
    /// The path is not valid, or belongs to the packs.
    #[error("{path:?} is not a valid path of an object")]
    InvalidPath {
        /// The path.
        path: String,
    },
    /// The chunk is larger than a chunk can be.
    #[error("the chunk {chunk} has {raw_len} bytes and {stored_len} compressed, more than a chunk can have")]
    ChunkTooLarge {
        /// The chunk's name.
        chunk: Hash,
        /// Its size in bytes.
        raw_len: u64,
        /// Its compressed size in bytes.
        stored_len: u64,
    },
    /// An earlier call of this writer failed or was cancelled, so chunks of it are lost.
    #[error("the writer cannot continue after a call that failed")]
    WriterFailed,
    /// A check has removed damaged chunks meanwhile, of which this writer may have found some.
    #[error("a check has removed damaged chunks meanwhile")]
    ChunksLost,
    /// The state dir's directory of packs cannot be used.
    #[error("the directory {} cannot be used", path.display())]
    Directory {
        /// Its path.
        path: std::path::PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The system cannot do the work: no memory, no randomness, or the runtime shuts down.
    #[error("the system cannot process chunks")]
    System(#[source] std::io::Error),
}

impl Error {
    /// The error of a request for an object or a prefix.
    pub(crate) fn of_store(object: impl ToString) -> impl FnOnce(object_store::Error) -> Self {
        move |source| {
            let object = object.to_string();
            match Damage::of(&source) {
                Some(source) => Self::Damaged { object, source },
                None => Self::Unavailable { object, source },
            }
        }
    }

    /// Whether a disk is full.
    pub fn is_full(&self) -> bool {
        let mut causes =
            std::iter::successors(Some(self as &(dyn std::error::Error + 'static)), |error| error.source());
        causes.any(|cause| {
            let kind = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
            matches!(kind, Some(std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded))
        })
    }

    /// Whether the same call can succeed later without a repair. False if data is missing or damaged.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Unavailable { .. }
            | Self::Unread { .. }
            | Self::Index(_)
            | Self::ChunksLost
            | Self::Directory { .. }
            | Self::System(_) => true,
            Self::Missing { .. }
            | Self::PackMissing { .. }
            | Self::IndexIncomplete
            | Self::Corrupt { .. }
            | Self::CutOff { .. }
            | Self::Damaged { .. }
            | Self::NoObject { .. }
            | Self::ObjectTooLarge { .. }
            | Self::InvalidPath { .. }
            | Self::ChunkTooLarge { .. }
            | Self::WriterFailed => false,
        }
    }
}

/// Runs work that takes the processor for long, outside the runtime's workers.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::System(std::io::Error::other(error)))
}
