//! The bridge of sandboxes with the network mode `open`.
//!
//! The bridge exists while at least one of them has a container. The operator must allow the mode. If the operator
//! disables it, open sandboxes are parked at the next start and not woken. A change from or to `open` needs another
//! container, so it is rejected unless the sandbox is parked.

use tracing::warn;

use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::engine::NO_NETWORK;
use crate::model::{NetworkPolicy, SandboxRecord, Stage};
use crate::service::SpecError;

/// Suffix of the bridge's name, after the name of the publishers' network.
const SUFFIX: &str = "open";

impl Lifecycle {
    /// Returns an error if the operator does not allow this network.
    pub(super) fn check_network(&self, network: &NetworkPolicy) -> Result<(), Error> {
        if network.is_open() && !self.setup.open_network {
            return Err(SpecError::OpenNotAllowed.into());
        }
        Ok(())
    }

    /// Returns an error if a sandbox cannot change to the network `wanted` now. The caller holds the sandbox's lock.
    pub(super) fn check_network_change(
        &self,
        sandbox: &Sandbox,
        wanted: &NetworkPolicy,
    ) -> Result<(), Error> {
        self.check_network(wanted)?;
        let SandboxRecord { stage, spec, .. } = sandbox.record();
        if wanted.mode != spec.network.mode {
            self.quotas.check_network_mode(&spec.owner.project, wanted.mode)?;
        }
        if wanted.is_open() != spec.network.is_open() && stage != Stage::Parked {
            return Err(SpecError::NetworkHeld.into());
        }
        Ok(())
    }

    /// Name of the network of this instance's publishers.
    pub(in crate::service) fn publisher_network(&self) -> String {
        format!("{}-{}", self.setup.network_name, self.instance.id())
    }

    pub(super) fn bridge_name(&self) -> String {
        format!("{}-{SUFFIX}", self.publisher_network())
    }

    /// Name of the network that the sandbox's container must have.
    pub(super) fn network_of(&self, sandbox: &Sandbox) -> String {
        match sandbox.with_facts(|facts| facts.record.spec.network.is_open()) {
            true => self.bridge_name(),
            false => NO_NETWORK.to_owned(),
        }
    }

    /// Ensures that the bridge exists. The sandbox that needs it is already in the registry.
    pub(super) async fn ensure_bridge(&self) -> Result<(), Error> {
        let _guard = self.bridging.lock().await;
        Ok(self.engine.ensure_network(&self.bridge_name()).await?)
    }

    /// Removes the bridge if no sandbox needs it. Returns the number of removed networks. A sandbox that is started
    /// meanwhile enters the registry before it asks for the bridge. So either it is seen here, or it creates a new
    /// bridge.
    pub(super) async fn remove_unused_bridge(&self) -> Result<usize, Error> {
        let _guard = self.bridging.lock().await;
        let needs = |sandbox: &std::sync::Arc<Sandbox>| {
            sandbox.with_facts(|facts| {
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

    /// Removes the bridge if a sandbox was the last that needed it. The sandbox's container is already removed. After
    /// an error the next sweep retries.
    pub(super) async fn release_bridge(&self, sandbox: &Sandbox) {
        if !sandbox.with_facts(|facts| facts.record.spec.network.is_open()) {
            return;
        }
        if let Err(error) = self.remove_unused_bridge().await {
            warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not remove the open sandboxes' bridge");
        }
    }
}
