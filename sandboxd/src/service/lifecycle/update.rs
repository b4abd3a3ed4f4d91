//! Changes to an existing sandbox.

use std::sync::Arc;

use sandbox_api::network::AllowScope;
use sandbox_api::{DenialId, SandboxId};

use super::order::{Running, State};
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::model::network::NetworkRequest;
use crate::model::{Checkpoints, NetworkPolicy, Refusal, Resource};
use crate::service::Authorized;
use crate::service::egress::{Allowed, Denial, DenialStream};

/// Settings of an existing sandbox that a later create or another request changes. `None` leaves a setting as it is.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// How long it may be idle before it is parked.
    pub idle_ttl: Option<std::time::Duration>,
    /// Ports that may be previewed.
    pub ports: Option<Vec<u16>>,
    /// What it may reach.
    pub network: Option<NetworkRequest>,
    /// Snapshots that are made automatically. `Some(None)` is none.
    pub checkpoints: Option<Option<Checkpoints>>,
}

impl Changes {
    fn names_any(&self) -> bool {
        let Self { idle_ttl, ports, network, checkpoints } = self;
        idle_ttl.is_some() || ports.is_some() || network.is_some() || checkpoints.is_some()
    }
}

impl Lifecycle {
    /// Counts as use and applies `changes`. Wakes a parked sandbox.
    pub async fn touch(self: &Arc<Self>, id: &Authorized<SandboxId>, changes: &Changes) -> Result<(), Error> {
        let in_use = self.in_use(id).await?;
        self.apply(in_use.sandbox(), changes).await
    }

    /// Changes what a sandbox may reach, and closes connections that are no longer allowed. Does not wake the sandbox
    /// and does not count as use.
    pub async fn change_network(
        self: &Arc<Self>,
        id: &Authorized<SandboxId>,
        request: NetworkRequest,
    ) -> Result<NetworkPolicy, Error> {
        let sandbox = self.find(id)?;
        self.change_network_of(&sandbox, request).await
    }

    async fn change_network_of(
        &self,
        sandbox: &Sandbox,
        request: NetworkRequest,
    ) -> Result<NetworkPolicy, Error> {
        let state = sandbox.order.shared().await;
        if !matches!(&*state, State::Running(Running { .. }) | State::Parked) {
            return Err(Refusal::NotFound(Resource::Sandbox).into());
        }
        self.apply(sandbox, &Changes { network: Some(request), ..Changes::default() }).await?;
        Ok(sandbox.labels().spec.network)
    }

    /// Outbound connections that were denied to a sandbox since this daemon created or restored it, newest first.
    pub fn denials(&self, id: &Authorized<SandboxId>) -> Result<Vec<Denial>, Error> {
        Ok(self.find(id)?.outbound().denials())
    }

    /// The denials of a sandbox, oldest first, and then those that happen, until it is deleted. Does not wake the sandbox
    /// and does not count as use.
    pub fn follow_denials(&self, id: &Authorized<SandboxId>) -> Result<DenialStream, Error> {
        self.find(id)?.outbound().follow_denials()
    }

    /// Allows a host that a sandbox was denied. Does not wake the sandbox and does not count as use.
    pub async fn allow_denied(
        self: &Arc<Self>,
        id: &Authorized<SandboxId>,
        denial: &DenialId,
        scope: AllowScope,
    ) -> Result<Allowed, Error> {
        let sandbox = self.find(id)?;
        let outbound = sandbox.outbound();
        let denied = outbound.denial(denial).ok_or(Refusal::NotFound(Resource::Denial))?;
        let rule = self.egress.rule_for(outbound, &denied).await?;
        let until_ms = match scope {
            AllowScope::Once => Some(outbound.allow_once(rule.clone())),
            AllowScope::Sandbox => {
                let policy = self.change_network_of(&sandbox, NetworkRequest::adding(rule.clone())).await?;
                if !policy.allow.contains(&rule) {
                    let problem = "the sandbox's list of allowed hosts is full";
                    return Err(Refusal::NotAllowable { host: rule.to_string(), problem }.into());
                }
                None
            }
        };
        Ok(Allowed { host: denied.host, port: denied.port, rule, until_ms })
    }

    /// Applies `changes` to an existing sandbox. If the store cannot be written, the change takes effect, but the call
    /// returns an error, and the row is written later. A retry of the same change writes the row again, so that it
    /// reports success only when the row is written.
    pub(super) async fn apply(&self, sandbox: &Sandbox, changes: &Changes) -> Result<(), Error> {
        let before = sandbox.labels().spec;
        let idle_ttl = changes.idle_ttl.unwrap_or(before.idle_ttl);
        let ports = changes.ports.clone().unwrap_or_else(|| before.ports.clone());
        let request = changes.network.as_ref();
        let network =
            request.map_or_else(|| before.network.clone(), |request| before.network.clone().with(request));
        let checkpoints = changes.checkpoints.unwrap_or(before.checkpoints);
        let is_same = (idle_ttl, &ports, &network, checkpoints)
            == (before.idle_ttl, &before.ports, &before.network, before.checkpoints);
        let names_any = changes.names_any();
        if is_same && !(names_any && sandbox.with_facts(|facts| facts.unsaved)) {
            return Ok(());
        }
        self.check_network_change(sandbox, &network)?;
        let record = sandbox.update(|record| {
            record.spec.idle_ttl = idle_ttl;
            record.spec.ports = ports;
            record.spec.checkpoints = checkpoints;
            if let Some(request) = request {
                // Another request may have changed the rest of the policy meanwhile.
                record.spec.network = record.spec.network.clone().with(request);
                sandbox.outbound().set_policy(record.spec.network.clone());
                if !request.only_adds() {
                    sandbox.outbound().revoke_passes();
                }
            }
        });
        self.egress.apply_policy(sandbox.outbound());
        let saved = self.store.put(&record).await;
        sandbox.set_unsaved(saved.is_err());
        Ok(saved?)
    }
}
