//! How long sandboxes are kept. Idle sandboxes are parked. Parked sandboxes are deleted after their retention time, or
//! earlier if the disk budget is exceeded or no user id is free.

use std::sync::Arc;

use tracing::{info, warn};

use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::model::Stage;

impl Lifecycle {
    /// Writes the state that only memory holds: the daemon's age and when sandboxes were last used. Then maintains the
    /// store. Called periodically and at a stop.
    pub(in crate::service) async fn flush(&self) {
        let last_used: Vec<_> = self
            .registry
            .all()
            .iter()
            .map(|sandbox| (sandbox.id().clone(), sandbox.activity().last_used_wall_ms()))
            .collect();
        let written = async {
            self.store.set_age_ms(self.age.now_ms()).await?;
            self.store.touch(&last_used).await?;
            self.store.maintain().await;
            Ok::<_, crate::store::Error>(())
        };
        if let Err(error) = written.await {
            warn!(
                error = &error as &dyn std::error::Error,
                "could not write the age and the last uses to the store"
            );
        }
    }

    /// Parks a sandbox that has been idle for too long, or deletes one that has been parked for too long.
    pub(in crate::service) fn retire_if_due(self: &Arc<Self>, sandbox: Arc<Sandbox>) {
        if self.is_idle_too_long(&sandbox) || self.is_parked_too_long(&sandbox) {
            // In a task, so that a sandbox that hangs does not delay the others.
            let lifecycle = Arc::clone(self);
            self.tasks.spawn(async move { lifecycle.retire(&sandbox).await });
        }
    }

    fn is_idle_too_long(&self, sandbox: &Sandbox) -> bool {
        let (stage, idle_ttl) = sandbox.with_facts(|facts| (facts.record.stage, facts.record.spec.idle_ttl));
        stage == Stage::Running && !sandbox.activity().is_used() && sandbox.activity().idle_for() >= idle_ttl
    }

    fn is_parked_too_long(&self, sandbox: &Sandbox) -> bool {
        parked_at(sandbox)
            .flatten()
            .is_some_and(|at| self.age.since(at) >= self.setup.limits.workspace_retention)
    }

    async fn retire(self: &Arc<Self>, sandbox: &Arc<Sandbox>) {
        let done = match sandbox.stage() {
            Stage::Running => self.park_idle(sandbox).await.map(drop),
            Stage::Parked => {
                let is_due = |lifecycle: &Self| lifecycle.is_parked_too_long(sandbox);
                self.delete_parked(sandbox, "retention", is_due).await.map(drop)
            }
            Stage::Creating | Stage::Parking | Stage::Waking | Stage::Deleting | Stage::Lost => Ok(()),
        };
        if let Err(error) = done {
            warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not park or delete an expired sandbox");
        }
    }

    /// Deletes parked workspaces, in the order in which they were parked, until all disks fit the disk budget.
    pub(in crate::service) async fn enforce_disk_budget(self: &Arc<Self>) -> Result<(), Error> {
        let Some(budget) = self.setup.limits.disk_budget_bytes else {
            return Ok(());
        };
        let disks = self.storage.allocated_bytes().await?;
        let mut allocated: u64 = disks.values().sum();
        for sandbox in self.parked_longest_first() {
            if allocated <= budget {
                return Ok(());
            }
            let disk =
                sandbox.with_facts(|facts| facts.record.disk.as_ref().map(|disk| disk.name().to_owned()));
            // Without a disk, its delete would free nothing.
            let Some(bytes) = disk.and_then(|disk| disks.get(&disk).copied()) else { continue };
            info!(sandbox = %sandbox.id(), allocated, budget, "disk budget exceeded; deleting a parked workspace");
            if self.delete_parked(&sandbox, "disk budget", |_| true).await? {
                allocated = allocated.saturating_sub(bytes);
            }
        }
        Ok(())
    }

    /// Deletes the workspace that was parked first, so that its user id is free for a new sandbox.
    pub(super) async fn delete_oldest_parked(self: &Arc<Self>) -> Result<(), Error> {
        match self.parked_longest_first().first() {
            Some(sandbox) => {
                info!(sandbox = %sandbox.id(), "no user id is free; deleting the workspace that was parked first");
                self.delete_parked(sandbox, "user id", |_| true).await.map(drop)
            }
            None => Err(Error::Full { max: self.setup.limits.max_concurrent }),
        }
    }

    fn parked_longest_first(&self) -> Vec<Arc<Sandbox>> {
        let mut parked: Vec<_> = self
            .registry
            .all()
            .into_iter()
            .filter(|sandbox| !sandbox.activity().is_used())
            .filter_map(|sandbox| Some((parked_at(&sandbox)?, sandbox)))
            .collect();
        parked.sort_by_key(|(at, _)| *at);
        parked.into_iter().map(|(_, sandbox)| sandbox).collect()
    }
}

/// `None` if the sandbox is not parked. Otherwise the daemon's age when it was parked, if that is known.
fn parked_at(sandbox: &Sandbox) -> Option<Option<u64>> {
    sandbox.with_facts(|facts| (facts.record.stage == Stage::Parked).then_some(facts.record.parked_at_age_ms))
}
