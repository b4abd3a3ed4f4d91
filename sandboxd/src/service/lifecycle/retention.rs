//! How long sandboxes are kept. Idle sandboxes are parked. Parked sandboxes are deleted after their retention time, or
//! earlier if the disk budget is exceeded or no user id is free.

use std::collections::HashMap;
use std::sync::Arc;

use tracing::{info, warn};

use super::making_room::Taken;
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::model::{Owner, Stage};

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

    /// Deletes parked workspaces until all disks fit the disk budget: always one of the owner that [takes the
    /// most](Taken::next_deleted).
    pub(in crate::service) async fn enforce_disk_budget(self: &Arc<Self>) -> Result<(), Error> {
        let Some(budget) = self.setup.limits.disk_budget_bytes else {
            return Ok(());
        };
        let disks = self.storage.allocated_bytes().await?;
        let mut allocated: u64 = disks.values().sum();
        let mut parked = self.parked_longest_first();
        let mut taken = self.taken(&disks);
        while allocated > budget {
            let Some(at) = taken.next_deleted(parked.iter().map(|sandbox| sandbox.owner())) else {
                return Ok(());
            };
            let sandbox = parked.remove(at);
            // Without a disk, its delete would free nothing.
            let Some(bytes) = bytes_of(&sandbox, &disks) else { continue };
            info!(sandbox = %sandbox.id(), allocated, budget, "disk budget exceeded; deleting a parked workspace");
            if self.delete_parked(&sandbox, "disk budget", |_| true).await? {
                allocated = allocated.saturating_sub(bytes);
                taken.remove(sandbox.owner(), bytes);
            }
        }
        Ok(())
    }

    /// Bytes that the disks of each project and owner take.
    fn taken(&self, disks: &HashMap<String, u64>) -> Taken {
        let mut taken = Taken::default();
        for sandbox in self.registry.all() {
            taken.add(sandbox.owner(), bytes_of(&sandbox, disks).unwrap_or_default());
        }
        taken
    }

    /// Deletes the workspace of an owner that was parked first, so that its user id is free for a new sandbox. Nothing of
    /// others is deleted for it.
    pub(super) async fn delete_oldest_parked(self: &Arc<Self>, owner: &Owner) -> Result<(), Error> {
        let parked = self.parked_longest_first();
        match parked.iter().find(|sandbox| sandbox.owner() == owner) {
            Some(sandbox) => {
                info!(sandbox = %sandbox.id(), "no user id is free; deleting the workspace that was parked first");
                self.delete_parked(sandbox, "user id", |_| true).await.map(drop)
            }
            None => Err(Error::NoUserId),
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

/// Bytes that the disk of a sandbox takes. `None` without a disk.
fn bytes_of(sandbox: &Sandbox, disks: &HashMap<String, u64>) -> Option<u64> {
    let disk = sandbox.with_facts(|facts| facts.record.disk.as_ref().map(|disk| disk.name().to_owned()));
    disks.get(&disk?).copied()
}

/// `None` if the sandbox is not parked. Otherwise the daemon's age when it was parked, if that is known.
fn parked_at(sandbox: &Sandbox) -> Option<Option<u64>> {
    sandbox.with_facts(|facts| (facts.record.stage == Stage::Parked).then_some(facts.record.parked_at_age_ms))
}
