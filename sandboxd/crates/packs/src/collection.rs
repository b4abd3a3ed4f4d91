//! Removing chunks that no snapshot refers to. The crate's documentation has the protocol.

use futures::TryStreamExt;
use futures::stream::StreamExt;
use object_store::path::Path;
use snapshot_format::{Decompressor, Hash};

use crate::error::blocking;
use crate::pack::{PackBuilder, is_mostly_dead};
use crate::path::{PACKS, pack_name, pack_path};
use crate::plan::{Run, Source, plan};
use crate::writer::nonce;
use crate::{Error, Generation, PackInfo, Packs};

/// Number of chunks that are marked at a time.
const MARK: usize = 1024;

/// Number of packs that are read from the index at a time.
const PAGE: u32 = 256;

/// A collection that has begun. Dropping it leaves marks, which have no effect on their own.
#[derive(Debug)]
pub struct Collection {
    packs: Packs,
    generation: Generation,
    keep_from: Generation,
    is_partial: bool,
}

/// Result of a sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Number of packs that were removed, rewritten ones included.
    pub removed_packs: u64,
    /// Their size in bytes.
    pub removed_bytes: u64,
    /// Number of packs that were written for the chunks of others.
    pub new_packs: u64,
    /// Their size in bytes.
    pub new_bytes: u64,
    /// Number of chunks in use that could not be moved, because they are missing or damaged.
    pub damaged_chunks: u64,
}

impl Packs {
    /// Begins a collection. Afterwards, list the snapshots and [mark](Collection::mark) their chunks.
    ///
    /// The first one after the opening continues one that was interrupted: chunks that it has marked are not written again.
    pub async fn begin_collection(&self) -> Result<Collection, Error> {
        let is_first = self.take_first_collection();
        let last = self.index().generation().await.map_err(Error::Index)?;
        let generation = self.index().begin_collection(is_first).await.map_err(Error::Index)?;
        let keep_from = self.leases().advance(generation);
        let is_partial = generation == last || keep_from < generation;
        Ok(Collection { packs: self.clone(), generation, keep_from, is_partial })
    }

    /// Removes packs that the index does not have and no writer is about to record: those of writers that were dropped, and
    /// those whose removal a crash interrupted. Returns how many. Fails with [`Error::IndexIncomplete`] while the index does
    /// not list all packs.
    pub async fn remove_strays(&self) -> Result<u64, Error> {
        let _permit = self.maintenance().await?;
        if !self.is_complete().await? {
            return Err(Error::IndexIncomplete);
        }
        let mut removed = 0;
        let mut pages = self.store().list(Some(&Path::from(PACKS))).try_chunks(PAGE as usize);
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| Error::of_store(PACKS)(error.1))?;
            let names = page.iter().filter_map(|found| pack_name(&found.location)).collect();
            for stray in self.strays(names).await? {
                self.delete(&pack_path(stray)).await?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Returns the strays among these packs of the store.
    async fn strays(&self, mut packs: Vec<Hash>) -> Result<Vec<Hash>, Error> {
        // Before the index is read: a pack that is no longer under way is recorded by then.
        packs.retain(|pack| !self.is_under_way(*pack));
        let known = self.index().has_packs(&packs).await.map_err(Error::Index)?;
        Ok(packs.into_iter().zip(known).filter(|(_, is_known)| !is_known).map(|(pack, _)| pack).collect())
    }
}

impl Collection {
    /// Number of the collection.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Whether it keeps some chunks that no snapshot has: those that were stored since it was interrupted, or that a writer
    /// may refer to. The next one may remove them.
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Marks chunks as in use. Returns for each whether the index has it: one that it does not have is lost.
    pub async fn mark(&self, chunks: &[Hash]) -> Result<Vec<bool>, Error> {
        let mut known = Vec::with_capacity(chunks.len());
        for part in chunks.chunks(MARK) {
            known.extend(self.packs.index().mark(self.generation, part).await.map_err(Error::Index)?);
        }
        Ok(known)
    }

    /// Removes what is not in use: packs without a chunk in use, and the dead part of packs that are mostly dead, whose other
    /// chunks move to new packs. Every chunk of every snapshot must have been marked.
    ///
    /// If it fails or is cancelled, what was done until then is complete, and it can be repeated.
    pub async fn sweep(&self) -> Result<Swept, Error> {
        let _permit = self.packs.maintenance().await?;
        let mut sweep = Sweep::new(self);
        let mut after = None;
        loop {
            let page = self.packs.index().packs(self.keep_from, after, PAGE).await.map_err(Error::Index)?;
            for used in &page {
                match used.live_chunks {
                    0 => sweep.remove(used.pack).await?,
                    _ if is_mostly_dead(used) => sweep.rewrite(used.pack).await?,
                    _ => {}
                }
            }
            match page.last() {
                Some(last) => after = Some(last.pack.name),
                None => break,
            }
        }
        sweep.finish().await
    }
}

/// A sweep under way, and the new pack that it fills.
struct Sweep<'c> {
    collection: &'c Collection,
    pack: Option<PackBuilder>,
    /// The packs whose chunks were copied since the last new pack, and how many of the new pack's chunks were copied before
    /// and including each.
    sources: Vec<(PackInfo, usize)>,
    copied: usize,
    swept: Swept,
}

impl<'c> Sweep<'c> {
    fn new(collection: &'c Collection) -> Self {
        Self { collection, pack: None, sources: Vec::new(), copied: 0, swept: Swept::default() }
    }

    fn packs(&self) -> &'c Packs {
        &self.collection.packs
    }

    /// Removes a pack, unless a writer uses one of its chunks by now.
    ///
    /// The pack is removed from the index first. If the daemon is killed in between, the object is a stray, which is
    /// harmless. In the other order, the index would list chunks that no longer exist, and writers would refer to them.
    async fn remove(&mut self, pack: PackInfo) -> Result<(), Error> {
        let index = self.packs().index();
        let is_removed = index.remove_pack(pack.name, Some(self.collection.keep_from)).await;
        if is_removed.map_err(Error::Index)? {
            sandboxd_seam::at("collect.forgotten");
            self.packs().delete(&pack_path(pack.name)).await?;
            self.swept.removed_packs += 1;
            self.swept.removed_bytes += u64::from(pack.size_bytes);
        }
        Ok(())
    }

    /// Copies the chunks of `from` that are in use to the new pack.
    async fn rewrite(&mut self, from: PackInfo) -> Result<(), Error> {
        let live = self.packs().index().chunks_of(from.name, self.collection.keep_from).await;
        let live = live.map_err(Error::Index)?.into_iter();
        for run in plan(live.map(|(chunk, at)| (chunk, Source::Pack(at)))) {
            for (chunk, raw_len, compressed) in self.read(run).await? {
                if self.pack.as_ref().is_some_and(|pack| !pack.has_room_for(compressed.len())) {
                    self.sources.push((from, self.copied));
                    self.seal().await?;
                }
                let pack = match &mut self.pack {
                    Some(pack) => pack,
                    None => self.pack.insert(PackBuilder::new(nonce()?)),
                };
                pack.push(chunk, raw_len, &compressed);
                self.copied += 1;
            }
        }
        self.sources.push((from, self.copied));
        Ok(())
    }

    /// The compressed chunks of a run that are intact.
    async fn read(&mut self, run: Run) -> Result<Vec<(Hash, u32, Vec<u8>)>, Error> {
        let expected = run.chunks.len() as u64;
        let fetched = match self.packs().fetch(&run).await {
            Ok(fetched) => fetched.unwrap_or_default(),
            Err(error @ Error::CutOff { .. }) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a pack is damaged");
                bytes::Bytes::new()
            }
            Err(error) => return Err(error),
        };
        let intact = blocking(move || intact_chunks(&run, &fetched)).await??;
        self.swept.damaged_chunks += expected - intact.len() as u64;
        Ok(intact)
    }

    /// Stores the new pack, moves its chunks to it in the index, and removes the packs that they came from. A pack is kept if
    /// it still has a chunk in use: the rest is moved to the next new pack, a writer uses it by now, or it is damaged.
    async fn seal(&mut self) -> Result<(), Error> {
        let sources = std::mem::take(&mut self.sources);
        self.copied = 0;
        if let Some(pack) = self.pack.take() {
            let sealed = blocking(|| pack.seal()).await?;
            self.packs().put_pack(&sealed).await?;
            sandboxd_seam::at("collect.stored");
            let mut moved = 0;
            for (from, until) in &sources {
                let chunks = &sealed.chunks[moved..*until];
                let index = self.packs().index();
                index.move_chunks(from.name, &sealed.info, chunks).await.map_err(Error::Index)?;
                moved = *until;
            }
            sandboxd_seam::at("collect.moved");
            self.packs().settle(sealed.info.name);
            self.swept.new_packs += 1;
            self.swept.new_bytes += u64::from(sealed.info.size_bytes);
        }
        for (from, _) in sources {
            self.remove(from).await?;
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<Swept, Error> {
        self.seal().await?;
        self.collection.packs.index().finish_collection().await.map_err(Error::Index)?;
        Ok(self.swept)
    }
}

fn intact_chunks(run: &Run, fetched: &bytes::Bytes) -> Result<Vec<(Hash, u32, Vec<u8>)>, Error> {
    let mut decompressor = Decompressor::new().map_err(Error::System)?;
    let mut intact = Vec::with_capacity(run.chunks.len());
    for (chunk, source) in &run.chunks {
        let Source::Pack(at) = source else { continue };
        let Some(stored) = run.stored(at, fetched) else { continue };
        if decompressor.verified(*chunk, at.raw_len as usize, stored).is_ok() {
            intact.push((*chunk, at.raw_len, stored.to_vec()));
        }
    }
    Ok(intact)
}
