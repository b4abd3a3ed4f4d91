//! Changes that others make to a sandbox's container: they rename, pause or update it, or connect it to a network.
//!
//! Changes that can be undone in place are undone: the container is unpaused and gets its name back. A container with weakened
//! hardening is not repaired. Its sandbox is parked, and the next wake creates a new container.

use tracing::{info, warn};

use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::engine::{Inspected, Status};
use crate::metrics::Repair;

impl Lifecycle {
    /// Returns whether a container runs and is fully hardened. Unpauses the container and restores its name before.
    pub(super) async fn check_container(&self, sandbox: &Sandbox) -> Result<bool, Error> {
        let Some(inspected) = self.engine.inspect(sandbox.id()).await? else { return Ok(false) };
        if !self.ensure_running(sandbox, &inspected).await {
            return Ok(false);
        }
        sandbox.peer.send_if_modified(|peer| {
            let now = self.peer_of(inspected.status);
            std::mem::replace(peer, now) != now
        });
        if !inspected.is_named {
            self.restore_name(sandbox, &inspected).await;
        }
        let weakness = inspected.posture.weaknesses(&self.network_of(sandbox)).first().copied();
        sandbox.set_posture(inspected.posture);
        if let Some(weakness) = weakness {
            warn!(sandbox = %sandbox.id(), weakness, "the hardening of a container was weakened; the container will be replaced");
        }
        Ok(weakness.is_none())
    }

    /// Unpauses a sandbox's container if it is paused.
    pub(super) async fn unpause(&self, sandbox: &Sandbox) -> Result<(), Error> {
        if let Some(inspected) = self.engine.inspect(sandbox.id()).await?
            && let Status::Paused { .. } = inspected.status
        {
            self.unpause_container(sandbox, &inspected.container_id).await?;
        }
        Ok(())
    }

    async fn unpause_container(&self, sandbox: &Sandbox, container: &str) -> Result<(), Error> {
        self.engine.unpause(container).await?;
        self.count_repair(Repair::Paused);
        info!(sandbox = %sandbox.id(), "paused container unpaused");
        Ok(())
    }

    /// Returns whether a container runs. Unpauses it if it is paused.
    async fn ensure_running(&self, sandbox: &Sandbox, inspected: &Inspected) -> bool {
        match inspected.status {
            Status::Running { .. } => true,
            Status::Paused { .. } => match self.unpause_container(sandbox, &inspected.container_id).await {
                Ok(()) => true,
                Err(error) => {
                    warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not unpause a container");
                    false
                }
            },
            Status::NeverStarted | Status::Ended | Status::Absent => false,
        }
    }

    /// Renames a container back. If this fails, the container is still found by its labels, and the next check retries.
    async fn restore_name(&self, sandbox: &Sandbox, inspected: &Inspected) {
        match self.engine.name_again(sandbox.id(), &inspected.container_id).await {
            Ok(()) => {
                self.count_repair(Repair::Renamed);
                info!(sandbox = %sandbox.id(), "renamed container has its name back");
            }
            Err(error) => {
                warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not restore the name of a renamed container");
            }
        }
    }
}
