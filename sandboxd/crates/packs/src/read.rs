//! Reading chunks.

use std::cell::RefCell;

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectStoreExt;
use snapshot_format::{Decompressor, Hash};

use crate::cache::Stored;
use crate::error::blocking;
use crate::path::pack_path;
use crate::plan::{Run, Source, plan};
use crate::{Error, Location, Packs};

/// Number of reads of a stream that are under way at a time.
const READS_AHEAD: usize = 4;

/// Number of chunks that are located at a time.
const LOCATE: usize = 1024;

/// Chunks of this size in total are decompressed on the runtime's worker: handing them over takes longer.
const INLINE_RAW_BYTES: u64 = 64 * 1024;

thread_local! {
    /// Its tables of 160 KiB are kept: creating them takes longer than decompressing a directory.
    static DECOMPRESSOR: RefCell<Option<Decompressor>> = const { RefCell::new(None) };
}

/// The chunks of a run up to the first one that failed.
type Decoded = (Vec<(Hash, Bytes)>, Option<Error>);

impl Packs {
    /// Returns the bytes of a chunk, decompressed and verified.
    ///
    /// Fails with [`Error::Missing`], [`Error::PackMissing`], [`Error::Corrupt`] or [`Error::CutOff`] if the store does not
    /// have these bytes, and with [`Error::Unavailable`] or [`Error::Index`] if it cannot tell. A small chunk that was removed
    /// may be returned from memory for a while.
    pub async fn get(&self, chunk: Hash) -> Result<Bytes, Error> {
        let sources = self.locate(&[chunk]).await?;
        let mut missing = Err(Error::Missing { chunk });
        for mut run in plan(sources) {
            run.is_cached = true;
            let (chunks, failed) = self.read_run(run).await?;
            missing = match (chunks.into_iter().next(), failed) {
                (Some((_, bytes)), _) => Ok(bytes),
                (None, Some(error)) => Err(error),
                (None, None) => missing,
            };
        }
        missing
    }

    /// Returns the bytes of chunks in their order, like [`Self::get`]. Ends after the first error.
    ///
    /// Chunks that are neighbours in a pack are read together. Up to four reads are under way, each of at most 2 MiB in the
    /// pack and 4 MiB decompressed, so a stream holds less than 32 MiB. None of the chunks is put into the cache, because the
    /// bytes of files would remove the directories from it.
    pub fn get_many(&self, chunks: Vec<Hash>) -> BoxStream<'static, Result<(Hash, Bytes), Error>> {
        let (locating, reading) = (self.clone(), self.clone());
        let parts: Vec<Vec<Hash>> = chunks.chunks(LOCATE).map(<[Hash]>::to_vec).collect();
        let runs = stream::iter(parts).then(move |part| {
            let packs = locating.clone();
            async move {
                let sources = packs.locate(&part).await?;
                Ok::<_, Error>(stream::iter(plan(sources).into_iter().map(Ok)))
            }
        });
        let decoded = runs.try_flatten().map(move |run| {
            let packs = reading.clone();
            async move { packs.read_run(run?).await }
        });
        let chunks = decoded.buffered(READS_AHEAD).flat_map(|decoded| {
            let (chunks, failed) = decoded.unwrap_or_else(|error| (Vec::new(), Some(error)));
            stream::iter(chunks.into_iter().map(Ok).chain(failed.map(Err)))
        });
        let until_error = chunks.scan(false, |has_failed, chunk| {
            let next = (!*has_failed).then_some(chunk);
            *has_failed |= next.as_ref().is_some_and(Result::is_err);
            futures::future::ready(next)
        });
        until_error.boxed()
    }

    /// Where chunks come from: the cache, or a pack.
    async fn locate(&self, chunks: &[Hash]) -> Result<Vec<(Hash, Source)>, Error> {
        let cached: Vec<_> = chunks.iter().map(|chunk| self.cache().get(*chunk)).collect();
        let others = chunks.iter().zip(&cached).filter(|(_, cached)| cached.is_none());
        let others: Vec<Hash> = others.map(|(chunk, _)| *chunk).collect();
        let mut located = self.locate_in_packs(&others).await?.into_iter();
        let sources = chunks.iter().zip(cached).map(|(chunk, cached)| match cached {
            Some(stored) => (*chunk, Source::Cached(stored)),
            None => located.next().unwrap_or((*chunk, Source::Missing)),
        });
        Ok(sources.collect())
    }

    async fn locate_in_packs(&self, chunks: &[Hash]) -> Result<Vec<(Hash, Source)>, Error> {
        if chunks.is_empty() {
            return Ok(Vec::new());
        }
        let located = self.index().locate(chunks).await.map_err(Error::Index)?;
        let sources = located.into_iter().map(|location| location.map_or(Source::Missing, Source::Pack));
        Ok(chunks.iter().copied().zip(sources).collect())
    }

    async fn read_run(&self, run: Run) -> Result<Decoded, Error> {
        match self.fetch(&run).await? {
            Some(bytes) => self.decode(run, bytes).await,
            None => self.read_moved(run).await,
        }
    }

    /// Reads a run whose pack does not exist. A collection may have moved its chunks since they were located.
    async fn read_moved(&self, run: Run) -> Result<Decoded, Error> {
        let chunks: Vec<Hash> = run.chunks.iter().map(|(chunk, _)| *chunk).collect();
        let mut decoded = Vec::with_capacity(chunks.len());
        for mut located in plan(self.locate_in_packs(&chunks).await?) {
            located.is_cached = run.is_cached;
            let Some(bytes) = self.fetch(&located).await? else {
                return Ok((decoded, located.first_in_pack().map(|(chunk, at)| pack_missing(chunk, at))));
            };
            let (chunks, failed) = self.decode(located, bytes).await?;
            decoded.extend(chunks);
            if failed.is_some() {
                return Ok((decoded, failed));
            }
        }
        Ok((decoded, None))
    }

    /// The bytes that a run reads, which may be too few. `None` if the pack does not exist.
    pub(crate) async fn fetch(&self, run: &Run) -> Result<Option<Bytes>, Error> {
        let Some((pack, range)) = &run.read else {
            return Ok(Some(Bytes::new()));
        };
        let path = pack_path(*pack);
        let range = u64::from(range.start)..u64::from(range.end);
        match self.store().get_ranges(&path, std::slice::from_ref(&range)).await {
            Ok(ranges) => Ok(Some(ranges.into_iter().next().unwrap_or_default())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(source) => {
                let size = self.store().head(&path).await.map_or(range.end, |found| found.size);
                let cut_off =
                    run.first_beyond(size).map(|(chunk, at)| Error::CutOff { chunk, pack: at.pack });
                Err(cut_off.unwrap_or_else(|| Error::of_store(&path)(source)))
            }
        }
    }

    async fn decode(&self, run: Run, bytes: Bytes) -> Result<Decoded, Error> {
        if run.raw_bytes <= INLINE_RAW_BYTES {
            return Ok(self.decode_run(&run, &bytes));
        }
        let packs = self.clone();
        blocking(move || packs.decode_run(&run, &bytes)).await
    }

    fn decode_run(&self, run: &Run, bytes: &Bytes) -> Decoded {
        let mut decoded = Vec::with_capacity(run.chunks.len());
        let failed = with_decompressor(|decompressor| {
            for (chunk, source) in &run.chunks {
                decoded.push((*chunk, self.decode_chunk(*chunk, source, run, bytes, decompressor)?));
            }
            Ok(())
        });
        (decoded, failed.err())
    }

    fn decode_chunk(
        &self,
        chunk: Hash,
        source: &Source,
        run: &Run,
        bytes: &Bytes,
        decompressor: &mut Decompressor,
    ) -> Result<Bytes, Error> {
        match source {
            Source::Missing => Err(Error::Missing { chunk }),
            Source::Cached(Stored { compressed, raw_len }) => {
                let decoded = decompressor.verified(chunk, *raw_len as usize, compressed);
                // Memory is not a pack, and its bytes were verified when they were put there.
                decoded.map_err(|error| Error::System(std::io::Error::other(error)))
            }
            Source::Pack(at) => {
                let stored = run.stored(at, bytes).ok_or(Error::CutOff { chunk, pack: at.pack })?;
                let decoded = decompressor.verified(chunk, at.raw_len as usize, stored);
                let decoded = decoded.map_err(|source| Error::Corrupt { chunk, pack: at.pack, source })?;
                if run.is_cached {
                    self.cache().insert(chunk, at.raw_len, stored);
                }
                Ok(decoded)
            }
        }
    }
}

impl Run {
    /// The compressed bytes of a chunk. `bytes` are what the run has read.
    pub(crate) fn stored<'b>(&self, at: &Location, bytes: &'b Bytes) -> Option<&'b [u8]> {
        let (_, range) = self.read.as_ref()?;
        let from = at.offset.checked_sub(range.start)? as usize;
        bytes.get(from..from + at.stored_len as usize)
    }

    fn first_in_pack(&self) -> Option<(Hash, Location)> {
        self.first_beyond(0)
    }

    /// The first chunk that is not within the first `size` bytes of its pack.
    fn first_beyond(&self, size: u64) -> Option<(Hash, Location)> {
        self.chunks.iter().find_map(|(chunk, source)| match source {
            Source::Pack(at) if u64::from(at.end()) > size => Some((*chunk, *at)),
            _ => None,
        })
    }
}

/// Lends the decompressor of this thread. `with` must not ask for it again.
fn with_decompressor<T>(with: impl FnOnce(&mut Decompressor) -> Result<T, Error>) -> Result<T, Error> {
    DECOMPRESSOR.with_borrow_mut(|kept| match kept {
        Some(decompressor) => with(decompressor),
        None => with(kept.insert(Decompressor::new().map_err(Error::System)?)),
    })
}

fn pack_missing(chunk: Hash, at: Location) -> Error {
    Error::PackMissing { chunk, pack: at.pack }
}
