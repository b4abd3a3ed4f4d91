//! A directory of a snapshot as a copy in a sandbox that runs, beside the files that it has.

use futures::{StreamExt, stream};
use sandbox_api::SnapshotId;
use snapshot_format::plan::Step;
use snapshot_format::{Content, Entry, TreeReader};

use super::chunks::PackSource;
use super::seed::upload_error;
use super::{Snapshots, root_of, steps};
use crate::agent::AgentHandle;
use crate::model::snapshot::RestoreStep;
use crate::model::{Refusal, Resource};
use crate::service::Error;
use crate::service::lifecycle::Sandbox;

impl Snapshots {
    /// Copies the files of a directory into the same directory of a sandbox. Replaces entries with the same names, and removes
    /// none. If it fails, the last entries of the directory are missing, in the order of their names.
    pub(in crate::service) async fn copy_directory(
        &self,
        sandbox: &Sandbox,
        agent: &AgentHandle,
        snapshot: &SnapshotId,
        path: &[&str],
    ) -> Result<(), Error> {
        let (record, _pin) = self.pinned(snapshot).await?;
        // Waits for another copy, as for a snapshot.
        let _busy = self.busy.begin_checkpoint(sandbox.id()).await;
        self.storage.check_space(0).await?;
        let packs = self.packs.packs().await?;
        let source = PackSource(packs.clone());
        let (mut content, mut parents) = (root_of(&record)?, Vec::with_capacity(path.len()));
        for name in path {
            let parent = find(&source, &content, name.as_bytes()).await?;
            content = parent.content.clone().unwrap_or_default();
            parents.push(parent);
        }
        let mut below = steps::steps(packs, None, &content).await?;
        // The first one says what is needed, before anything is changed.
        let needs = below.next().await;
        let enter = |parent: &Entry| Ok(RestoreStep::Change(Step::Enter(parent.name.clone())));
        let entered: Vec<_> = parents.iter().map(enter).collect();
        let leave = |parent: Entry| Ok(RestoreStep::Change(Step::Leave(parent)));
        let left: Vec<_> = parents.into_iter().rev().map(leave).collect();
        let steps = stream::iter(needs).chain(stream::iter(entered)).chain(below).chain(stream::iter(left));
        agent.restore(steps.boxed()).await.map(drop).map_err(upload_error)
    }
}

/// Finds a directory in a directory.
async fn find(source: &PackSource, directory: &Content, name: &[u8]) -> Result<Entry, Error> {
    let mut entries = TreeReader::new(directory).map_err(snapshot_format::ReadError::Content)?;
    while let Some(entry) = entries.next(source).await? {
        if *entry.name == *name {
            return Ok(entry);
        }
    }
    Err(Refusal::NotFound(Resource::Snapshot).into())
}
