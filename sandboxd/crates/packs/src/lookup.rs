//! Finding chunks without reading them.

use snapshot_format::Hash;

use crate::{Error, Packs};

/// Number of chunks that are looked up at a time.
const BATCH: usize = 1024;

impl Packs {
    /// Returns the name of each chunk's pack, or `None` if the index does not have the chunk. Says nothing about whether
    /// the pack exists.
    pub async fn packs_of(&self, chunks: &[Hash]) -> Result<Vec<Option<Hash>>, Error> {
        let mut packs = Vec::with_capacity(chunks.len());
        for part in chunks.chunks(BATCH) {
            let located = self.index().locate(part).await.map_err(Error::Index)?;
            packs.extend(located.into_iter().map(|location| location.map(|at| at.pack)));
        }
        Ok(packs)
    }
}
