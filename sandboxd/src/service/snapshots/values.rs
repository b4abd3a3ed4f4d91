//! The values that are kept with sandboxes by key, as a part of snapshots.
//!
//! They are encoded and cut into chunks like a file ([`snapshot_format::values`]), so the packs store, share, protect and
//! check them like everything else of a snapshot. Agents know nothing of them: what an agent sends cannot name their chunks
//! ([`super::receive`]).
//!
//! A snapshot of an older version does not have them. That says nothing about the values that the sandbox had, so such a
//! snapshot never changes values.

use std::io;
use std::sync::Arc;

use futures::TryStreamExt;
use prost::Message;
use sandbox_api::SandboxId;
use snapshot_format::values::{InvalidValues, Value, ValueDecoder, ValueEncoder};
use snapshot_format::{
    Chunker, Compressor, Content, ContentBuilder, ContentReader, Hash, ReadError, Segment,
};
use tokio::sync::{MutexGuard, OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use super::chunks::{PackSource, TreeChunkError};
use crate::model::value::{KeptValue, ValueTotals};
use crate::model::{FieldError, SnapshotRecord, limits};
use crate::packs::{self, NewChunk, Packs, Writer};
use crate::service::clock::now_ms;
use crate::service::lifecycle::{Sandbox, ValueLedger};
use crate::service::quotas::{Charge, Quotas};
use crate::service::{Error, SnapshotError};
use crate::store::Store;

/// Reads the values of sandboxes and of snapshots, and replaces those of sandboxes. Clones share the memory.
#[derive(Debug, Clone)]
pub(super) struct SnapshotValues {
    store: Arc<Store>,
    quotas: Arc<Quotas>,
    /// One permit for each byte that may be in memory.
    memory: Arc<Semaphore>,
}

/// The values of a snapshot, in memory.
#[derive(Debug)]
pub(super) struct LoadedValues {
    values: Vec<KeptValue>,
    totals: ValueTotals,
    _memory: OwnedSemaphorePermit,
}

/// All values of a sandbox, which may be about to be replaced. Other changes wait until this is dropped.
pub(super) struct AllValues<'a> {
    context: &'a SnapshotValues,
    sandbox: &'a Sandbox,
    ledger: MutexGuard<'a, ValueLedger>,
    /// What the sandbox gets. `None` keeps what it has.
    goal: Option<LoadedValues>,
}

/// Why the values of a snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Rejected {
    /// They are not encoded as values are.
    #[error(transparent)]
    Encoding(#[from] InvalidValues),
    /// A key that no value can have.
    #[error("a value has no valid key")]
    Key(#[source] FieldError),
    /// A time before the Unix epoch.
    #[error("the time of a value is not valid")]
    Time,
    /// They have a hole, like a file.
    #[error("its values have a hole")]
    Hole,
    /// They exceed a limit of values.
    #[error("its values have more than {limit} {what}")]
    OverLimit {
        /// What is limited.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
}

/// The encoded content of a snapshot's values.
pub(super) fn values_of(record: &SnapshotRecord) -> Result<Option<Content>, Error> {
    let content = record.values.as_deref().map(Content::decode).transpose();
    content.map_err(|source| SnapshotError::Damaged { source: Box::new(source) }.into())
}

impl SnapshotValues {
    pub(super) fn new(store: &Arc<Store>, quotas: &Arc<Quotas>) -> Self {
        let memory = Arc::new(Semaphore::new(limits::VALUES_MEMORY_BYTES as usize));
        Self { store: Arc::clone(store), quotas: Arc::clone(quotas), memory }
    }

    /// Stores what is kept with a sandbox now, at one point in time.
    pub(super) async fn put(&self, writer: &mut Writer, sandbox: &SandboxId) -> Result<Content, Error> {
        let totals = self.store.value_totals_of(sandbox).await?;
        if totals.values == 0 {
            return Ok(Content::default());
        }
        let _memory = self.reserve(totals.bytes).await?;
        let values = self.store.values(sandbox).await?;
        let cut = spawn_blocking(move || cut(values)).await.map_err(|source| Error::Task { source })?;
        let (content, chunks) = cut.map_err(packs::Error::System)?;
        writer.put_all(chunks).await?;
        Ok(content)
    }

    /// Reads the values of a snapshot.
    pub(super) async fn load(&self, packs: &Packs, content: &Content) -> Result<LoadedValues, Error> {
        let mut reader = ValueReader::new(content)?;
        let _memory = self.reserve(content.size).await?;
        let source = PackSource(packs.clone());
        let mut segments = ContentReader::new(content).map_err(ReadError::<TreeChunkError>::Content)?;
        let mut chunks = Vec::new();
        while let Some(segment) = segments.next(&source).await? {
            chunks.push(reader.chunk(segment)?);
        }
        let mut read = packs.get_many(chunks.iter().map(|(hash, _)| *hash).collect());
        let mut values = Vec::new();
        for (hash, length) in chunks {
            // The stream has one for each chunk, or an error.
            let found = read.try_next().await?.filter(|(_, bytes)| bytes.len() as u64 == length);
            let (_, bytes) = found.ok_or(ReadError::Chunk(TreeChunkError::Length { hash }))?;
            reader.push(&bytes, |value| values.push(value))?;
        }
        Ok(LoadedValues { values, totals: reader.finish()?, _memory })
    }

    /// Locks the values of a sandbox.
    pub(super) async fn all_of<'a>(&'a self, sandbox: &'a Sandbox) -> AllValues<'a> {
        AllValues { context: self, sandbox, ledger: sandbox.values().lock().await, goal: None }
    }

    /// Gives a new sandbox its values.
    pub(super) async fn give(&self, sandbox: &Sandbox, values: LoadedValues) -> Result<(), Error> {
        let mut all = self.all_of(sandbox).await;
        all.begin(values).await?;
        if let Some(goal) = &all.goal {
            self.store.replace_values(sandbox.id(), &goal.values).await?;
        }
        all.replaced();
        Ok(())
    }

    /// Waits until there is memory for values of this size.
    async fn reserve(&self, bytes: u64) -> Result<OwnedSemaphorePermit, Error> {
        // Bounded, so it fits, and there are enough permits.
        let permits = bytes.min(limits::MAX_ENCODED_VALUES_BYTES) as u32;
        let reserved = Arc::clone(&self.memory).acquire_many_owned(permits).await;
        reserved.map_err(|error| packs::Error::System(io::Error::other(error)).into())
    }

    fn charge(&self, sandbox: &Sandbox, totals: ValueTotals) -> Charge {
        self.quotas.existing_values(&sandbox.owner().project, totals.bytes)
    }
}

impl AllValues<'_> {
    /// Charges the project for what the sandbox gets. Fails if its quota does not permit that.
    pub(super) async fn begin(&mut self, goal: LoadedValues) -> Result<(), Error> {
        let (context, sandbox) = (self.context, self.sandbox);
        let before = self.ledger.present(&context.store, sandbox.id()).await?;
        self.ledger.begin(before, goal.totals, || context.charge(sandbox, before))?;
        self.goal = Some(goal);
        Ok(())
    }

    /// As [`Self::begin`], for a change that must not fail any more.
    pub(super) fn begin_anyway(&mut self, goal: LoadedValues) {
        self.goal = Some(goal);
    }

    /// What the sandbox gets.
    pub(super) fn goal(&self) -> Option<&[KeptValue]> {
        self.goal.as_ref().map(|goal| &*goal.values)
    }

    /// Notes that the sandbox keeps what it has.
    pub(super) async fn keep(&mut self) {
        // Without an answer, the next change asks again, and the project is charged for both until then.
        if self.goal.take().is_some()
            && let Ok(totals) = self.context.store.value_totals_of(self.sandbox.id()).await
        {
            self.ledger.replace(totals, self.context.charge(self.sandbox, totals));
        }
    }

    /// Notes that the sandbox has what it should get.
    pub(super) fn replaced(mut self) {
        if let Some(LoadedValues { totals, .. }) = self.goal {
            self.ledger.replace(totals, self.context.charge(self.sandbox, totals));
        }
    }
}

/// Encodes values, and cuts them into chunks. Returns those of the nodes too.
fn cut(values: Vec<KeptValue>) -> io::Result<(Content, Vec<NewChunk>)> {
    let values = values.into_iter().map(|KeptValue { key, value, updated_at_ms }| Value {
        key: key.to_string(),
        bytes: value.into(),
        updated_at_ms,
    });
    let (mut compressor, mut chunks) = (Compressor::new()?, Vec::new());
    let mut add = |chunk: &[u8]| {
        let (hash, compressed) = (Hash::of(chunk), compressor.compress(chunk)?);
        // A chunk is much shorter than 4 GiB.
        let raw_len = u32::try_from(chunk.len()).map_err(io::Error::other)?;
        chunks.push(NewChunk { hash, raw_len, compressed });
        Ok::<Hash, io::Error>(hash)
    };
    let mut builder = ContentBuilder::default();
    Chunker::default().cut(ValueEncoder::new(values), u64::MAX, |chunk| {
        let segment = Segment::Chunk { hash: add(chunk)?, length: chunk.len() as u64 };
        builder.push(&segment, &mut add)
    })?;
    Ok((builder.finish(add)?, chunks))
}

/// Decodes the values of a snapshot from their chunks, within the limits of values.
pub(super) struct ValueReader {
    decoder: ValueDecoder,
    totals: ValueTotals,
    chunks: usize,
}

impl ValueReader {
    /// Reads the values with this content.
    pub(super) fn new(content: &Content) -> Result<Self, Rejected> {
        within(content.size, limits::MAX_ENCODED_VALUES_BYTES, "encoded bytes")?;
        Ok(Self { decoder: ValueDecoder::default(), totals: ValueTotals::default(), chunks: 0 })
    }

    /// Returns the chunk of the next part, with its length.
    pub(super) fn chunk(&mut self, segment: Segment) -> Result<(Hash, u64), Rejected> {
        self.chunks += 1;
        within(self.chunks as u64, limits::MAX_VALUES_CHUNKS as u64, "chunks")?;
        match segment {
            Segment::Chunk { hash, length } => Ok((hash, length)),
            Segment::Hole { .. } => Err(Rejected::Hole),
        }
    }

    /// Decodes what is complete with the bytes of the next chunk.
    pub(super) fn push(&mut self, chunk: &[u8], mut each: impl FnMut(KeptValue)) -> Result<(), Rejected> {
        self.decoder.push(chunk);
        while let Some(value) = self.decoder.next_value()? {
            let value = kept(value)?;
            self.totals = self.totals.with(ValueTotals::of(std::slice::from_ref(&value)));
            within(self.totals.values, limits::MAX_VALUES, "values")?;
            within(self.totals.bytes, limits::MAX_VALUES_BYTES, "bytes of keys and values")?;
            each(value);
        }
        Ok(())
    }

    /// Checks that they are complete.
    pub(super) fn finish(self) -> Result<ValueTotals, Rejected> {
        self.decoder.finish()?;
        Ok(self.totals)
    }
}

fn kept(Value { key, bytes, updated_at_ms }: Value) -> Result<KeptValue, Rejected> {
    within(bytes.len() as u64, limits::MAX_VALUE_BYTES as u64, "bytes in one value")?;
    if updated_at_ms < 0 {
        return Err(Rejected::Time);
    }
    // The clock of another daemon may be ahead.
    let updated_at_ms = updated_at_ms.min(now_ms());
    Ok(KeptValue { key: key.parse().map_err(Rejected::Key)?, value: bytes.into(), updated_at_ms })
}

fn within(number: u64, limit: u64, what: &'static str) -> Result<(), Rejected> {
    if number <= limit { Ok(()) } else { Err(Rejected::OverLimit { what, limit }) }
}

impl From<Rejected> for Error {
    fn from(rejected: Rejected) -> Self {
        SnapshotError::Damaged { source: Box::new(rejected) }.into()
    }
}
