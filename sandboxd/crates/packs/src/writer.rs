//! Writing the chunks of a snapshot.

use std::collections::HashMap;

use bytes::Bytes;
use snapshot_format::compression::MAX_COMPRESSED_BYTES;
use snapshot_format::{Decompressor, Hash, MAX_CHUNK_BYTES};

use crate::error::blocking;
use crate::pack::{PackBuilder, SealedPack};
use crate::{Error, Lease, Packs};

/// Number of chunks that are looked up in the index at a time.
const BATCH: usize = 1024;

/// A chunk to store. The caller has verified that its bytes have this hash and length.
#[derive(Debug, Clone)]
pub struct NewChunk {
    /// The chunk's name.
    pub hash: Hash,
    /// Its size in bytes, at most [`MAX_CHUNK_BYTES`].
    pub raw_len: u32,
    /// Its bytes, compressed to at most [`MAX_COMPRESSED_BYTES`].
    pub compressed: Bytes,
}

/// Writes the chunks of a snapshot. Holds at most one pack in memory.
///
/// Nothing counts as stored before [`Self::finish`] has returned. After a call that failed or was cancelled, every further
/// call fails with [`Error::WriterFailed`].
#[derive(Debug)]
pub struct Writer {
    packs: Packs,
    lease: Lease,
    pack: Option<PackBuilder>,
    /// Position of each chunk in the open pack.
    positions: HashMap<Hash, usize>,
    has_failed: bool,
    /// See [`Packs::losses`], at the beginning.
    losses: u64,
    new_chunks: u64,
    new_bytes: u64,
}

/// Amount of data that a writer has stored.
#[derive(Debug)]
pub struct Finished {
    /// Number of chunks that the store did not have.
    pub new_chunks: u64,
    /// Their size in bytes, compressed.
    pub new_bytes: u64,
    /// Protects the chunks until the snapshot is recorded. Drop it afterwards.
    pub lease: Lease,
}

impl Packs {
    /// Starts writing the chunks of a snapshot. A snapshot that is made of others' chunks needs a writer too, which claims
    /// them.
    pub fn writer(&self) -> Writer {
        Writer::new(self.clone(), self.leases().open())
    }
}

impl Writer {
    fn new(packs: Packs, lease: Lease) -> Self {
        let (positions, losses) = (HashMap::new(), packs.losses());
        Self { packs, lease, pack: None, positions, has_failed: false, losses, new_chunks: 0, new_bytes: 0 }
    }

    /// Returns for each chunk whether it is stored already. Those are protected from collections while the writer or its
    /// lease exists, so the snapshot may refer to them. The others must be put.
    pub async fn claim(&mut self, chunks: &[Hash]) -> Result<Vec<bool>, Error> {
        self.check_usable()?;
        let mut known = Vec::with_capacity(chunks.len());
        for part in chunks.chunks(BATCH) {
            let stored = self.packs.index().mark(self.lease.generation(), part).await;
            let stored = stored.map_err(Error::Index)?;
            known.extend(
                part.iter()
                    .zip(stored)
                    .map(|(chunk, is_stored)| is_stored || self.positions.contains_key(chunk)),
            );
        }
        Ok(known)
    }

    /// Stores a chunk of `raw_len` bytes unless it is stored already. Returns whether it is new. For many chunks,
    /// [`Self::put_all`] is much faster.
    pub async fn put(&mut self, hash: Hash, raw_len: u32, compressed: Bytes) -> Result<bool, Error> {
        let new = self.put_all(vec![NewChunk { hash, raw_len, compressed }]).await?;
        Ok(new.contains(&true))
    }

    /// Stores the chunks that are not stored already. Returns for each whether it is new.
    pub async fn put_all(&mut self, chunks: Vec<NewChunk>) -> Result<Vec<bool>, Error> {
        self.check_usable()?;
        chunks.iter().try_for_each(check_size)?;
        let hashes: Vec<Hash> = chunks.iter().map(|chunk| chunk.hash).collect();
        let known = self.claim(&hashes).await?;
        let mut new = Vec::with_capacity(chunks.len());
        for (chunk, is_known) in chunks.into_iter().zip(known) {
            let is_new = !is_known && !self.positions.contains_key(&chunk.hash);
            if is_new {
                self.push(&chunk).await?;
            }
            new.push(is_new);
        }
        Ok(new)
    }

    /// Returns the bytes of a chunk, like [`Packs::get`]. It may also be a chunk that this writer has not stored yet.
    pub async fn get(&self, chunk: Hash) -> Result<Bytes, Error> {
        let position = self.positions.get(&chunk);
        let open = position.zip(self.pack.as_ref()).and_then(|(position, pack)| pack.chunk(*position));
        let Some((entry, compressed)) = open else {
            return self.packs.get(chunk).await;
        };
        let mut decompressor = Decompressor::new().map_err(Error::System)?;
        let decoded = decompressor.verified(chunk, entry.raw_len as usize, compressed);
        decoded.map_err(|error| Error::System(std::io::Error::other(error)))
    }

    /// Stores the rest. When this returns, all chunks are durable.
    pub async fn finish(mut self) -> Result<Finished, Error> {
        self.check_usable()?;
        self.seal().await?;
        // A chunk that was found at first may be among the lost ones.
        if self.packs.losses() != self.losses {
            return Err(Error::ChunksLost);
        }
        let Self { new_chunks, new_bytes, lease, .. } = self;
        Ok(Finished { new_chunks, new_bytes, lease })
    }

    fn check_usable(&self) -> Result<(), Error> {
        if self.has_failed { Err(Error::WriterFailed) } else { Ok(()) }
    }

    async fn push(&mut self, chunk: &NewChunk) -> Result<(), Error> {
        if self.pack.as_ref().is_some_and(|pack| !pack.has_room_for(chunk.compressed.len())) {
            self.seal().await?;
        }
        let pack = match &mut self.pack {
            Some(pack) => pack,
            None => self.pack.insert(PackBuilder::new(nonce()?)),
        };
        let position = pack.push(chunk.hash, chunk.raw_len, &chunk.compressed);
        self.positions.insert(chunk.hash, position);
        self.new_chunks += 1;
        self.new_bytes += chunk.compressed.len() as u64;
        self.packs.cache().insert(chunk.hash, chunk.raw_len, &chunk.compressed);
        Ok(())
    }

    /// Stores the open pack, and then records it.
    async fn seal(&mut self) -> Result<(), Error> {
        let Some(pack) = self.pack.take() else {
            return Ok(());
        };
        // Set while the pack is on its way: if this future is dropped, its chunks are lost.
        self.has_failed = true;
        let sealed = blocking(|| pack.seal()).await?;
        self.store(&sealed).await?;
        self.positions.clear();
        self.has_failed = false;
        Ok(())
    }

    async fn store(&self, pack: &SealedPack) -> Result<(), Error> {
        self.packs.put_pack(pack).await?;
        let generation = self.lease.generation();
        self.packs.index().record(generation, &pack.info, &pack.chunks).await.map_err(Error::Index)?;
        self.packs.settle(pack.info.name);
        Ok(())
    }
}

/// Random bytes for the header of a pack.
pub(crate) fn nonce() -> Result<[u8; 16], Error> {
    let mut nonce = [0; 16];
    getrandom::fill(&mut nonce).map_err(|error| Error::System(error.into()))?;
    Ok(nonce)
}

fn check_size(chunk: &NewChunk) -> Result<(), Error> {
    let (raw_len, stored_len) = (u64::from(chunk.raw_len), chunk.compressed.len() as u64);
    if raw_len > MAX_CHUNK_BYTES as u64 || stored_len > MAX_COMPRESSED_BYTES as u64 {
        return Err(Error::ChunkTooLarge { chunk: chunk.hash, raw_len, stored_len });
    }
    Ok(())
}
