//! Faults of packs.

use std::collections::HashSet;

use snapshot_format::Hash;
use tracing::warn;

use crate::model::limits;
use crate::packs::{Finding, PackDamage};

/// A fault of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackProblem {
    /// It is damaged as a whole, or cannot be read by this version.
    Pack {
        /// What is wrong.
        damage: String,
    },
    /// Some of its chunks are damaged.
    Chunks,
    /// It does not exist any more.
    Missing,
    /// The store failed to read it.
    Unread,
}

/// State of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// No damage is known.
    Whole,
    /// It is damaged or missing.
    Lost,
    /// Its pack was not read.
    Unread,
}

/// A pack with a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackFault {
    /// Its name.
    pub pack: String,
    /// What is wrong with it.
    pub problem: PackProblem,
    /// Number of its chunks that are damaged. 0 if they cannot be read at all.
    pub damaged_chunks: u64,
    /// If it was moved to the quarantine, the number of its chunks that were intact and stored again.
    pub intact_chunks: Option<u64>,
}

/// The faults of all packs.
#[derive(Debug, Default)]
pub(super) struct Faults {
    first: Vec<PackFault>,
    /// The pack of the last finding. Findings of one pack come one after another.
    last: Option<Hash>,
    count: u64,
    /// Chunks whose bytes are damaged, with their packs.
    chunks: HashSet<(Hash, Hash)>,
    /// Packs without any readable chunk, and those with more damaged chunks than are kept in memory.
    packs: HashSet<Hash>,
    /// Packs that were not read.
    unread: HashSet<Hash>,
}

impl Faults {
    /// Whether the store failed to read a pack.
    pub(super) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    pub(super) fn add(&mut self, finding: Finding) {
        match finding {
            Finding::CorruptPack { pack, damage } => {
                self.begin(pack, PackProblem::Pack { damage: damage.to_string() });
                // If its chunks are readable nevertheless, they are verified one by one.
                if !matches!(damage, PackDamage::OtherBytes) {
                    self.packs.insert(pack);
                }
            }
            Finding::CorruptChunk { chunk, pack, .. } => {
                self.begin(pack, PackProblem::Chunks);
                if self.chunks.len() < limits::MAX_CHECK_CHUNKS {
                    self.chunks.insert((chunk, pack));
                } else {
                    self.packs.insert(pack);
                }
                self.update(|fault| fault.damaged_chunks += 1);
            }
            Finding::MissingPack { pack } => {
                self.begin(pack, PackProblem::Missing);
                self.packs.insert(pack);
            }
            Finding::Quarantined { pack, intact_chunks } => {
                self.begin(pack, PackProblem::Chunks);
                self.update(|fault| fault.intact_chunks = Some(intact_chunks));
            }
            Finding::Failed { pack, error } => {
                warn!(%pack, error, "a pack of snapshots could not be checked");
                // A pack that has findings was read, and could not be moved.
                if self.last != Some(pack) {
                    self.begin(pack, PackProblem::Unread);
                    self.unread.insert(pack);
                }
            }
            // A writer that was interrupted leaves such packs. A later collection removes them.
            Finding::UnknownPack { .. } => {}
        }
    }

    fn begin(&mut self, pack: Hash, problem: PackProblem) {
        if self.last == Some(pack) {
            return;
        }
        self.last = Some(pack);
        self.count += 1;
        if self.first.len() < limits::MAX_CHECK_FINDINGS {
            let pack = pack.to_string();
            self.first.push(PackFault { pack, problem, damaged_chunks: 0, intact_chunks: None });
        }
    }

    /// Changes the pack that came last, if it is among the first.
    fn update(&mut self, update: impl FnOnce(&mut PackFault)) {
        let last = self.last.map(|pack| pack.to_string());
        self.first.last_mut().filter(|fault| Some(&fault.pack) == last.as_ref()).map(update);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn take_first(&mut self) -> Vec<PackFault> {
        std::mem::take(&mut self.first)
    }

    /// State of a chunk that the index finds in this pack, or in none.
    pub(super) fn verdict(&self, chunk: Hash, pack: Option<Hash>) -> Verdict {
        // The same chunk may be in another pack that is intact.
        let Some(pack) = pack else { return Verdict::Lost };
        if self.packs.contains(&pack) || self.chunks.contains(&(chunk, pack)) {
            return Verdict::Lost;
        }
        if self.unread.contains(&pack) { Verdict::Unread } else { Verdict::Whole }
    }
}

#[cfg(test)]
mod tests {
    use snapshot_format::compression::CorruptChunk;

    use super::*;

    fn name(number: u8) -> Hash {
        Hash::of(&[number])
    }

    fn damaged(chunk: u8, pack: u8) -> Finding {
        let (chunk, pack) = (name(chunk), name(pack));
        Finding::CorruptChunk { chunk, pack, damage: CorruptChunk::OtherBytes { hash: chunk } }
    }

    #[test]
    fn findings_of_one_pack_are_one_fault() {
        let mut faults = Faults::default();
        faults.add(Finding::CorruptPack { pack: name(1), damage: PackDamage::OtherBytes });
        faults.add(damaged(10, 1));
        faults.add(damaged(11, 1));
        faults.add(Finding::Quarantined { pack: name(1), intact_chunks: 7 });
        faults.add(Finding::UnknownPack { pack: name(2) });
        faults.add(Finding::MissingPack { pack: name(3) });
        assert_eq!(faults.count(), 2);
        let first = faults.take_first();
        assert_eq!((first[0].damaged_chunks, first[0].intact_chunks), (2, Some(7)));
        assert_eq!(first[1].problem, PackProblem::Missing);
    }

    #[test]
    fn a_chunk_is_lost_only_where_the_index_finds_it() {
        let mut faults = Faults::default();
        faults.add(damaged(10, 1));
        faults.add(Finding::CorruptPack { pack: name(2), damage: PackDamage::Format("") });
        faults.add(Finding::Failed { pack: name(4), error: "said".into() });
        // A pack that was read before.
        faults.add(damaged(10, 5));
        faults.add(Finding::Failed { pack: name(5), error: "said".into() });
        let verdict = |chunk, pack: Option<u8>| faults.verdict(name(chunk), pack.map(name));
        for (chunk, pack) in [(10, Some(1)), (11, Some(2)), (11, None), (10, Some(5))] {
            assert_eq!(verdict(chunk, pack), Verdict::Lost);
        }
        assert_eq!((verdict(11, Some(1)), verdict(11, Some(5))), (Verdict::Whole, Verdict::Whole));
        assert_eq!(verdict(10, Some(3)), Verdict::Whole, "another pack has it too");
        assert_eq!(verdict(11, Some(4)), Verdict::Unread);
    }

    #[test]
    fn all_faults_are_counted_and_the_first_are_listed() {
        let mut faults = Faults::default();
        let packs = limits::MAX_CHECK_FINDINGS as u64 + 10;
        for number in 0..packs {
            faults.add(Finding::MissingPack { pack: Hash::of(&number.to_le_bytes()) });
            faults.update(|fault| fault.damaged_chunks += 1);
        }
        let first = faults.take_first();
        assert_eq!((faults.count(), first.len()), (packs, limits::MAX_CHECK_FINDINGS));
        assert!(first.iter().all(|fault| fault.damaged_chunks == 1));
    }
}
