//! The stored chunks of snapshots: opened, and read as trees.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use snapshot_format::diff::DiffError;
use snapshot_format::{ChunkSource, Hash, ReadError};

use super::index::StoredIndex;
use crate::packs::{self, CheckOptions, Packs};
use crate::service::{Error, SnapshotError};
use crate::store;

/// Name of the directory with packs in the state dir.
const PACKS_DIR: &str = "snapshots";

/// Opens the chunks in the state dir. An index that was lost is built again from the packs.
pub(super) async fn open(state_dir: &Path) -> Result<Packs, Error> {
    let index = StoredIndex::open(state_dir, None).await?;
    let packs = Packs::open_dir(&state_dir.join(PACKS_DIR), Arc::new(index)).await?;
    if !packs.is_complete().await? {
        tracing::warn!("the index of the snapshots' chunks is new; building it from the packs");
        rebuild_index(&packs).await?;
    }
    Ok(packs)
}

/// Adds the packs to the index that it does not have.
pub(super) async fn rebuild_index(packs: &Packs) -> Result<(), packs::Error> {
    let rebuild = CheckOptions { rebuild_index: true, quarantine: false };
    let report = |finding| tracing::warn!(?finding, "a pack of snapshots is damaged");
    let checked = packs.check(rebuild, report).await.map_err(|stopped| stopped.source)?;
    match checked.failed_packs {
        0 => Ok(()),
        // Their chunks would seem to be lost.
        packs => Err(packs::Error::Unread { packs }),
    }
}

/// Reads trees from packs.
#[derive(Debug, Clone)]
pub(super) struct PackSource(pub(super) Packs);

/// Why a chunk of a tree cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum TreeChunkError {
    /// The packs do not have it.
    #[error(transparent)]
    Packs(#[from] packs::Error),
    /// A tree names it with another length.
    #[error("the chunk {hash} has another length than its tree says")]
    Length {
        /// The chunk's name.
        hash: Hash,
    },
}

impl ChunkSource for PackSource {
    type Error = TreeChunkError;

    async fn chunk(&self, hash: Hash, length: u64) -> Result<Bytes, TreeChunkError> {
        // A chunk in memory is ready at once. Without this, a large tree would block its thread until the end.
        tokio::task::consume_budget().await;
        let chunk = self.0.get(hash).await?;
        if chunk.len() as u64 == length { Ok(chunk) } else { Err(TreeChunkError::Length { hash }) }
    }

    async fn chunks(&self, chunks: &[(Hash, u64)]) -> Result<Vec<Bytes>, TreeChunkError> {
        let read = self.0.get_many(chunks.iter().map(|(hash, _)| *hash).collect());
        let read: Vec<(Hash, Bytes)> = read.try_collect().await?;
        // There is one for each chunk, or an error.
        let checked = read.into_iter().zip(chunks).map(|((_, bytes), (hash, length))| {
            if bytes.len() as u64 == *length {
                Ok(bytes)
            } else {
                Err(TreeChunkError::Length { hash: *hash })
            }
        });
        checked.collect()
    }
}

impl From<packs::Error> for Error {
    fn from(source: packs::Error) -> Self {
        let (is_full, is_unavailable) = (is_full(&source), source.is_unavailable());
        let source = Box::new(source);
        let error = match (is_full, is_unavailable) {
            (true, _) => SnapshotError::NoSpace { source },
            (false, true) => SnapshotError::StoreFailed { source },
            (false, false) => SnapshotError::Damaged { source },
        };
        error.into()
    }
}

/// Whether the disk of the packs, or that of their index, is full.
fn is_full(error: &packs::Error) -> bool {
    let is_index_full = match error {
        packs::Error::Index(source) => {
            source.downcast_ref::<store::Error>().is_some_and(|error| error.kind() == store::ErrorKind::Full)
        }
        _ => false,
    };
    is_index_full || error.is_full()
}

impl From<DiffError<TreeChunkError>> for Error {
    fn from(error: DiffError<TreeChunkError>) -> Self {
        match error {
            DiffError::Read { error, .. } => error.into(),
            error => SnapshotError::Damaged { source: Box::new(error) }.into(),
        }
    }
}

impl From<ReadError<TreeChunkError>> for Error {
    fn from(error: ReadError<TreeChunkError>) -> Self {
        match error {
            ReadError::Chunk(TreeChunkError::Packs(error)) => error.into(),
            error => SnapshotError::Damaged { source: Box::new(error) }.into(),
        }
    }
}
