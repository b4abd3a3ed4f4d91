//! The bridge of sandboxes with the network mode `open`.
//!
//! The bridge exists while at least one of them has a container. The operator must allow the mode: if that is taken back, an
//! open sandbox is parked at the next start and not woken. A change from or to `open` needs another container, so it is
//! rejected while there is one.

use tracing::warn;

use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::engine::NO_NETWORK;
use crate::model::{NetworkPolicy, SandboxRecord, Stage};

/// Behind the name that publishers' network has.
const SUFFIX: &str = "open";

impl Lifecycle {
    /// Whether a sandbox may have this network here.
    pub(super) fn allows_network(&self, network: &NetworkPolicy) -> Result<(), Error> {
        if network.is_open() && !self.setup.open_network {
            return Err(Error::OpenNotAllowed);
        }
        Ok(())
    }

    /// Whether a sandbox may have `wanted` from now on instead of what it has. The caller holds its order.
    pub(super) fn allows_change(&self, sandbox: &Sandbox, wanted: &NetworkPolicy) -> Result<(), Error> {
        self.allows_network(wanted)?;
        let SandboxRecord { stage, spec, .. } = sandbox.record();
        if wanted.is_open() != spec.network.is_open() && stage != Stage::Parked {
            return Err(Error::NetworkHeld);
        }
        Ok(())
    }

    /// The network of this instance's publishers.
    pub(in crate::service) fn publisher_network(&self) -> String {
        format!("{}-{}", self.setup.network_name, self.instance.id())
    }

    pub(super) fn bridge_name(&self) -> String {
        format!("{}-{SUFFIX}", self.publisher_network())
    }

    /// What the engine is to call the sandbox's network.
    pub(super) fn network_of(&self, sandbox: &Sandbox) -> String {
        match sandbox.look(|facts| facts.record.spec.network.is_open()) {
            true => self.bridge_name(),
            false => NO_NETWORK.to_owned(),
        }
    }

    /// Makes sure of the bridge for a sandbox that is in the registry and about to be started.
    pub(super) async fn ensure_bridge(&self) -> Result<(), Error> {
        let _turn = self.bridging.lock().await;
        Ok(self.engine.ensure_network(&self.bridge_name()).await?)
    }

    /// Removes the bridge where no sandbox needs it; how many there were. Whoever comes meanwhile is in the registry
    /// before it looks for the bridge, so either it is seen here or it makes another.
    pub(super) async fn tidy_bridge(&self) -> Result<usize, Error> {
        let _turn = self.bridging.lock().await;
        let needs = |sandbox: &std::sync::Arc<Sandbox>| {
            sandbox.look(|facts| {
                facts.record.spec.network.is_open()
                    && !matches!(facts.record.stage, Stage::Parked | Stage::Lost)
            })
        };
        if self.registry.all().iter().any(needs) {
            return Ok(0);
        }
        let bridge = self.bridge_name();
        Ok(self.engine.remove_networks(|name| name != bridge).await?)
    }

    /// Leaves the bridge with a sandbox whose container is gone. What cannot be removed now the next sweep removes.
    pub(super) async fn leave_bridge(&self, sandbox: &Sandbox) {
        if !sandbox.look(|facts| facts.record.spec.network.is_open()) {
            return;
        }
        if let Err(error) = self.tidy_bridge().await {
            warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not remove the open sandboxes' bridge");
        }
    }
}
