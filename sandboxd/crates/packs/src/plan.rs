//! Plans which chunks are read together: a restore reads thousands of small chunks in about the order of their writing.

use std::ops::Range;

use snapshot_format::Hash;

use crate::Location;
use crate::cache::Stored;

/// Maximum size of one read in bytes, unless a single chunk is larger.
pub(crate) const MAX_READ_BYTES: u32 = 2 * 1024 * 1024;

/// Maximum size of the chunks of one read in bytes, decompressed.
const MAX_RAW_BYTES: u64 = 4 * 1024 * 1024;

/// Bytes between chunks that a read may skip, beside as many bytes as it needs.
const MAX_WASTE_BYTES: u64 = 64 * 1024;

/// Maximum number of chunks in a run.
const MAX_CHUNKS: usize = 1024;

/// Where the bytes of a chunk come from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// The cache.
    Cached(Stored),
    /// A pack.
    Pack(Location),
    /// The index does not have the chunk.
    Missing,
}

/// Chunks that one read of a pack returns, in the caller's order. Chunks of the cache are between them.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) chunks: Vec<(Hash, Source)>,
    /// The pack and the bytes of it. `None` reads nothing.
    pub(crate) read: Option<(Hash, Range<u32>)>,
    /// Size of the chunks in bytes, decompressed.
    pub(crate) raw_bytes: u64,
    /// Whether small chunks are put into the cache.
    pub(crate) is_cached: bool,
    /// Size of the chunks in the pack, in bytes.
    needed_bytes: u64,
}

/// Groups chunks into runs. Keeps their order.
pub(crate) fn plan(chunks: impl IntoIterator<Item = (Hash, Source)>) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut run = Run::default();
    for (hash, source) in chunks {
        if !run.accepts(&source) {
            runs.push(std::mem::take(&mut run));
        }
        run.push(hash, source);
    }
    if !run.chunks.is_empty() {
        runs.push(run);
    }
    runs
}

impl Run {
    fn accepts(&self, source: &Source) -> bool {
        let raw_len = match source {
            Source::Cached(stored) => stored.raw_len,
            Source::Pack(location) => location.raw_len,
            Source::Missing => 0,
        };
        if self.chunks.is_empty() {
            return true;
        }
        self.chunks.len() < MAX_CHUNKS
            && self.raw_bytes + u64::from(raw_len) <= MAX_RAW_BYTES
            && self.can_read(source)
    }

    fn can_read(&self, source: &Source) -> bool {
        let (Source::Pack(location), Some((pack, range))) = (source, &self.read) else {
            return true;
        };
        let range = union(range, location);
        let length = range.end - range.start;
        let needed = self.needed_bytes + u64::from(location.stored_len);
        *pack == location.pack
            && length <= MAX_READ_BYTES
            && u64::from(length) <= 2 * needed + MAX_WASTE_BYTES
    }

    fn push(&mut self, hash: Hash, source: Source) {
        match &source {
            Source::Cached(stored) => self.raw_bytes += u64::from(stored.raw_len),
            Source::Pack(location) => {
                self.raw_bytes += u64::from(location.raw_len);
                self.needed_bytes += u64::from(location.stored_len);
                let range = match &self.read {
                    Some((_, range)) => union(range, location),
                    None => location.offset..location.end(),
                };
                self.read = Some((location.pack, range));
            }
            Source::Missing => {}
        }
        self.chunks.push((hash, source));
    }
}

fn union(range: &Range<u32>, location: &Location) -> Range<u32> {
    range.start.min(location.offset)..range.end.max(location.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(pack: u8, offset: u32, stored_len: u32) -> (Hash, Source) {
        let location = Location { pack: Hash::of(&[pack]), offset, stored_len, raw_len: stored_len };
        (Hash::of(&offset.to_le_bytes()), Source::Pack(location))
    }

    fn ranges(chunks: impl IntoIterator<Item = (Hash, Source)>) -> Vec<Range<u32>> {
        plan(chunks).into_iter().filter_map(|run| run.read).map(|(_, range)| range).collect()
    }

    #[test]
    fn neighbours_are_one_read_in_any_order() {
        assert_eq!(ranges([at(1, 100, 10), at(1, 120, 10), at(1, 110, 10)]), vec![100..130]);
    }

    #[test]
    fn another_pack_a_large_gap_and_a_long_run_begin_a_new_read() {
        assert_eq!(ranges([at(1, 0, 10), at(2, 10, 10)]).len(), 2);
        assert_eq!(ranges([at(1, 0, 10), at(1, 1_000_000, 10)]).len(), 2);
        let long = (0..32).map(|number| at(1, number * 200_000, 200_000));
        assert!(ranges(long).iter().all(|range| range.end - range.start <= MAX_READ_BYTES));
    }

    #[test]
    fn missing_and_cached_chunks_do_not_split_a_read() {
        let cached = Source::Cached(Stored { compressed: "a".into(), raw_len: 1 });
        let other = |source| (Hash::of(b""), source);
        assert_eq!(ranges([at(1, 0, 10), other(cached), other(Source::Missing), at(1, 10, 10)]), vec![0..20]);
    }

    proptest! {
        #[test]
        fn every_chunk_is_in_the_read_of_its_run(chunks: Vec<(bool, u16, u16)>) {
            let chunks: Vec<_> = chunks
                .into_iter()
                .map(|(pack, offset, length)| at(pack.into(), u32::from(offset) * 64, length.into()))
                .collect();
            let runs = plan(chunks.clone());
            let order: Vec<_> = runs.iter().flat_map(|run| &run.chunks).map(|(hash, _)| *hash).collect();
            prop_assert_eq!(order, chunks.iter().map(|(hash, _)| *hash).collect::<Vec<_>>());
            for run in &runs {
                let (pack, range) = run.read.clone().unwrap();
                for (_, source) in &run.chunks {
                    let Source::Pack(location) = source else { unreachable!() };
                    prop_assert!(location.pack == pack && range.start <= location.offset);
                    prop_assert!(location.end() <= range.end);
                }
            }
        }
    }
}
