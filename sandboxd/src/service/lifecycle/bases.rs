//! The bases below sandboxes: which are needed, and what projects are charged for them.

use std::collections::HashSet;
use std::sync::Arc;

use tracing::{info, warn};

use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::service::storage::{BaseSource, HeldBase};

impl Lifecycle {
    /// Names of the bases that sandboxes need. `None` if the engine has disks with files whose sandbox is not known: a base
    /// of theirs must not be removed.
    pub(in crate::service) async fn bases_in_use(&self) -> Result<Option<HashSet<String>>, Error> {
        let disks = self.storage.unclaimed(|| self.claimed_disks()).await?;
        let in_use = || self.registry.all().iter().filter_map(|sandbox| base_of(sandbox)).collect();
        Ok(disks.used.is_empty().then(in_use))
    }

    /// The base of a new sandbox, for which its project is charged. `None` if the sandbox gets the files one by one, also
    /// because of the project's quota.
    pub(super) async fn base_below(&self, sandbox: &Sandbox, source: &dyn BaseSource) -> Option<HeldBase> {
        let (project, name) = (&sandbox.owner().project, source.name());
        let log = |error| {
            let error = &error as &dyn std::error::Error;
            info!(sandbox = %sandbox.id(), base = name, error, "a sandbox gets a copy of its snapshot's files");
        };
        let may_take = |bytes| self.quotas.check_base(project, &name, bytes).map_err(log).is_ok();
        let base = self.storage.base(source, may_take, async || self.bases_in_use().await).await?;
        let charge = self.quotas.base(project, &name, base.bytes).map_err(log).ok()?;
        self.registry.hold_base_charge(sandbox.id(), charge);
        Some(base)
    }

    /// Charges projects for the bases below restored sandboxes. If their sizes are not known now, a later call charges them.
    pub(super) async fn charge_restored_bases(&self) {
        let over_bases = |sandbox: Arc<Sandbox>| Some((base_of(&sandbox)?, sandbox));
        let uncharged = self.registry.without_base_charge().into_iter().filter_map(over_bases);
        let uncharged: Vec<_> = uncharged.collect();
        if uncharged.is_empty() {
            return;
        }
        let sizes = match self.storage.base_bytes().await {
            Ok(sizes) => sizes,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                return warn!(
                    error,
                    "the sizes of bases are not known; projects are not charged for them yet"
                );
            }
        };
        for (base, sandbox) in uncharged {
            if let Some(bytes) = sizes.get(&base) {
                let charge = self.quotas.existing_base(&sandbox.owner().project, &base, *bytes);
                self.registry.hold_base_charge(sandbox.id(), charge);
            }
        }
    }
}

fn base_of(sandbox: &Sandbox) -> Option<String> {
    sandbox.with_facts(|facts| Some(facts.record.disk.as_ref()?.lower()?.base().to_owned()))
}
