//! Reconciles the actual state on the engine with the desired state in the registry.
//!
//! The order matters: the engine is listed first, then the registry is read. A sandbox enters the registry before any
//! part of it is created, and leaves it after every part was removed. So an object that the engine lists and the
//! registry does not know afterwards belongs to no sandbox.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::StreamExt;
use sandbox_api::SandboxId;
use tracing::{debug, info, warn};

use super::notes::Noted;
use super::order::State;
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::engine::{self, Containers, Found, SandboxLabels};
use crate::metrics::Repair;
use crate::model::{SandboxRecord, Stage, UidSlot, limits};

/// Our objects on the engine, as of one moment.
pub(super) struct Inventory {
    /// Containers, and whether they run.
    pub(super) containers: HashMap<SandboxId, (SandboxLabels, bool)>,
    pub(super) volumes: HashMap<SandboxId, SandboxLabels>,
    /// Names of the workspaces' disks, each with whether a device may be attached to it. `None` if they were not listed.
    pub(super) disks: Option<HashMap<String, bool>>,
}

impl Inventory {
    pub(super) fn has(&self, id: &SandboxId) -> bool {
        self.containers.contains_key(id) || self.volumes.contains_key(id)
    }

    /// Whether the files of a sandbox seem to exist. A disk counts as existing if the disks were not listed.
    pub(super) fn has_files_of(&self, record: &SandboxRecord) -> bool {
        let has_disk = match (&record.disk, &self.disks) {
            (Some(disk), Some(disks)) => disks.contains_key(disk.name()),
            _ => true,
        };
        has_disk && self.volumes.contains_key(&record.id)
    }

    /// Whether a running container of a sandbox has certainly mounted something else than the sandbox's disk.
    pub(super) fn has_other_disk(&self, record: &SandboxRecord) -> bool {
        let disk = record.disk.as_ref().zip(self.disks.as_ref());
        // An image that was moved away stays mounted, and is not listed.
        disk.is_some_and(|(disk, disks)| disks.get(disk.name()) == Some(&false))
    }

    /// The labels of a sandbox whose container, or else whose volume, was created before a session wanted it.
    fn pooled(&self, id: &SandboxId) -> Option<&SandboxLabels> {
        let of_container = self.containers.get(id).map(|(labels, _)| labels);
        of_container.or_else(|| self.volumes.get(id)).filter(|labels| labels.is_pooled())
    }

    /// Whether this is a probe sandbox of an earlier start, which holds no work.
    fn is_probe(&self, id: &SandboxId) -> bool {
        let of_container = self.containers.get(id).map(|(labels, _)| labels);
        let mut labels = of_container.into_iter().chain(self.volumes.get(id));
        labels.any(|labels| labels.slot == UidSlot::LAST)
    }
}

impl Lifecycle {
    /// Checks and repairs every sandbox, and removes objects without a sandbox. Runs one at a time.
    pub(in crate::service) async fn reconcile(self: &Arc<Self>) -> Result<(), Error> {
        let _guard = self.reconciling.lock().await;
        let inventory = self.take_inventory().await?;
        futures::stream::iter(self.registry.all())
            .for_each_concurrent(limits::RECONCILE_AT_ONCE, |sandbox| async move {
                self.check_sandbox(&sandbox).await;
            })
            .await;
        self.charge_restored_bases().await;
        self.sweep(&inventory).await
    }

    /// Lists our objects on the engine. An object is ours only if the signature of its labels is valid.
    pub(super) async fn take_inventory(&self) -> Result<Inventory, Error> {
        let Containers { ours, other_users } = self.engine.list().await?;
        self.registry.note_other_users(other_users);
        // After the containers, so that the marker is valid for both lists.
        let volumes = self.engine.volumes().await?;
        self.ownership.verify_listed(&volumes).await?;
        let mut found = Inventory { containers: HashMap::new(), volumes: HashMap::new(), disks: None };
        for Found { labels, container_id, runs } in ours {
            match labels {
                // It has our labels without our signature: another owner's container, or a leftover. It is not touched.
                None => {
                    self.warn_once(&container_id, "container ignored: the signature of its labels is invalid")
                }
                // If a sandbox has two containers, the running one counts.
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

    /// Checks one sandbox. Parks it if its container ended, marks it as lost or found if its workspace disappeared or
    /// came back, and completes a delete. Also retries a failed write of its row.
    pub(in crate::service) async fn check_sandbox(self: &Arc<Self>, sandbox: &Arc<Sandbox>) {
        if let Err(error) = self.repair_sandbox(sandbox).await {
            warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not repair a sandbox");
        }
        if sandbox.with_facts(|facts| facts.unsaved) {
            self.save(sandbox).await;
        }
    }

    async fn repair_sandbox(self: &Arc<Self>, sandbox: &Arc<Sandbox>) -> Result<(), Error> {
        // An operation that holds the lock exclusively takes care of the sandbox itself.
        match sandbox.stage() {
            Stage::Running => self.repair_running(sandbox).await,
            Stage::Parked => {
                let Some(mut state) = sandbox.order.try_exclusive() else { return Ok(()) };
                if matches!(&*state, State::Parked) && !self.has_workspace(sandbox).await? {
                    self.mark_lost(sandbox, &mut state).await?;
                }
                Ok(())
            }
            Stage::Lost => {
                let Some(mut state) = sandbox.order.try_exclusive() else { return Ok(()) };
                if matches!(&*state, State::Lost) && self.has_workspace(sandbox).await? {
                    self.mark_found(sandbox, &mut state).await;
                }
                Ok(())
            }
            Stage::Deleting => {
                let Some(mut state) = sandbox.order.try_exclusive() else { return Ok(()) };
                if matches!(&*state, State::Deleting) {
                    self.delete_locked(sandbox, &mut state).await?;
                    self.count_repair(Repair::CutOff);
                }
                Ok(())
            }
            Stage::Creating | Stage::Parking | Stage::Waking => Ok(()),
        }
    }

    async fn repair_running(&self, sandbox: &Sandbox) -> Result<(), Error> {
        if self.check_container(sandbox).await? {
            return Ok(());
        }
        let mut state = sandbox.order.exclusive().await;
        if matches!(&*state, State::Running(_)) && !self.check_container(sandbox).await? {
            self.ownership.verify().await?;
            info!(sandbox = %sandbox.id(), "a container ended or was changed by others; parking its sandbox");
            self.park_locked(sandbox, &mut state).await?;
            self.count_repair(Repair::Ended);
        }
        Ok(())
    }

    /// Removes objects that no sandbox claims: networks and sockets' directories at once, workspaces and disks after a
    /// grace period.
    pub(super) async fn sweep(&self, inventory: &Inventory) -> Result<(), Error> {
        let mut unclaimed = Vec::new();
        let ids: HashSet<&SandboxId> = inventory.containers.keys().chain(inventory.volumes.keys()).collect();
        for id in ids {
            match self.registry.get(id) {
                None if self.registry.knows(id) => {}
                None if inventory.is_probe(id) => self.sweep_probe(id).await,
                None => match inventory.pooled(id) {
                    Some(labels) => match self.noted(labels).await {
                        Noted::Waits => self.sweep_waiting(labels).await,
                        // It may be a session's.
                        Noted::Unread => {}
                        Noted::Of(_) | Noted::Unknown => unclaimed.push(id.clone()),
                    },
                    None => unclaimed.push(id.clone()),
                },
                Some(sandbox) => {
                    // A parked sandbox has no container.
                    let Some(state) = sandbox.order.try_exclusive() else { continue };
                    if matches!(&*state, State::Parked) && inventory.containers.contains_key(id) {
                        self.engine.remove_container_of(id).await?;
                        self.count_repair(Repair::Orphan);
                    }
                }
            }
        }
        let kept = [self.publisher_network(), self.bridge_name()];
        let leftovers = self.engine.remove_networks(|name| kept.iter().any(|kept| kept == name)).await?;
        let networks = leftovers + self.remove_unused_bridge().await?;
        (0..networks).for_each(|_| self.count_repair(Repair::Network));
        let disks = self.storage.unclaimed(|| self.claimed_disks()).await?;
        let unused = self.storage.sweep_unused(disks.unused).await;
        (0..unused).for_each(|_| self.count_repair(Repair::Disk));
        let used = self.sweep_waiting_disks(disks.used, inventory).await;
        self.sweep_orphans(unclaimed, used).await;
        self.sweep_run_dir(inventory)
    }

    /// Removes the probe sandbox of a start that was interrupted. An error is only logged, so that it does not stop the
    /// start. The next sweep retries.
    async fn sweep_probe(&self, id: &SandboxId) {
        // With its directory: the sweep of directories uses the earlier list, which still has the container.
        let removed = match self.engine.remove(id).await {
            Ok(()) => self.remove_run_dir_of(id),
            Err(error) => Err(error.into()),
        };
        match removed {
            Ok(()) => {
                info!(sandbox = %id, "container or volume of an earlier probe removed");
                self.count_repair(Repair::Orphan);
            }
            Err(Error::Engine(engine::Error::Miscounted { .. })) => {
                debug!(sandbox = %id, "the engine still keeps an entry of a deleted volume");
            }
            Err(error) => {
                warn!(sandbox = %id, error = &error as &dyn std::error::Error, "could not remove a container or volume of an earlier probe");
            }
        }
    }

    /// Removes sockets' directories that belong neither to a sandbox nor to a container.
    fn sweep_run_dir(&self, inventory: &Inventory) -> Result<(), Error> {
        let entries = std::fs::read_dir(&self.setup.run_dir).map_err(|source| Error::RunDir { source })?;
        for entry in entries.flatten() {
            let id = entry.file_name().to_str().and_then(|name| name.parse::<SandboxId>().ok());
            let is_claimed =
                |id: &SandboxId| self.registry.knows(id) || inventory.containers.contains_key(id);
            if let Some(id) = id.filter(|id| !is_claimed(id)) {
                self.remove_run_dir_of(&id)?;
                self.count_repair(Repair::RunDir);
            }
        }
        Ok(())
    }
}
