//! The start: creates what must exist before the first request, and restores the sandboxes of the previous run.

use std::sync::Arc;

use tokio::time::sleep;
use tracing::warn;

use super::{Error, Service};
use crate::model::{Transport, limits};

/// Steps that a retried start does not repeat.
#[derive(Debug, Default)]
struct Done {
    transport: Option<Transport>,
    restored: bool,
    linked: bool,
}

impl Service {
    /// Prepares everything, in order. Retries after temporary errors, such as an unreachable engine; meanwhile the
    /// daemon answers health checks. Returns an error if the daemon cannot run here.
    pub async fn prepare(self: &Arc<Self>) -> Result<(), Error> {
        let mut done = Done::default();
        let mut pause = *limits::START_RETRY.start();
        loop {
            match self.prepare_once(&mut done).await {
                Err(error) if error.is_retried_at_start() => {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        advice = error.advice(),
                        retry_in = ?pause,
                        "the start is incomplete; retrying"
                    );
                }
                other => return other,
            }
            sleep(pause).await;
            pause = (pause * 2).min(*limits::START_RETRY.end());
        }
    }

    async fn prepare_once(&self, done: &mut Done) -> Result<(), Error> {
        self.lifecycle.set_waiting_for("engine");
        self.context.engine.meet().await?;
        self.ownership.claim_engine().await?;
        let prepared = self.lifecycle.prepare(&mut done.transport).await?;
        // `/v1/ready` publishes this text, and docs/operations.md lists it.
        self.lifecycle.set_waiting_for("sandboxes");
        if !done.restored {
            // Before the sandboxes accept requests.
            self.snapshots.block_interrupted().await?;
            if !self.snapshots.has_remote_store()
                && let Err(error) = self.snapshots.find_unrecorded().await
            {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "could not compare the snapshots with the database"
                );
            }
            let restored = self.lifecycle.restore_all().await;
            // Also for the sandboxes that were restored before an error.
            self.commands.watch_restored().await;
            restored?;
            self.values.restore().await?;
            self.projects.add_missing(self.lifecycle.projects()).await?;
            done.restored = true;
        }
        if !done.linked {
            self.previews.restore_links().await?;
            // Of tokens that were revoked right before the daemon ended.
            self.end_links_of_tokens().await;
            self.mcp_servers.restore().await?;
            done.linked = true;
        }
        let previews = Arc::clone(&self.previews);
        let restore_publishers = async move {
            if let Err(error) = previews.restore_publishers().await {
                warn!(error = &error as &dyn std::error::Error, "could not restore published ports");
            }
        };
        self.context.tasks.wait_up_to(limits::RESTORE_WAIT, restore_publishers).await;
        self.storage.fill_pool(|| self.lifecycle.claimed_disks()).await?;
        if let Err(error) = self.storage.remove_old_plugins(&self.lifecycle.volume_drivers()).await {
            warn!(
                error = &error as &dyn std::error::Error,
                "could not remove earlier versions of the volume plugin"
            );
        }
        self.lifecycle.adopt_originals(&prepared).await?;
        self.lifecycle.set_ready(prepared);
        Ok(())
    }

    /// Whether requests can be served.
    pub fn readiness(&self) -> super::Readiness {
        self.lifecycle.readiness()
    }
}
