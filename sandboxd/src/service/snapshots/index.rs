//! The store's index of chunks, as the packs use it.

use std::path::Path;

use async_trait::async_trait;
use snapshot_format::Hash;

use crate::packs::{Generation, Index, IndexError, Location, PackInfo, PackUse};
use crate::store::{self, ChunkHash, ChunkIndex, ChunkLocation, ChunkPack};

/// The index in a database of its own.
#[derive(Debug)]
pub(super) struct StoredIndex(ChunkIndex);

impl StoredIndex {
    /// Opens or creates the index in the state dir: that of the directory, or of the remote store with this id.
    pub(super) async fn open(state_dir: &Path, store: Option<&str>) -> Result<Self, store::Error> {
        ChunkIndex::open(state_dir, store).await.map(Self)
    }
}

fn bytes(hashes: &[Hash]) -> Vec<ChunkHash> {
    hashes.iter().map(|hash| *hash.as_bytes()).collect()
}

fn stored(location: &Location) -> ChunkLocation {
    let Location { pack, offset, stored_len, raw_len } = *location;
    ChunkLocation { pack: *pack.as_bytes(), offset, stored_len, raw_len }
}

fn location(stored: ChunkLocation) -> Location {
    let ChunkLocation { pack, offset, stored_len, raw_len } = stored;
    Location { pack: Hash::from_bytes(pack), offset, stored_len, raw_len }
}

fn stored_pack(pack: &PackInfo) -> ChunkPack {
    ChunkPack { name: *pack.name.as_bytes(), size_bytes: pack.size_bytes }
}

fn pairs(chunks: &[(Hash, Location)]) -> Vec<(ChunkHash, ChunkLocation)> {
    chunks.iter().map(|(hash, location)| (*hash.as_bytes(), stored(location))).collect()
}

#[async_trait]
impl Index for StoredIndex {
    async fn locate(&self, chunks: &[Hash]) -> Result<Vec<Option<Location>>, IndexError> {
        let located = self.0.locate(&bytes(chunks)).await?;
        Ok(located.into_iter().map(|found| found.map(location)).collect())
    }

    async fn mark(&self, generation: Generation, chunks: &[Hash]) -> Result<Vec<bool>, IndexError> {
        Ok(self.0.mark(generation, &bytes(chunks)).await?)
    }

    async fn record(
        &self,
        generation: Generation,
        pack: &PackInfo,
        chunks: &[(Hash, Location)],
    ) -> Result<(), IndexError> {
        Ok(self.0.record(generation, &stored_pack(pack), &pairs(chunks)).await?)
    }

    async fn is_complete(&self) -> Result<bool, IndexError> {
        Ok(self.0.is_complete().await?)
    }

    async fn set_complete(&self) -> Result<(), IndexError> {
        Ok(self.0.set_complete().await?)
    }

    async fn stored_bytes(&self) -> Result<u64, IndexError> {
        Ok(self.0.stored_bytes().await?)
    }

    async fn generation(&self) -> Result<Generation, IndexError> {
        Ok(self.0.generation().await?)
    }

    async fn begin_collection(&self, continues: bool) -> Result<Generation, IndexError> {
        Ok(self.0.begin_collection(continues).await?)
    }

    async fn finish_collection(&self) -> Result<(), IndexError> {
        Ok(self.0.finish_collection().await?)
    }

    async fn packs(
        &self,
        keep_from: Generation,
        after: Option<Hash>,
        limit: u32,
    ) -> Result<Vec<PackUse>, IndexError> {
        let packs = self.0.packs(keep_from, after.map(|after| *after.as_bytes()), limit).await?;
        let used = packs.into_iter().map(|one| PackUse {
            pack: PackInfo { name: Hash::from_bytes(one.pack.name), size_bytes: one.pack.size_bytes },
            live_chunks: one.live_chunks,
            live_bytes: one.live_bytes,
        });
        Ok(used.collect())
    }

    async fn has_packs(&self, packs: &[Hash]) -> Result<Vec<bool>, IndexError> {
        Ok(self.0.has_packs(&bytes(packs)).await?)
    }

    async fn chunks_of(
        &self,
        pack: Hash,
        keep_from: Generation,
    ) -> Result<Vec<(Hash, Location)>, IndexError> {
        let chunks = self.0.chunks_of(*pack.as_bytes(), keep_from).await?;
        Ok(chunks.into_iter().map(|(hash, at)| (Hash::from_bytes(hash), location(at))).collect())
    }

    async fn move_chunks(
        &self,
        from: Hash,
        to: &PackInfo,
        chunks: &[(Hash, Location)],
    ) -> Result<(), IndexError> {
        Ok(self.0.move_chunks(*from.as_bytes(), &stored_pack(to), &pairs(chunks)).await?)
    }

    async fn remove_pack(&self, pack: Hash, keep_from: Option<Generation>) -> Result<bool, IndexError> {
        Ok(self.0.remove_pack(*pack.as_bytes(), keep_from).await?)
    }
}
