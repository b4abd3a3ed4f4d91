//! Changes to a sandbox that exists.

use std::sync::Arc;

use sandbox_api::SandboxId;

use super::order::{Running, State};
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::model::network::NetworkWish;
use crate::model::{NetworkPolicy, Refusal, Resource};
use crate::service::egress::Denial;

/// Settings that an existing sandbox takes over from a later create.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// How long it may be idle.
    pub idle_ttl: Option<std::time::Duration>,
    /// Ports that may be previewed.
    pub ports: Option<Vec<u16>>,
    /// What it may reach.
    pub network: Option<NetworkWish>,
}

impl Lifecycle {
    /// Counts as use and may change what can be changed. Wakes a parked sandbox.
    pub async fn touch(self: &Arc<Self>, id: &SandboxId, changes: &Changes) -> Result<(), Error> {
        let in_use = self.in_use(id).await?;
        self.apply(in_use.sandbox(), changes).await
    }

    /// Changes what a sandbox may reach, and cuts what it may not reach any more. Neither wakes it nor counts as use.
    pub async fn change_network(
        self: &Arc<Self>,
        id: &SandboxId,
        wish: NetworkWish,
    ) -> Result<NetworkPolicy, Error> {
        let sandbox = self.find(id)?;
        let state = sandbox.order.shared().await;
        if !matches!(&*state, State::Running(Running { .. }) | State::Parked) {
            return Err(Refusal::NotFound(Resource::Sandbox).into());
        }
        self.apply(&sandbox, &Changes { network: Some(wish), ..Changes::default() }).await?;
        Ok(sandbox.labels().spec.network)
    }

    /// What a sandbox was refused since this daemon knows it, the newest first.
    pub fn denials(&self, id: &SandboxId) -> Result<Vec<Denial>, Error> {
        Ok(self.find(id)?.outbound().denials())
    }

    /// Makes a sandbox that is there follow what a later caller wishes. Where the store cannot be written, that is an
    /// error, the change holds for now, and its row follows as soon as it can: a caller that tries again must not be
    /// told that all is well while it does not.
    pub(super) async fn apply(&self, sandbox: &Sandbox, changes: &Changes) -> Result<(), Error> {
        let before = sandbox.labels().spec;
        let idle_ttl = changes.idle_ttl.unwrap_or(before.idle_ttl);
        let ports = changes.ports.clone().unwrap_or_else(|| before.ports.clone());
        let wish = changes.network.as_ref();
        let network = wish.map_or_else(|| before.network.clone(), |wish| before.network.clone().with(wish));
        let is_same = (idle_ttl, &ports, &network) == (before.idle_ttl, &before.ports, &before.network);
        let names_any = changes.idle_ttl.is_some() || changes.ports.is_some() || wish.is_some();
        if is_same && !(names_any && sandbox.look(|facts| facts.unsaved)) {
            return Ok(());
        }
        self.allows_change(sandbox, &network)?;
        let record = sandbox.update(|record| {
            record.spec.idle_ttl = idle_ttl;
            record.spec.ports = ports;
            if let Some(wish) = wish {
                // Somebody else may have changed the rest of it just now.
                record.spec.network = record.spec.network.clone().with(wish);
                sandbox.outbound().set_policy(record.spec.network.clone());
            }
        });
        self.egress.follow_policy(sandbox.outbound());
        let saved = self.store.put(&record).await;
        sandbox.set_unsaved(saved.is_err());
        Ok(saved?)
    }
}
