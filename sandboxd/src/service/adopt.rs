//! The sandboxes of before: found by their labels when the daemon starts.

use std::sync::Arc;

use tokio::sync::watch;
use tracing::{info, warn};

use super::{Error, Service};
use crate::agent::Peer;
use crate::engine::{Found, SandboxLabels};

impl Service {
    /// Takes back every sandbox of this installation, and removes those that were never finished.
    pub(super) async fn adopt(self: &Arc<Self>) -> Result<(), Error> {
        for Found { labels, container_id, never_started } in self.engine.list().await? {
            match labels {
                // Claims to be ours and is not signed by us: somebody else's, or a relic. Not touched.
                None => warn!(container = container_id, "left a container alone whose labels do not verify"),
                Some(labels) if never_started => {
                    info!(sandbox = %labels.id, "removing a sandbox that was never finished");
                    self.engine.remove(&labels.id).await?;
                }
                Some(labels) => self.take_back(labels).await?,
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
        match self.registry.adopt(labels, agent, peer) {
            Ok(()) => info!(sandbox = %id, "took a sandbox back"),
            Err(labels) => warn!(
                sandbox = %id,
                session = %labels.spec.session_key,
                "left a sandbox alone whose session has another",
            ),
        }
        Ok(())
    }
}
