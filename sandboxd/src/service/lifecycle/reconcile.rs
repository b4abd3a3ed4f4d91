//! Comparing what is with what should be, and making the one the other.
//!
//! The order of looking matters: the engine first, then the registry. A sandbox enters the registry before
//! anything of it is made and leaves it after everything of it is gone, so what the engine lists and the
//! registry does not know afterwards is nobody's.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::StreamExt;
use sandbox_api::SandboxId;
use tracing::{debug, info, warn};

use super::order::State;
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::engine::{self, Found, SandboxLabels};
use crate::metrics::Repair;
use crate::model::{SandboxRecord, Stage, UidSlot, limits};

/// What the engine has of ours.
pub(super) struct OnEngine {
    /// Containers, and whether they run.
    pub(super) containers: HashMap<SandboxId, (SandboxLabels, bool)>,
    pub(super) volumes: HashMap<SandboxId, SandboxLabels>,
    /// Names of the workspaces' disks, where they were asked for.
    pub(super) disks: Option<HashSet<String>>,
}

impl OnEngine {
    pub(super) fn has(&self, id: &SandboxId) -> bool {
        self.containers.contains_key(id) || self.volumes.contains_key(id)
    }

    /// Whether the files of a sandbox seem to be there. What was not asked for counts as there.
    pub(super) fn has_files_of(&self, record: &SandboxRecord) -> bool {
        let has_disk = match (&record.disk, &self.disks) {
            (Some(disk), Some(disks)) => disks.contains(disk.name()),
            _ => true,
        };
        has_disk && self.volumes.contains_key(&record.id)
    }

    /// Whether it is the daemon's own trial of another start, and nobody's work.
    fn is_trial(&self, id: &SandboxId) -> bool {
        let of_container = self.containers.get(id).map(|(labels, _)| labels);
        let mut labels = of_container.into_iter().chain(self.volumes.get(id));
        labels.any(|labels| labels.slot == UidSlot::LAST)
    }
}

impl Lifecycle {
    /// Makes what is what should be. One at a time.
    pub(in crate::service) async fn reconcile(self: &Arc<Self>) -> Result<(), Error> {
        let _turn = self.reconciling.lock().await;
        let on_engine = self.look().await?;
        futures::stream::iter(self.registry.all())
            .for_each_concurrent(limits::RECONCILE_AT_ONCE, |sandbox| async move {
                self.look_at(&sandbox).await;
            })
            .await;
        self.sweep(&on_engine).await
    }

    /// What the engine has of ours. Labels that do not verify make nothing ours.
    pub(super) async fn look(&self) -> Result<OnEngine, Error> {
        let containers = self.engine.list().await?;
        // After the containers, so that its marker speaks for both.
        let volumes = self.engine.volumes().await?;
        self.ownership.verify_listed(&volumes).await?;
        let mut found = OnEngine { containers: HashMap::new(), volumes: HashMap::new(), disks: None };
        for Found { labels, container_id, runs } in containers {
            match labels {
                // Claims to be ours and is not signed by us: somebody else's, or a relic. Not touched.
                None => self.warn_once(&container_id, "left a container alone whose labels do not verify"),
                // Of two, the one that runs.
                Some(labels) => {
                    let entry = found.containers.entry(labels.id.clone());
                    let known = entry.or_insert_with(|| (labels, false));
                    known.1 |= runs;
                }
            }
        }
        found.volumes = volumes.sandboxes.into_iter().map(|labels| (labels.id.clone(), labels)).collect();
        Ok(found)
    }

    /// Looks at one sandbox: parks it where its container died, notes where its workspace is gone or back, and
    /// removes it where a removal was left half done.
    pub(in crate::service) async fn look_at(self: &Arc<Self>, sandbox: &Arc<Sandbox>) {
        if let Err(error) = self.mend(sandbox).await {
            warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not mend a sandbox");
        }
        if sandbox.look(|facts| facts.unsaved) {
            self.save(sandbox).await;
        }
    }

    async fn mend(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<(), Error> {
        // Whoever holds it exclusively is at it already.
        match sandbox.stage() {
            Stage::Running => {
                if self.is_as_it_should_be(sandbox).await? {
                    return Ok(());
                }
                let mut state = sandbox.order.exclusive().await;
                if matches!(&*state, State::Running(_)) && !self.is_as_it_should_be(sandbox).await? {
                    self.ownership.verify().await?;
                    info!(sandbox = %sandbox.id(), "a container ended, or was changed by others; parking its sandbox");
                    self.park_held(sandbox, &mut state).await?;
                    self.repaired(Repair::Ended);
                }
                Ok(())
            }
            Stage::Parked => {
                let Some(mut state) = sandbox.order.try_exclusive() else { return Ok(()) };
                if matches!(&*state, State::Parked) && !self.has_workspace(sandbox).await? {
                    self.lose_held(sandbox, &mut state).await?;
                }
                Ok(())
            }
            Stage::Lost => {
                let Some(mut state) = sandbox.order.try_exclusive() else { return Ok(()) };
                if matches!(&*state, State::Lost) && self.has_workspace(sandbox).await? {
                    self.find_held(sandbox, &mut state).await;
                }
                Ok(())
            }
            Stage::Deleting => {
                let Some(mut state) = sandbox.order.try_exclusive() else { return Ok(()) };
                if matches!(&*state, State::Stuck) {
                    self.delete_held(sandbox, &mut state).await?;
                    self.repaired(Repair::CutOff);
                }
                Ok(())
            }
            Stage::Creating | Stage::Parking | Stage::Waking => Ok(()),
        }
    }

    /// Removes what no sandbox claims: networks and sockets' directories at once, workspaces and disks after a grace.
    pub(super) async fn sweep(&self, on_engine: &OnEngine) -> Result<(), Error> {
        let mut unclaimed = Vec::new();
        let ids: HashSet<&SandboxId> = on_engine.containers.keys().chain(on_engine.volumes.keys()).collect();
        for id in ids {
            match self.registry.get(id) {
                None if on_engine.is_trial(id) => self.sweep_trial(id).await,
                None => unclaimed.push(id.clone()),
                Some(sandbox) => {
                    // A parked sandbox has no container.
                    let Some(state) = sandbox.order.try_exclusive() else { continue };
                    if matches!(&*state, State::Parked) && on_engine.containers.contains_key(id) {
                        self.engine.remove_container_of(id).await?;
                        self.repaired(Repair::Orphan);
                    }
                }
            }
        }
        let kept = [self.publisher_network(), self.bridge_name()];
        let relics = self.engine.remove_networks(|name| kept.iter().any(|kept| kept == name)).await?;
        let networks = relics + self.tidy_bridge().await?;
        (0..networks).for_each(|_| self.repaired(Repair::Network));
        let disks = self.storage.unclaimed(|| self.claimed_disks()).await?;
        let unused = self.storage.sweep_unused(disks.unused).await;
        (0..unused).for_each(|_| self.repaired(Repair::Disk));
        self.sweep_orphans(unclaimed, disks.used).await;
        self.sweep_run_dir(on_engine)
    }

    /// A trial of a start that was cut off. One that cannot be removed now is tried again with the next sweep, and
    /// keeps nobody from starting.
    async fn sweep_trial(&self, id: &SandboxId) {
        // Its directory goes with it, because the sweep of directories uses the engine's list from before this one.
        let removed = match self.engine.remove(id).await {
            Ok(()) => self.remove_run_dir_of(id),
            Err(error) => Err(error.into()),
        };
        match removed {
            Ok(()) => {
                info!(sandbox = %id, "removed a container or volume without a sandbox");
                self.repaired(Repair::Orphan);
            }
            Err(Error::Engine(engine::Error::Miscounted { .. })) => {
                debug!(sandbox = %id, "the engine still keeps an entry of a deleted volume");
            }
            Err(error) => {
                warn!(sandbox = %id, error = &error as &dyn std::error::Error, "could not remove a container or volume without a sandbox");
            }
        }
    }

    /// A container without a sandbox keeps its directory as long as itself.
    fn sweep_run_dir(&self, on_engine: &OnEngine) -> Result<(), Error> {
        let entries = std::fs::read_dir(&self.setup.run_dir).map_err(|source| Error::RunDir { source })?;
        for entry in entries.flatten() {
            let id = entry.file_name().to_str().and_then(|name| name.parse::<SandboxId>().ok());
            let is_claimed =
                |id: &SandboxId| self.registry.get(id).is_some() || on_engine.containers.contains_key(id);
            if let Some(id) = id.filter(|id| !is_claimed(id)) {
                self.remove_run_dir_of(&id)?;
                self.repaired(Repair::RunDir);
            }
        }
        Ok(())
    }
}
