//! Finds out whether all chunks of a snapshot are there.

use std::collections::HashSet;

use prost::Message;
use snapshot_format::content::decode_node;
use snapshot_format::{ChunkSource, Content, Differ, Difference, Hash, ReadError, Segment};

use super::super::chunks::PackSource;
use super::super::root_of;
use super::super::values::values_of;
use super::faults::{Faults, Verdict};
use crate::model::{SnapshotRecord, limits};
use crate::packs::{self, Packs};
use crate::service::{Error, SnapshotError};

/// Number of chunks that are looked up at a time.
const BATCH: usize = 4096;

/// State of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// All of its chunks are there.
    Whole,
    /// Chunks of it are lost.
    Damaged,
    /// The store has failed to read chunks of it.
    Unverified,
}

/// Inspects one snapshot after the other. A directory that is whole in one of them is not read again.
pub(super) struct Inspector<'a> {
    packs: &'a Packs,
    faults: &'a Faults,
    /// Names of the contents of directories that are whole.
    whole: HashSet<Hash>,
    batch: Vec<Hash>,
    /// Whether the present snapshot has chunks in packs that were not read.
    has_unread: bool,
}

impl<'a> Inspector<'a> {
    pub(super) fn new(packs: &'a Packs, faults: &'a Faults) -> Self {
        Self { packs, faults, whole: HashSet::new(), batch: Vec::new(), has_unread: false }
    }

    /// Whether all chunks of a snapshot are there. Fails if the store does not answer.
    pub(super) async fn inspect(&mut self, record: &SnapshotRecord) -> Result<Condition, Error> {
        self.batch.clear();
        self.has_unread = false;
        let mut visited = HashSet::new();
        match self.walk(record, &mut visited).await {
            Ok(()) if self.has_unread => Ok(Condition::Unverified),
            Ok(()) => {
                if self.whole.len() > limits::MAX_CHECK_DIRECTORIES {
                    self.whole.clear();
                }
                self.whole.extend(visited);
                Ok(Condition::Whole)
            }
            Err(Error::Snapshot(SnapshotError::Damaged { .. })) => Ok(Condition::Damaged),
            // Of a pack that was not read, a directory cannot be read either.
            Err(_) if self.faults.has_unread() => Ok(Condition::Unverified),
            Err(error) => Err(error),
        }
    }

    /// Notes the directories that it visits. All of them are whole if nothing is lost.
    async fn walk(&mut self, record: &SnapshotRecord, visited: &mut HashSet<Hash>) -> Result<(), Error> {
        let source = PackSource(self.packs.clone());
        let root = root_of(record)?;
        self.check(&root, &source).await?;
        if let Some(values) = values_of(record)? {
            self.check(&values, &source).await?;
        }
        let mut differ = Differ::new(source.clone(), None, Some(&root))?;
        while let Some(difference) = differ.next().await? {
            let (is_directory, entry) = match &difference {
                Difference::Enter(change) => (true, change.new.as_ref()),
                Difference::Entry(change) => (false, change.new.as_ref()),
                Difference::Leave(_) => continue,
            };
            let Some(content) = entry.and_then(|entry| entry.content.as_ref()) else { continue };
            if is_directory {
                let name = Hash::of(&content.encode_to_vec());
                // A tree can name the same directory again and again.
                if self.whole.contains(&name) || !visited.insert(name) {
                    differ.skip_directory();
                    continue;
                }
            }
            self.check(content, &source).await?;
        }
        self.flush().await
    }

    /// Checks the chunks of one content.
    async fn check(&mut self, content: &Content, source: &PackSource) -> Result<(), Error> {
        let mut levels = vec![(content.segments().map_err(ReadError::Content)?, content.depth)];
        while let Some((segments, depth)) = levels.pop() {
            for segment in segments {
                let Segment::Chunk { hash, length } = segment else { continue };
                self.batch.push(hash);
                if self.batch.len() >= BATCH {
                    self.flush().await?;
                }
                if depth > 0 {
                    let node = source.chunk(hash, length).await.map_err(ReadError::Chunk)?;
                    levels.push((decode_node(&node, depth).map_err(ReadError::Content)?, depth - 1));
                }
            }
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), Error> {
        let chunks = std::mem::take(&mut self.batch);
        let packs = self.packs.packs_of(&chunks).await?;
        for (chunk, pack) in chunks.into_iter().zip(packs) {
            match self.faults.verdict(chunk, pack) {
                Verdict::Whole => {}
                Verdict::Lost => return Err(packs::Error::Missing { chunk }.into()),
                Verdict::Unread => self.has_unread = true,
            }
        }
        Ok(())
    }
}
