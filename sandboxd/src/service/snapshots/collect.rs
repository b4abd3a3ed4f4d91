//! Removes expired snapshots, and chunks that no snapshot has.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use prost::Message;
use snapshot_format::content::decode_node;
use snapshot_format::{Change, ChunkSource, Content, Differ, Difference, Hash, Kind, ReadError, Segment};
use tracing::{info, warn};

use super::chunks::{self, PackSource};
use super::values::values_of;
use super::{Snapshots, root_of};
use crate::model::{Refusal, limits};
use crate::packs::Collection;
use crate::service::clock::now_ms;
use crate::service::{Error, SnapshotError};

/// Number of chunks that are marked at a time.
const MARK_BATCH: usize = 4096;

/// Maximum number of directories that are remembered, of 16 bytes each.
const MAX_SEEN: usize = 1_000_000;

impl Snapshots {
    /// Deletes snapshots that have expired.
    pub(in crate::service) async fn delete_expired(self: &Arc<Self>) -> Result<(), Error> {
        for record in self.store.expired_snapshots(now_ms(), limits::EXPIRED_SNAPSHOTS).await? {
            let snapshots = Arc::clone(self);
            let delete = async move { snapshots.delete_by_daemon(&record, "expired").await };
            match self.tasks.run_detached(delete).await {
                // It is deleted after its use, or is deleted already.
                Ok(())
                | Err(Error::Snapshot(SnapshotError::InUse) | Error::Refused(Refusal::NotFound(_))) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether a collection makes room for new snapshots. Also updates the metrics of the space.
    pub(in crate::service) async fn needs_collection(&self) -> bool {
        let Ok(bytes) = self.stored_bytes().await else { return false };
        self.metrics.set_snapshots_stored(bytes);
        let is_short = self.storage.check_space(0).await.is_err();
        self.was_deleted.load(Ordering::Relaxed)
            && (is_short || self.max_stored_bytes.is_some_and(|max| bytes >= max))
    }

    /// Waits until a snapshot fails because the disk is full.
    pub(in crate::service) async fn disk_full(&self) {
        self.disk_was_full.notified().await;
    }

    /// Removes the chunks that no snapshot has. If a tree cannot be read, nothing is removed. The index may be older than
    /// the packs, for example after a restored backup, so the packs that it does not have are added to it then.
    pub(in crate::service) async fn collect(&self) -> Result<(), Error> {
        let was_deleted = self.was_deleted.swap(false, Ordering::Relaxed);
        let collected = self.collect_now().await;
        match &collected {
            Ok(true) => {}
            // Another collection may remove more.
            Ok(false) => drop(self.was_deleted.fetch_or(was_deleted, Ordering::Relaxed)),
            Err(_) => self.was_deleted.store(true, Ordering::Relaxed),
        }
        // Once: it reads all packs, and finds nothing new the next time.
        if let Err(Error::Snapshot(SnapshotError::Damaged { .. })) = &collected
            && !self.was_index_rebuilt.swap(true, Ordering::Relaxed)
        {
            chunks::rebuild_index(self.packs.packs().await?).await?;
        }
        collected.map(drop)
    }

    /// Returns whether all chunks without a snapshot were removed.
    async fn collect_now(&self) -> Result<bool, Error> {
        self.packs.check_owner().await?;
        let packs = self.packs.packs().await?;
        let collection = packs.begin_collection().await?;
        // After the collection has begun: a snapshot that is recorded later has protected its chunks. Manifests first,
        // because the database may be older than the snapshots.
        self.find_unrecorded().await?;
        let mut snapshots = self.store.all_snapshots().await?;
        // Neighbours have most in common if they are of the same sandbox.
        snapshots.sort_by(|a, b| {
            (a.sandbox.as_str(), a.created_at_ms).cmp(&(b.sandbox.as_str(), b.created_at_ms))
        });
        let mut marker = Marker {
            collection: &collection,
            source: PackSource(packs.clone()),
            batch: Vec::new(),
            seen: HashSet::new(),
        };
        let (mut previous, mut previous_values): (Option<Content>, Option<Content>) = (None, None);
        for record in &snapshots {
            let (root, values) = (root_of(record)?, values_of(record)?);
            let marked = async {
                marker.mark_new(previous.as_ref(), &root).await?;
                marker.mark_entry(previous_values.as_ref(), values.as_ref()).await
            };
            if let Err(error) = marked.await {
                warn!(snapshot = %record.id, "a snapshot cannot be read, so no chunk is removed");
                return Err(error);
            }
            (previous, previous_values) = (Some(root), values);
        }
        marker.flush().await?;
        let swept = collection.sweep().await?;
        let strays = packs.remove_strays().await?;
        if swept.removed_packs + strays > 0 {
            info!(
                packs = swept.removed_packs,
                bytes = swept.removed_bytes,
                strays,
                "unused chunks of snapshots removed"
            );
        }
        if swept.damaged_chunks > 0 {
            warn!(chunks = swept.damaged_chunks, "chunks of snapshots are damaged");
        }
        Ok(!collection.is_partial())
    }
}

/// Marks the chunks of one snapshot after the other.
struct Marker<'a> {
    collection: &'a Collection,
    source: PackSource,
    batch: Vec<Hash>,
    /// Directories whose chunks are all marked, by a hash of their content. A hostile tree may have one many times.
    seen: HashSet<[u8; 16]>,
}

impl Marker<'_> {
    /// Marks the chunks of a tree, except those of a tree that was marked before.
    async fn mark_new(&mut self, marked: Option<&Content>, root: &Content) -> Result<(), Error> {
        if marked == Some(root) {
            return Ok(());
        }
        self.mark_content(root, marked).await?;
        let mut differ = Differ::new(self.source.clone(), marked, Some(root))?;
        while let Some(difference) = differ.next().await? {
            match difference {
                Difference::Enter(Change { new: Some(new), .. }) if self.is_marked(new.content.as_ref()) => {
                    differ.skip_directory();
                }
                Difference::Enter(Change { old, new: Some(new), .. }) => {
                    self.mark_entry(old.and_then(|old| old.content).as_ref(), new.content.as_ref()).await?;
                }
                Difference::Enter(_) => differ.skip_directory(),
                Difference::Entry(Change { old, new: Some(new), .. }) if new.kind() == Kind::File => {
                    self.mark_entry(old.and_then(|old| old.content).as_ref(), new.content.as_ref()).await?;
                }
                Difference::Entry(_) | Difference::Leave(_) => {}
            }
        }
        Ok(())
    }

    /// Whether all chunks of a directory are marked. If not, the caller marks them now.
    fn is_marked(&mut self, directory: Option<&Content>) -> bool {
        let Some(directory) = directory else { return false };
        if self.seen.len() == MAX_SEEN {
            return false;
        }
        let hash = Hash::of(&directory.encode_to_vec());
        let (short, _) = hash.as_bytes().split_first_chunk().unwrap_or((&[0; 16], &[]));
        !self.seen.insert(*short)
    }

    async fn mark_entry(&mut self, old: Option<&Content>, new: Option<&Content>) -> Result<(), Error> {
        match new {
            Some(new) if Some(new) != old => self.mark_content(new, old).await,
            _ => Ok(()),
        }
    }

    async fn mark_content(&mut self, new: &Content, old: Option<&Content>) -> Result<(), Error> {
        // The chunks that these name are marked too, but only at the same depth: a file's bytes may look like a list.
        let marked: HashSet<Hash> = match old {
            Some(old) => hashes(old.segments().map_err(ReadError::Content)?).collect(),
            None => HashSet::new(),
        };
        let marked_depth = old.map(|old| old.depth);
        let mut levels = vec![(new.segments().map_err(ReadError::Content)?, new.depth)];
        while let Some((segments, depth)) = levels.pop() {
            for segment in segments {
                let Segment::Chunk { hash, length } = segment else { continue };
                if marked_depth == Some(depth) && marked.contains(&hash) {
                    continue;
                }
                self.mark(hash).await?;
                if depth > 0 {
                    let node = self.source.chunk(hash, length).await.map_err(ReadError::Chunk)?;
                    levels.push((decode_node(&node, depth).map_err(ReadError::Content)?, depth - 1));
                }
            }
        }
        Ok(())
    }

    async fn mark(&mut self, hash: Hash) -> Result<(), Error> {
        self.batch.push(hash);
        if self.batch.len() < MARK_BATCH { Ok(()) } else { self.flush().await }
    }

    async fn flush(&mut self) -> Result<(), Error> {
        let batch = std::mem::take(&mut self.batch);
        let found = self.collection.mark(&batch).await?;
        match found.iter().position(|found| !found) {
            // The snapshot that needs it is damaged. The chunks of all other snapshots are kept.
            Some(at) => Err(crate::packs::Error::Missing { chunk: batch[at] }.into()),
            None => Ok(()),
        }
    }
}

fn hashes(segments: Vec<Segment>) -> impl Iterator<Item = Hash> {
    segments.into_iter().filter_map(|segment| match segment {
        Segment::Chunk { hash, .. } => Some(hash),
        Segment::Hole { .. } => None,
    })
}
