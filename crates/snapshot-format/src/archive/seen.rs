//! The chunks of an archive that were received.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash as StdHash};

use super::{MAX_CHUNKS, MAX_VISITS};
use crate::Hash;

/// A snapshot is too large for an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the snapshot has more than {limit} {what}")]
pub struct OverLimit {
    /// What is limited.
    pub what: &'static str,
    /// Maximum number.
    pub limit: u64,
}

impl OverLimit {
    pub(super) fn check(number: u64, limit: u64, what: &'static str) -> Result<(), Self> {
        if number <= limit { Ok(()) } else { Err(Self { what, limit }) }
    }
}

/// The chunks that were visited. Keeps 16 bytes of each.
#[derive(Debug, Default)]
pub struct Seen {
    chunks: KeyedSet,
    visits: u64,
}

impl Seen {
    /// Notes a visit of a chunk of `length` bytes. Returns whether it is the first one.
    pub fn visit(&mut self, hash: Hash, length: u64) -> Result<bool, OverLimit> {
        self.visits += 1;
        OverLimit::check(self.visits, MAX_VISITS, "chunks, as often as its files have them")?;
        let is_first = self.chunks.insert(&(hash, length));
        OverLimit::check(self.chunks.0.len() as u64, MAX_CHUNKS, "different chunks")?;
        Ok(is_first)
    }
}

/// A set of values that keeps 16 bytes of each, by random keys. So an attacker cannot construct two values that collide.
#[derive(Debug, Default)]
pub(super) struct KeyedSet(HashSet<u128>, RandomState, RandomState);

impl KeyedSet {
    pub(super) fn insert(&mut self, value: &impl StdHash) -> bool {
        let key = self.key(value);
        self.0.insert(key)
    }

    pub(super) fn contains(&self, value: &impl StdHash) -> bool {
        self.0.contains(&self.key(value))
    }

    fn key(&self, value: &impl StdHash) -> u128 {
        (u128::from(self.1.hash_one(value)) << 64) | u128::from(self.2.hash_one(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_new_once_with_each_length() {
        let mut seen = Seen::default();
        let mut visit = |chunk: &[u8], length| seen.visit(Hash::of(chunk), length).unwrap();
        assert!(visit(b"a", 1) && visit(b"b", 1) && !visit(b"a", 1) && visit(b"a", 2));
    }

    #[test]
    fn visits_have_a_limit() {
        let mut seen = Seen { visits: MAX_VISITS - 1, ..Seen::default() };
        assert_eq!(seen.visit(Hash::of(b"a"), 1), Ok(true));
        assert_eq!(seen.visit(Hash::of(b"a"), 1).unwrap_err().limit, MAX_VISITS);
    }
}
