//! The sandboxes of before: found by their labels when the daemon starts.

use std::sync::Arc;

use sandbox_api::SandboxId;
use tokio::sync::watch;
use tracing::{info, warn};

use super::{Error, Service};
use crate::agent::Peer;
use crate::engine::{Found, SandboxLabels};
use crate::model::UidSlot;

impl Service {
    /// Takes back every sandbox of this installation, and removes those that were never finished.
    pub(super) async fn adopt(self: &Arc<Self>) -> Result<(), Error> {
        for Found { labels, container_id, never_started } in self.engine.list().await? {
            match labels {
                // Claims to be ours and is not signed by us: somebody else's, or a relic. Not touched.
                None => warn!(container = container_id, "left a container alone whose labels do not verify"),
                // The daemon's own trial has the last user id; it was cut off.
                Some(labels) if never_started || labels.slot == UidSlot::LAST => {
                    info!(sandbox = %labels.id, "removing a sandbox that was never finished");
                    self.engine.remove(&labels.id).await?;
                }
                Some(labels) => self.take_back(labels).await?,
            }
        }
        self.sweep().await
    }

    /// Removes what a create or a delete left that was cut off: volumes and directories without a sandbox.
    async fn sweep(&self) -> Result<(), Error> {
        for id in self.engine.volumes().await? {
            if self.registry.get(&id).is_none() {
                info!(sandbox = %id, "removing a volume without a sandbox");
                self.engine.remove(&id).await?;
            }
        }
        let entries = std::fs::read_dir(&self.setup.run_dir).map_err(|source| Error::RunDir { source })?;
        for entry in entries.flatten() {
            let id = entry.file_name().to_str().and_then(|name| name.parse::<SandboxId>().ok());
            if id.is_some_and(|id| self.registry.get(&id).is_none()) {
                std::fs::remove_dir_all(entry.path()).map_err(|source| Error::RunDir { source })?;
            }
        }
        Ok(())
    }

    /// Opens the door its agent knocks at. A container that has ended is started when it is next needed.
    async fn take_back(self: &Arc<Self>, labels: SandboxLabels) -> Result<(), Error> {
        let id = labels.id.clone();
        let peer = watch::Sender::new(Peer::NotKnownYet);
        let agent = self.open_door(&labels, peer.subscribe())?;
        peer.send_replace(self.peer_of(self.engine.status(&id).await?));
        if self.registry.adopt(labels, agent, peer) {
            info!(sandbox = %id, "took a sandbox back");
        } else {
            warn!(sandbox = %id, "left a sandbox alone whose session or user id has another");
        }
        Ok(())
    }
}
