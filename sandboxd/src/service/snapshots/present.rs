//! The present files and values of a sandbox: the files are received from its agent, and both are stored.
//!
//! Chunks of the parent are not sent again. If the packs have lost data that the comparison with the parent reads, the files
//! are received without the parent, which is recorded as damaged if it is. That does not always help: a chunk that the index
//! has is not stored again until a check has moved the damaged pack aside.

use sandbox_api::{SandboxId, SnapshotId};
use tracing::warn;

use super::check::is_damaged;
use super::receive::{self, Received};
use super::{Snapshots, root_of};
use crate::agent::AgentHandle;
use crate::model::{SnapshotRecord, SnapshotState};
use crate::service::{Error, SnapshotError};

impl Snapshots {
    /// Receives the files as the snapshot `id`, after the values of the sandbox `values_of`. Returns the parent too, if it was
    /// used.
    pub(super) async fn receive_present(
        &self,
        agent: &AgentHandle,
        id: &SnapshotId,
        parent: Option<&SnapshotRecord>,
        pause: bool,
        values_of: Option<&SandboxId>,
    ) -> Result<(Received, Option<SnapshotId>), Error> {
        let packs = self.packs.packs().await?;
        if let Some(parent) = parent {
            match self.receive_after(agent, id, Some(parent), pause, values_of).await {
                Err(Error::Snapshot(SnapshotError::Damaged { source })) => {
                    warn!(snapshot = %parent.id, error = &*source as &dyn std::error::Error, "a snapshot is made without the last one of its sandbox, because stored data is damaged");
                }
                received => return Ok((received?, Some(parent.id.clone()))),
            }
        }
        let received = self.receive_after(agent, id, None, pause, values_of).await;
        // An unavailable store may answer that it has nothing. Then it also rejects every write.
        if let (Some(parent), Ok(_) | Err(Error::Snapshot(SnapshotError::Damaged { .. }))) =
            (parent, &received)
            && is_damaged(packs, parent).await?
        {
            self.store.set_snapshot_state(&parent.id, SnapshotState::Damaged).await?;
        }
        Ok((received?, None))
    }

    /// The error if stored data is damaged that the present files of a sandbox need. Names the last snapshot if that one is
    /// known to be damaged.
    pub(super) async fn present_damaged(
        &self,
        sandbox: &SandboxId,
        source: Box<dyn std::error::Error + Send + Sync>,
    ) -> Error {
        let latest = self.store.latest_snapshot(sandbox).await.ok().flatten();
        let damaged = latest.filter(|latest| latest.state == SnapshotState::Damaged);
        Error::Snapshot(SnapshotError::PresentDamaged { snapshot: damaged.map(|damaged| damaged.id), source })
    }

    async fn receive_after(
        &self,
        agent: &AgentHandle,
        id: &SnapshotId,
        parent: Option<&SnapshotRecord>,
        pause: bool,
        values_of: Option<&SandboxId>,
    ) -> Result<Received, Error> {
        let packs = self.packs.packs().await?;
        let root = parent.map(root_of).transpose()?;
        let mut writer = packs.writer();
        let values = match values_of {
            Some(sandbox) => Some(self.values.put(&mut writer, sandbox).await?),
            None => None,
        };
        let parts = agent.make_snapshot(id, parent.map(|parent| &parent.id), pause).await?;
        let received = receive::receive(packs, writer, parts, root.as_ref()).await?;
        Ok(Received { values, ..received })
    }
}
