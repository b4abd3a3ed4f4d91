//! Orphans: workspaces and disks on the engine that no sandbox claims.
//!
//! An orphan may hold a user's work: its row may be missing because the state dir was restored from an older backup. So
//! orphans are listed, and removed only after a grace period.

use std::collections::HashSet;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use sandbox_api::SandboxId;
use tracing::{debug, info, warn};

use super::{Error, Lifecycle};
use crate::engine;
use crate::metrics::Repair;
use crate::model::orphan::is_most;
use crate::model::{Orphan, OrphanKind, Refusal, Resource, Stage};
use crate::service::ByOperator;
use crate::service::clock::now_ms;

/// An orphan as the API reports it.
#[derive(Debug, Clone)]
pub struct OrphanView {
    /// The orphan, and when it was first seen.
    pub orphan: Orphan,
    /// Minimum time for which it is still kept.
    pub grace_left: Duration,
    /// It is not removed automatically, because most of the inventory would be removed with it.
    pub held: bool,
}

impl Lifecycle {
    /// Returns the orphans that the last sweep found.
    pub fn orphans(&self, _: &ByOperator) -> Result<Vec<OrphanView>, Error> {
        self.prepared()?;
        let orphans = self.known_orphans();
        let view = |orphan: &Orphan| OrphanView {
            grace_left: self.grace_left(orphan),
            held: self.is_held(orphan.kind, &orphans),
            orphan: orphan.clone(),
        };
        Ok(orphans.iter().filter(|orphan| orphan.kind != OrphanKind::Deleted).map(view).collect())
    }

    /// Removes an orphan now, regardless of its grace period.
    pub async fn remove_orphan(&self, name: &str, _: &ByOperator) -> Result<(), Error> {
        self.prepared()?;
        self.ownership.verify().await?;
        let _guard = self.reconciling.lock().await;
        let orphans = self.known_orphans();
        let found = orphans.iter().find(|orphan| orphan.name == name && orphan.kind != OrphanKind::Deleted);
        let orphan = found.ok_or(Refusal::NotFound(Resource::Orphan))?;
        // Its row may have been restored since, so that it belongs to a sandbox again.
        if orphan.name.parse().is_ok_and(|id: SandboxId| self.registry.get(&id).is_some()) {
            return Err(Refusal::NotFound(Resource::Orphan).into());
        }
        self.remove_now(orphan).await?;
        let others = orphans.iter().filter(|other| other.name != name).cloned().collect();
        self.save_orphans(others).await;
        Ok(())
    }

    /// Records the current orphans, and removes those whose grace period is over.
    pub(super) async fn sweep_orphans(&self, workspaces: Vec<SandboxId>, disks: Vec<String>) {
        let workspaces = workspaces.into_iter().map(|id| (OrphanKind::Workspace, id.to_string()));
        let seen: HashSet<(OrphanKind, String)> =
            workspaces.chain(disks.into_iter().map(|name| (OrphanKind::Disk, name))).collect();
        let before = self.known_orphans();
        let mut orphans = self.merge_orphans(&before, seen);
        let due: Vec<Orphan> =
            orphans.iter().filter(|orphan| self.is_due(orphan, &orphans)).cloned().collect();
        for orphan in due {
            match self.remove_now(&orphan).await {
                Ok(()) => orphans.retain(|other| *other != orphan),
                Err(Error::Engine(engine::Error::Miscounted { .. })) => {
                    debug!(
                        name = orphan.name,
                        "the engine still keeps an entry of a volume without a sandbox"
                    );
                }
                // The next sweep retries.
                Err(error) => {
                    warn!(
                        name = orphan.name,
                        error = &error as &dyn std::error::Error,
                        "could not remove an orphan"
                    );
                }
            }
        }
        if orphans != before {
            let held = orphans.iter().filter(|orphan| self.is_held(orphan.kind, &orphans)).count();
            info!(
                orphans = orphans.len(),
                held, "the engine has workspaces or disks without a sandbox; see `sandboxd doctor`"
            );
            self.save_orphans(orphans).await;
        }
    }

    /// Combines the known orphans that were seen again with the new ones.
    fn merge_orphans(&self, before: &[Orphan], seen: HashSet<(OrphanKind, String)>) -> Vec<Orphan> {
        let mut merged = Vec::new();
        for (kind, name) in seen {
            let known = before.iter().find(|orphan| {
                orphan.name == name && (orphan.kind == kind || orphan.kind == OrphanKind::Deleted)
            });
            let (seen_at_age_ms, seen_at_ms) = (self.age.now_ms(), now_ms());
            let mut orphan = known.cloned().unwrap_or(Orphan { kind, name, seen_at_age_ms, seen_at_ms });
            // If the wall clock was ahead when the orphan was first seen, it would be kept for that much longer.
            orphan.seen_at_ms = orphan.seen_at_ms.min(seen_at_ms);
            merged.push(orphan);
        }
        merged.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        merged
    }

    fn is_due(&self, orphan: &Orphan, all: &[Orphan]) -> bool {
        match orphan.kind {
            OrphanKind::Deleted => true,
            kind => self.grace_left(orphan).is_zero() && !self.is_held(kind, all),
        }
    }

    fn grace_left(&self, orphan: &Orphan) -> Duration {
        orphan.grace_left(self.setup.limits.orphan_grace, self.age.now_ms(), now_ms())
    }

    /// Whether most objects of a kind are orphans. Then the rows are more likely to be wrong than the engine.
    fn is_held(&self, kind: OrphanKind, all: &[Orphan]) -> bool {
        if kind == OrphanKind::Deleted {
            return false;
        }
        let owned = self.registry.all();
        let owned = owned.iter().filter(|sandbox| {
            let claims_one = |facts: &super::sandbox::Facts| {
                facts.record.stage != Stage::Lost
                    && (kind == OrphanKind::Workspace || facts.record.disk.is_some())
            };
            sandbox.with_facts(claims_one)
        });
        is_most(all.iter().filter(|orphan| orphan.kind == kind).count(), owned.count())
    }

    async fn remove_now(&self, orphan: &Orphan) -> Result<(), Error> {
        match orphan.kind {
            OrphanKind::Workspace | OrphanKind::Deleted => {
                let Ok(id) = orphan.name.parse() else { return Ok(()) };
                self.engine.remove(&id).await?;
                info!(sandbox = orphan.name, "workspace without a sandbox removed");
                self.count_repair(Repair::Orphan);
            }
            OrphanKind::Disk => {
                self.storage.remove_unclaimed(&orphan.name).await?;
                self.count_repair(Repair::Disk);
            }
        }
        Ok(())
    }

    /// Records a deleted sandbox of which the engine keeps an entry of the volume, so that sweeps retry.
    pub(super) async fn remember_deleted(&self, id: &SandboxId) {
        let mut orphans = self.known_orphans();
        orphans.retain(|orphan| orphan.name != id.as_str());
        orphans.push(Orphan {
            kind: OrphanKind::Deleted,
            name: id.to_string(),
            seen_at_age_ms: self.age.now_ms(),
            seen_at_ms: now_ms(),
        });
        self.save_orphans(orphans).await;
    }

    /// Whether only an empty entry of the volume is left of a sandbox, which was deleted.
    pub(super) fn was_deleted(&self, id: &SandboxId) -> bool {
        let deleted = |orphan: &Orphan| orphan.kind == OrphanKind::Deleted && orphan.name == id.as_str();
        self.lock_orphans().iter().any(deleted)
    }

    fn known_orphans(&self) -> Vec<Orphan> {
        self.lock_orphans().clone()
    }

    fn lock_orphans(&self) -> MutexGuard<'_, Vec<Orphan>> {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the orphans of the previous run, so that their grace periods continue.
    pub(super) async fn load_orphans(&self) -> Result<(), Error> {
        let orphans = self.store.orphans().await?;
        *self.lock_orphans() = orphans;
        Ok(())
    }

    /// Sets the orphans, in memory and in the store. After an error of the store, their grace periods restart at the
    /// next start.
    async fn save_orphans(&self, orphans: Vec<Orphan>) {
        *self.lock_orphans() = orphans.clone();
        if let Err(error) = self.store.set_orphans(&orphans).await {
            warn!(error = &error as &dyn std::error::Error, "could not write the orphans to the store");
        }
    }
}
