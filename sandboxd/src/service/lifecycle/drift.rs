//! What others do to a sandbox's container: rename, pause, update it or give it a network.

use tracing::{info, warn};

use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::engine::{Inspected, Status};
use crate::metrics::Repair;

impl Lifecycle {
    /// Whether a container runs and is hardened as it must be, after what others did to it was undone where that
    /// costs nothing.
    pub(super) async fn is_as_it_should_be(&self, sandbox: &Sandbox) -> Result<bool, Error> {
        let Some(inspected) = self.engine.inspect(sandbox.id()).await? else { return Ok(false) };
        if !self.goes_on(sandbox, &inspected).await {
            return Ok(false);
        }
        sandbox.peer.send_if_modified(|peer| {
            let now = self.peer_of(inspected.status);
            std::mem::replace(peer, now) != now
        });
        if !inspected.is_named {
            self.name_again(sandbox, &inspected).await;
        }
        let weakness = inspected.posture.weaknesses(&self.network_of(sandbox)).first().copied();
        sandbox.set_posture(inspected.posture);
        if let Some(weakness) = weakness {
            warn!(sandbox = %sandbox.id(), weakness, "somebody weakened a container; it will be made anew");
        }
        Ok(weakness.is_none())
    }

    /// Lets a sandbox's container go on that somebody paused.
    pub(super) async fn let_go_on(&self, sandbox: &Sandbox) -> Result<(), Error> {
        if let Some(inspected) = self.engine.inspect(sandbox.id()).await?
            && let Status::Paused { .. } = inspected.status
        {
            self.engine.unpause(&inspected.container_id).await?;
            self.repaired(Repair::Paused);
            info!(sandbox = %sandbox.id(), "somebody had paused a container; it goes on");
        }
        Ok(())
    }

    async fn goes_on(&self, sandbox: &Sandbox, inspected: &Inspected) -> bool {
        match inspected.status {
            Status::Running { .. } => true,
            Status::Paused { .. } => match self.engine.unpause(&inspected.container_id).await {
                Ok(()) => {
                    self.repaired(Repair::Paused);
                    info!(sandbox = %sandbox.id(), "somebody had paused a container; it goes on");
                    true
                }
                Err(error) => {
                    warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "a paused container cannot be unpaused");
                    false
                }
            },
            Status::NeverStarted | Status::Ended | Status::Absent => false,
        }
    }

    /// Where that fails it is found by its labels all the same, and the next look tries again.
    async fn name_again(&self, sandbox: &Sandbox, inspected: &Inspected) {
        match self.engine.name_again(sandbox.id(), &inspected.container_id).await {
            Ok(()) => {
                self.repaired(Repair::Renamed);
                info!(sandbox = %sandbox.id(), "somebody had renamed a container; it has its name again");
            }
            Err(error) => {
                warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "a renamed container cannot have its name again");
            }
        }
    }
}
