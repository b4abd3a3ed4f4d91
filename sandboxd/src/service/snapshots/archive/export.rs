//! Writes a snapshot to a file, while the packs are read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures::TryStreamExt;
use futures::stream::{self, BoxStream, StreamExt};
use sandbox_api::SnapshotId;
use snapshot_format::archive::{Encoder, Header, OverLimit, Seen, Visit, Walk, WalkError};
use snapshot_format::{ChunkSource, Compressor, ContentReader, Hash, ReadError, Segment};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;

use super::super::chunks::{PackSource, TreeChunkError};
use super::super::pins::Pin;
use super::super::values::values_of;
use super::super::{Snapshots, root_of};
use crate::model::{Refusal, SnapshotRecord, limits};
use crate::packs::{self, Packs};
use crate::service::Authorized;
use crate::service::{Error, SnapshotError};

/// Bytes of chunks that are read and written together.
const BATCH_BYTES: u64 = 4 * 1024 * 1024;

/// Chunks that are read and written together.
const BATCH_CHUNKS: usize = 1024;

/// A snapshot as a file. If a chunk is damaged, it ends with an error. The snapshot cannot be deleted before this is
/// dropped.
pub type SnapshotFile = BoxStream<'static, Result<Bytes, Error>>;

impl Snapshots {
    /// Exports a snapshot. Fails if its first chunks cannot be read.
    pub async fn export(&self, id: &Authorized<SnapshotId>) -> Result<SnapshotFile, Error> {
        let permit = Arc::clone(&self.exports).try_acquire_owned();
        let permit = permit.map_err(|_| {
            Error::Snapshot(SnapshotError::Busy { what: "exports", max: limits::MAX_EXPORTS })
        })?;
        let (record, pin) = self.pinned(id).await?;
        let mut exporter = Exporter::new(self.packs.packs().await?, &record, pin, permit)?;
        let first = exporter.next_batch().await?;
        let rest = stream::try_unfold(exporter, |mut exporter| async move {
            Ok(exporter.next_batch().await?.map(|bytes| (bytes, exporter)))
        });
        Ok(stream::iter(first.map(Ok)).chain(rest).boxed())
    }
}

pub(super) struct Exporter {
    packs: Packs,
    walk: Walk,
    /// The values, which come after the tree.
    values: Option<ContentReader>,
    source: Recorder,
    /// Absent after the end.
    encoder: Option<Encoder>,
    /// Bytes that were encoded and not returned yet.
    out: Vec<u8>,
    _pin: Pin,
    _permit: OwnedSemaphorePermit,
}

impl Exporter {
    pub(super) fn new(
        packs: &Packs,
        record: &SnapshotRecord,
        pin: Pin,
        permit: OwnedSemaphorePermit,
    ) -> Result<Self, Error> {
        let root = root_of(record)?;
        let walk = Walk::new(&root).map_err(ReadError::<TreeChunkError>::Content)?;
        let values = values_of(record)?;
        let header = Header {
            name: record.name.clone(),
            created_at_ms: record.created_at_ms,
            root,
            files: record.files,
            size_bytes: record.size_bytes,
            values: values.clone(),
        };
        let mut out = Vec::new();
        let encoder = Some(Encoder::new(&header, &mut out));
        let source = Recorder { packs: PackSource(packs.clone()), batch: Mutex::default() };
        let values = values.as_ref().map(ContentReader::new).transpose();
        let values = values.map_err(ReadError::<TreeChunkError>::Content)?;
        Ok(Self { packs: packs.clone(), walk, values, source, encoder, out, _pin: pin, _permit: permit })
    }

    /// Returns the next bytes of the file.
    pub(super) async fn next_batch(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(encoder) = self.encoder.take() else { return Ok(None) };
        let is_complete = self.walk_on().await?;
        let chunks: Vec<_> = self.packs.get_many(self.source.take()).try_collect().await?;
        let out = std::mem::take(&mut self.out);
        let encoded = spawn_blocking(move || encode(chunks, encoder, out));
        let (encoder, mut out) = encoded.await.map_err(|source| Error::Task { source })??;
        if is_complete {
            encoder.finish(&mut out);
        } else {
            self.encoder = Some(encoder);
        }
        Ok(Some(out.into()))
    }

    /// Collects the chunks of the next batch. Returns whether they are the last ones.
    async fn walk_on(&mut self) -> Result<bool, Error> {
        while !self.source.is_full() {
            match self.walk.next(&self.source).await? {
                Some(Visit::Segment(Segment::Chunk { hash, length })) => self.source.note(hash, length)?,
                Some(Visit::Segment(Segment::Hole { .. }) | Visit::Entry { .. }) => {}
                None => return self.values_on().await,
            }
        }
        Ok(false)
    }

    /// As [`Self::walk_on`], after the tree.
    async fn values_on(&mut self) -> Result<bool, Error> {
        let Some(values) = &mut self.values else { return Ok(true) };
        while !self.source.is_full() {
            match values.next(&self.source).await.map_err(unread)? {
                Some(Segment::Chunk { hash, length }) => self.source.note(hash, length)?,
                Some(Segment::Hole { .. }) => {}
                None => return Ok(true),
            }
        }
        Ok(false)
    }
}

/// Compresses the chunks again: packs may be encrypted, and a file never is.
fn encode(
    chunks: Vec<(Hash, Bytes)>,
    mut encoder: Encoder,
    mut out: Vec<u8>,
) -> Result<(Encoder, Vec<u8>), Error> {
    let mut compressor = Compressor::new().map_err(packs::Error::System)?;
    for (hash, chunk) in chunks {
        let compressed = compressor.compress(&chunk).map_err(packs::Error::System)?;
        let length = u32::try_from(chunk.len()).unwrap_or(u32::MAX);
        encoder.chunk(hash, length, &compressed, &mut out);
    }
    Ok((encoder, out))
}

/// Reads trees, and notes the chunks in the order in which a reader of the file needs them.
struct Recorder {
    packs: PackSource,
    batch: Mutex<Batch>,
}

#[derive(Default)]
struct Batch {
    seen: Seen,
    chunks: Vec<Hash>,
    bytes: u64,
}

/// Why a tree cannot be exported.
#[derive(Debug, thiserror::Error)]
enum ExportError {
    /// One of its chunks cannot be read.
    #[error(transparent)]
    Chunk(#[from] TreeChunkError),
    /// It is too large.
    #[error(transparent)]
    OverLimit(#[from] OverLimit),
}

impl Recorder {
    fn note(&self, hash: Hash, length: u64) -> Result<(), OverLimit> {
        let mut batch = self.lock();
        if batch.seen.visit(hash, length)? {
            batch.chunks.push(hash);
            batch.bytes += length;
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        let batch = self.lock();
        batch.bytes >= BATCH_BYTES || batch.chunks.len() >= BATCH_CHUNKS
    }

    fn take(&self) -> Vec<Hash> {
        let mut batch = self.lock();
        batch.bytes = 0;
        std::mem::take(&mut batch.chunks)
    }

    /// Nothing panics while it is locked.
    fn lock(&self) -> MutexGuard<'_, Batch> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChunkSource for Recorder {
    type Error = ExportError;

    async fn chunk(&self, hash: Hash, length: u64) -> Result<Bytes, ExportError> {
        self.note(hash, length)?;
        Ok(self.packs.chunk(hash, length).await?)
    }
}

impl From<OverLimit> for Error {
    fn from(OverLimit { what, limit }: OverLimit) -> Self {
        Refusal::TooMany { what: what.into(), limit }.into()
    }
}

impl From<WalkError<ExportError>> for Error {
    fn from(error: WalkError<ExportError>) -> Self {
        match error {
            WalkError::OverLimit(over) => over.into(),
            WalkError::Read { error: error @ ReadError::Chunk(_), .. } => unread(error),
            error => SnapshotError::Damaged { source: Box::new(error) }.into(),
        }
    }
}

/// Not a conversion: the compiler could not tell it from that of other sources where only a content can fail.
fn unread(error: ReadError<ExportError>) -> Error {
    match error {
        ReadError::Chunk(ExportError::OverLimit(over)) => over.into(),
        ReadError::Chunk(ExportError::Chunk(TreeChunkError::Packs(error))) => error.into(),
        error => SnapshotError::Damaged { source: Box::new(error) }.into(),
    }
}
