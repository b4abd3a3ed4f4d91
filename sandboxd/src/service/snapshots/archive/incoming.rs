//! The chunks of a file that is imported. Each is verified before anything depends on it.

use std::collections::HashMap;

use bytes::Bytes;
use futures::TryStreamExt;
use futures::stream::BoxStream;
use snapshot_format::archive::{ChunkRecord, Decoder, Header, InvalidArchive, OverLimit, Part, Seen};
use snapshot_format::compression::CorruptChunk;
use snapshot_format::{ChunkSource, Decompressor, Hash};
use tokio::sync::Mutex;
use tokio::task::{JoinError, spawn_blocking};

use crate::packs::{self, Finished, NewChunk, Packs, Writer};

/// Bytes of chunks that are stored together.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// Chunks that are stored together.
const BATCH_CHUNKS: usize = 1024;

/// Why the next chunk of a file is not available.
#[derive(Debug, thiserror::Error)]
pub(super) enum IncomingError {
    /// The file is not an archive.
    #[error(transparent)]
    Invalid(#[from] InvalidArchive),
    /// A chunk has other bytes than its name says.
    #[error(transparent)]
    Corrupt(#[from] CorruptChunk),
    /// Another chunk comes next than the tree needs.
    #[error("the chunk {found} is not the one that comes next, {expected}")]
    Unexpected {
        /// The chunk that the tree needs.
        expected: Hash,
        /// The chunk in the file.
        found: Hash,
    },
    /// The file ends before the tree is complete.
    #[error("the chunk {0} is missing")]
    Missing(Hash),
    /// A chunk is named with another length than it has.
    #[error("the chunk {0} has another length than its name says")]
    Length(Hash),
    /// The file ends with chunks that the tree does not name.
    #[error("it has a chunk that nothing refers to")]
    Unused,
    /// The tree is too large.
    #[error(transparent)]
    OverLimit(#[from] OverLimit),
    /// The packs cannot store it.
    #[error(transparent)]
    Packs(#[from] packs::Error),
    /// A task was cancelled.
    #[error("a task of the import has failed")]
    Task(#[source] JoinError),
    /// The file could not be received. [`Incoming::into_cause`] has the reason.
    #[error("the file could not be received")]
    Source,
}

/// A file that is being received.
pub(super) struct Incoming<E>(Mutex<State<E>>);

struct State<E> {
    content: BoxStream<'static, Result<Bytes, E>>,
    /// Why the content has ended.
    cause: Option<E>,
    decoder: Decoder,
    decompressor: Decompressor,
    seen: Seen,
    writer: Writer,
    /// Chunks that are not passed to the writer yet.
    verified: Vec<NewChunk>,
    unverified: Vec<ChunkRecord>,
    batch_bytes: usize,
    /// Bytes of the chunks of directories among these.
    directories: HashMap<Hash, Bytes>,
}

impl<E: Send + 'static> Incoming<E> {
    pub(super) fn new(
        packs: &Packs,
        content: BoxStream<'static, Result<Bytes, E>>,
    ) -> Result<Self, packs::Error> {
        Ok(Self(Mutex::new(State {
            content,
            cause: None,
            decoder: Decoder::default(),
            decompressor: Decompressor::new().map_err(packs::Error::System)?,
            seen: Seen::default(),
            writer: packs.writer(),
            verified: Vec::new(),
            unverified: Vec::new(),
            batch_bytes: 0,
            directories: HashMap::new(),
        })))
    }

    /// Receives the first part.
    pub(super) async fn header(&self) -> Result<Header, IncomingError> {
        match self.0.lock().await.part().await? {
            Part::Header(header) => Ok(header),
            Part::Chunk(_) | Part::End => Err(InvalidArchive::Header.into()),
        }
    }

    /// Receives the next chunk of a file, unless it has come before.
    pub(super) async fn data(&self, hash: Hash, length: u64) -> Result<(), IncomingError> {
        let mut state = self.0.lock().await;
        if !state.seen.visit(hash, length)? {
            return Ok(());
        }
        let record = state.chunk(hash, length).await?;
        state.batch_bytes += record.compressed.len();
        state.unverified.push(record);
        state.flush_if_full().await
    }

    /// Receives the end, and stores everything.
    pub(super) async fn finish(&self) -> Result<(), IncomingError> {
        let mut state = self.0.lock().await;
        match state.part().await? {
            Part::End => {}
            Part::Chunk(_) | Part::Header(_) => return Err(IncomingError::Unused),
        }
        while let Some(bytes) = state.receive().await? {
            state.decoder.push(&bytes);
            state.decoder.finish()?;
        }
        state.decoder.finish()?;
        state.flush().await
    }

    /// Seals the chunks. They are protected until the result is dropped.
    pub(super) async fn seal(self) -> Result<Finished, packs::Error> {
        self.0.into_inner().writer.finish().await
    }

    /// Why the content has ended, after [`IncomingError::Source`].
    pub(super) fn into_cause(self) -> Option<E> {
        self.0.into_inner().cause
    }
}

impl<E: Send + 'static> State<E> {
    async fn receive(&mut self) -> Result<Option<Bytes>, IncomingError> {
        self.content.try_next().await.map_err(|cause| {
            self.cause = Some(cause);
            IncomingError::Source
        })
    }

    async fn part(&mut self) -> Result<Part, IncomingError> {
        loop {
            if let Some(part) = self.decoder.next_part()? {
                return Ok(part);
            }
            match self.receive().await? {
                Some(bytes) => self.decoder.push(&bytes),
                None => return Err(InvalidArchive::CutOff.into()),
            }
        }
    }

    /// Receives the chunk that the tree needs next.
    async fn chunk(&mut self, hash: Hash, length: u64) -> Result<ChunkRecord, IncomingError> {
        match self.part().await? {
            Part::Chunk(record) if record.hash != hash => {
                Err(IncomingError::Unexpected { expected: hash, found: record.hash })
            }
            Part::Chunk(record) if u64::from(record.length) != length => Err(IncomingError::Length(hash)),
            Part::Chunk(record) => Ok(record),
            Part::Header(_) | Part::End => Err(IncomingError::Missing(hash)),
        }
    }

    /// Returns the bytes of a directory's chunk, or of a node.
    async fn directory(&mut self, hash: Hash, length: u64) -> Result<Bytes, IncomingError> {
        if !self.seen.visit(hash, length)? {
            return self.known(hash).await;
        }
        let ChunkRecord { length, compressed, .. } = self.chunk(hash, length).await?;
        let bytes = self.decompressor.verified(hash, length as usize, &compressed)?;
        self.batch_bytes += compressed.len() + bytes.len();
        self.verified.push(NewChunk { hash, raw_len: length, compressed });
        self.directories.insert(hash, bytes.clone());
        self.flush_if_full().await?;
        Ok(bytes)
    }

    async fn known(&mut self, hash: Hash) -> Result<Bytes, IncomingError> {
        if let Some(bytes) = self.directories.get(&hash) {
            return Ok(bytes.clone());
        }
        self.flush().await?;
        Ok(self.writer.get(hash).await?)
    }

    async fn flush_if_full(&mut self) -> Result<(), IncomingError> {
        let chunks = self.verified.len() + self.unverified.len();
        if self.batch_bytes < BATCH_BYTES && chunks < BATCH_CHUNKS { Ok(()) } else { self.flush().await }
    }

    /// Passes all chunks to the writer.
    async fn flush(&mut self) -> Result<(), IncomingError> {
        let mut chunks = std::mem::take(&mut self.verified);
        let unverified = std::mem::take(&mut self.unverified);
        if !unverified.is_empty() {
            let verified = spawn_blocking(move || verify(unverified));
            chunks.extend(verified.await.map_err(IncomingError::Task)??);
        }
        self.directories.clear();
        self.batch_bytes = 0;
        if !chunks.is_empty() {
            self.writer.put_all(chunks).await?;
        }
        Ok(())
    }
}

fn verify(records: Vec<ChunkRecord>) -> Result<Vec<NewChunk>, IncomingError> {
    let mut decompressor = Decompressor::new().map_err(packs::Error::System)?;
    let verified = records.into_iter().map(|ChunkRecord { hash, length, compressed }| {
        decompressor.verified(hash, length as usize, &compressed)?;
        Ok(NewChunk { hash, raw_len: length, compressed })
    });
    verified.collect()
}

impl<E: Send + 'static> ChunkSource for Incoming<E> {
    type Error = IncomingError;

    async fn chunk(&self, hash: Hash, length: u64) -> Result<Bytes, IncomingError> {
        // Received data is ready at once. Without this, a large tree would block its thread until the end.
        tokio::task::consume_budget().await;
        self.0.lock().await.directory(hash, length).await
    }
}
