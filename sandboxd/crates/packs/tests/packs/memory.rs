//! An index in memory. It shows what the trait promises, in the simplest way.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use sandboxd_packs::{Generation, Index, IndexError, Location, PackInfo, PackUse};
use snapshot_format::Hash;

#[derive(Debug, Default)]
pub(crate) struct MemoryIndex {
    state: Mutex<State>,
    /// Whether every call fails.
    pub(crate) is_unavailable: AtomicBool,
    /// Whether [`Index::record`] fails.
    pub(crate) cannot_record: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    generation: Generation,
    is_collecting: bool,
    is_complete: bool,
    packs: BTreeMap<Hash, PackInfo>,
    chunks: HashMap<Hash, (Location, Generation)>,
}

impl MemoryIndex {
    fn state(&self) -> Result<MutexGuard<'_, State>, IndexError> {
        if self.is_unavailable.load(Ordering::SeqCst) {
            return Err("the index is unavailable".into());
        }
        Ok(self.state.lock().unwrap())
    }

    /// Number of packs.
    pub(crate) fn packs(&self) -> usize {
        self.state.lock().unwrap().packs.len()
    }

    /// Everything but the generation and the marks.
    pub(crate) fn content(&self) -> (BTreeMap<Hash, PackInfo>, BTreeMap<Hash, Location>) {
        let state = self.state.lock().unwrap();
        (state.packs.clone(), state.chunks.iter().map(|(hash, (at, _))| (*hash, *at)).collect())
    }
}

impl State {
    fn chunks_of(&self, pack: Hash, keep_from: Generation) -> Vec<(Hash, Location)> {
        let live = self.chunks.iter().filter(|(_, (at, mark))| at.pack == pack && *mark >= keep_from);
        let mut live: Vec<_> = live.map(|(hash, (at, _))| (*hash, *at)).collect();
        live.sort_by_key(|(_, at)| at.offset);
        live
    }

    fn usage(&self, pack: PackInfo, keep_from: Generation) -> PackUse {
        let live = self.chunks_of(pack.name, keep_from);
        let live_bytes = live.iter().map(|(_, at)| u64::from(at.stored_len)).sum();
        PackUse { pack, live_chunks: live.len() as u64, live_bytes }
    }
}

#[async_trait]
impl Index for MemoryIndex {
    async fn locate(&self, chunks: &[Hash]) -> Result<Vec<Option<Location>>, IndexError> {
        let state = self.state()?;
        Ok(chunks.iter().map(|chunk| state.chunks.get(chunk).map(|(at, _)| *at)).collect())
    }

    async fn mark(&self, generation: Generation, chunks: &[Hash]) -> Result<Vec<bool>, IndexError> {
        let mut state = self.state()?;
        let marked = chunks.iter().map(|chunk| {
            let found = state.chunks.get_mut(chunk);
            found.map(|(_, mark)| *mark = generation.max(*mark)).is_some()
        });
        Ok(marked.collect())
    }

    async fn record(
        &self,
        generation: Generation,
        pack: &PackInfo,
        chunks: &[(Hash, Location)],
    ) -> Result<(), IndexError> {
        if self.cannot_record.load(Ordering::SeqCst) {
            return Err("the index cannot be written".into());
        }
        let mut state = self.state()?;
        state.packs.insert(pack.name, *pack);
        for (chunk, at) in chunks {
            let (_, mark) = state.chunks.entry(*chunk).or_insert((*at, generation));
            *mark = generation.max(*mark);
        }
        Ok(())
    }

    async fn is_complete(&self) -> Result<bool, IndexError> {
        Ok(self.state()?.is_complete)
    }

    async fn set_complete(&self) -> Result<(), IndexError> {
        self.state()?.is_complete = true;
        Ok(())
    }

    async fn stored_bytes(&self) -> Result<u64, IndexError> {
        Ok(self.state()?.packs.values().map(|pack| u64::from(pack.size_bytes)).sum())
    }

    async fn generation(&self) -> Result<Generation, IndexError> {
        Ok(self.state()?.generation)
    }

    async fn begin_collection(&self, continues: bool) -> Result<Generation, IndexError> {
        let mut state = self.state()?;
        state.generation += u64::from(!(continues && state.is_collecting));
        state.is_collecting = true;
        Ok(state.generation)
    }

    async fn finish_collection(&self) -> Result<(), IndexError> {
        self.state()?.is_collecting = false;
        Ok(())
    }

    async fn packs(
        &self,
        keep_from: Generation,
        after: Option<Hash>,
        limit: u32,
    ) -> Result<Vec<PackUse>, IndexError> {
        let state = self.state()?;
        let packs = state.packs.values().filter(|pack| after.is_none_or(|after| pack.name > after));
        Ok(packs.take(limit as usize).map(|pack| state.usage(*pack, keep_from)).collect())
    }

    async fn has_packs(&self, packs: &[Hash]) -> Result<Vec<bool>, IndexError> {
        let state = self.state()?;
        Ok(packs.iter().map(|pack| state.packs.contains_key(pack)).collect())
    }

    async fn chunks_of(
        &self,
        pack: Hash,
        keep_from: Generation,
    ) -> Result<Vec<(Hash, Location)>, IndexError> {
        Ok(self.state()?.chunks_of(pack, keep_from))
    }

    async fn move_chunks(
        &self,
        from: Hash,
        to: &PackInfo,
        chunks: &[(Hash, Location)],
    ) -> Result<(), IndexError> {
        let mut state = self.state()?;
        state.packs.insert(to.name, *to);
        for (chunk, moved) in chunks {
            if let Some((at, _)) = state.chunks.get_mut(chunk).filter(|(at, _)| at.pack == from) {
                *at = *moved;
            }
        }
        Ok(())
    }

    async fn remove_pack(&self, pack: Hash, keep_from: Option<Generation>) -> Result<bool, IndexError> {
        let mut state = self.state()?;
        if keep_from.is_some_and(|keep_from| !state.chunks_of(pack, keep_from).is_empty()) {
            return Ok(false);
        }
        state.packs.remove(&pack);
        state.chunks.retain(|_, (at, _)| at.pack != pack);
        Ok(true)
    }
}
