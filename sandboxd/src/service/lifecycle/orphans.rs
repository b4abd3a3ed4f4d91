//! What the engine has and no sandbox claims. It may be somebody's work: a row may be missing because the state
//! dir is an older one. So it is listed, and removed only after a grace.

use std::collections::HashSet;
use std::sync::PoisonError;
use std::time::Duration;

use sandbox_api::SandboxId;
use tracing::{debug, info, warn};

use super::{Error, Lifecycle};
use crate::engine;
use crate::metrics::Repair;
use crate::model::orphan::is_most;
use crate::model::{Orphan, OrphanKind, Refusal, Resource, Stage};
use crate::service::clock::now_ms;

/// An orphan as it is told.
#[derive(Debug, Clone)]
pub struct OrphanView {
    /// What it is, and since when.
    pub orphan: Orphan,
    /// How long it is kept at least.
    pub grace_left: Duration,
    /// It is not removed by itself, because most of the inventory would go.
    pub held: bool,
}

impl Lifecycle {
    /// What was seen on the engine at the last look and no sandbox claims.
    pub fn orphans(&self) -> Result<Vec<OrphanView>, Error> {
        self.prepared()?;
        let orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let view = |orphan: &Orphan| OrphanView {
            grace_left: self.grace_left(orphan),
            held: self.is_held(orphan.kind, &orphans),
            orphan: orphan.clone(),
        };
        Ok(orphans.iter().filter(|orphan| orphan.kind != OrphanKind::Deleted).map(view).collect())
    }

    /// Removes an orphan now.
    pub async fn remove_orphan(&self, name: &str) -> Result<(), Error> {
        self.prepared()?;
        self.ownership.verify().await?;
        let _turn = self.reconciling.lock().await;
        let orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let found = orphans.iter().find(|orphan| orphan.name == name && orphan.kind != OrphanKind::Deleted);
        let orphan = found.ok_or(Refusal::NotFound(Resource::Orphan))?;
        // Its id may be a sandbox's again, by a row that somebody restored.
        if orphan.name.parse().is_ok_and(|id: SandboxId| self.registry.get(&id).is_some()) {
            return Err(Refusal::NotFound(Resource::Orphan).into());
        }
        self.remove_now(orphan).await?;
        let left = orphans.iter().filter(|other| other.name != name).cloned().collect();
        self.keep_orphans(left).await;
        Ok(())
    }

    /// Notes what nobody claims now, and removes those whose grace has passed.
    pub(super) async fn sweep_orphans(&self, workspaces: Vec<SandboxId>, disks: Vec<String>) {
        let workspaces = workspaces.into_iter().map(|id| (OrphanKind::Workspace, id.to_string()));
        let seen: HashSet<(OrphanKind, String)> =
            workspaces.chain(disks.into_iter().map(|name| (OrphanKind::Disk, name))).collect();
        let before = self.orphans.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut orphans = self.merged(&before, seen);
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
                // Tried again with the next sweep.
                Err(error) => {
                    warn!(
                        name = orphan.name,
                        error = &error as &dyn std::error::Error,
                        "could not remove what has no sandbox"
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
            self.keep_orphans(orphans).await;
        }
    }

    /// Those of before that are still there, and those that are new.
    fn merged(&self, before: &[Orphan], seen: HashSet<(OrphanKind, String)>) -> Vec<Orphan> {
        let mut merged = Vec::new();
        for (kind, name) in seen {
            let known = before.iter().find(|orphan| {
                orphan.name == name && (orphan.kind == kind || orphan.kind == OrphanKind::Deleted)
            });
            let (seen_at_age_ms, seen_at_ms) = (self.age.now_ms(), now_ms());
            let mut orphan = known.cloned().unwrap_or(Orphan { kind, name, seen_at_age_ms, seen_at_ms });
            // A wall clock that was ahead when it was seen would keep it for as long.
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

    /// Whether so many of a kind have no owner that the rows are more likely to be wrong than the engine.
    fn is_held(&self, kind: OrphanKind, all: &[Orphan]) -> bool {
        if kind == OrphanKind::Deleted {
            return false;
        }
        let owned = self.registry.all();
        let owned = owned.iter().filter(|sandbox| {
            let has_it = |facts: &super::sandbox::Facts| {
                facts.record.stage != Stage::Lost
                    && (kind == OrphanKind::Workspace || facts.record.disk.is_some())
            };
            sandbox.look(has_it)
        });
        is_most(all.iter().filter(|orphan| orphan.kind == kind).count(), owned.count())
    }

    async fn remove_now(&self, orphan: &Orphan) -> Result<(), Error> {
        match orphan.kind {
            OrphanKind::Workspace | OrphanKind::Deleted => {
                let Ok(id) = orphan.name.parse() else { return Ok(()) };
                self.engine.remove(&id).await?;
                info!(sandbox = orphan.name, "removed a workspace without a sandbox");
                self.repaired(Repair::Orphan);
            }
            OrphanKind::Disk => {
                self.storage.remove_unclaimed(&orphan.name).await?;
                self.repaired(Repair::Disk);
            }
        }
        Ok(())
    }

    /// Remembers a sandbox that was deleted and of whose volume the engine keeps an entry.
    pub(super) async fn expect_removal(&self, id: &SandboxId) {
        let mut orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner).clone();
        orphans.retain(|orphan| orphan.name != id.as_str());
        orphans.push(Orphan {
            kind: OrphanKind::Deleted,
            name: id.to_string(),
            seen_at_age_ms: self.age.now_ms(),
            seen_at_ms: now_ms(),
        });
        self.keep_orphans(orphans).await;
    }

    /// Takes up the graces that began before this start.
    pub(super) async fn take_orphans(&self) -> Result<(), Error> {
        let orphans = self.store.orphans().await?;
        *self.orphans.lock().unwrap_or_else(PoisonError::into_inner) = orphans;
        Ok(())
    }

    /// Where the store cannot be written, the next start begins their grace anew.
    async fn keep_orphans(&self, orphans: Vec<Orphan>) {
        *self.orphans.lock().unwrap_or_else(PoisonError::into_inner) = orphans.clone();
        if let Err(error) = self.store.set_orphans(&orphans).await {
            warn!(error = &error as &dyn std::error::Error, "what has no sandbox could not be written down");
        }
    }
}
