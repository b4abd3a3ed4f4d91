//! Restores the sandboxes of the previous run.
//!
//! Normally the store's rows say which sandboxes exist. If the store is new, or the state dir is a copy or a backup,
//! sandboxes without a row are restored from their signed labels.

use std::collections::HashSet;
use std::sync::Arc;

use futures::TryStreamExt;
use tokio::time::sleep;
use tracing::{info, warn};

use super::notes::Noted;
use super::order::{Running, State};
use super::reconcile::Inventory;
use super::sandbox::{Sandbox, new_record};
use super::{Error, Lifecycle};
use crate::engine::SandboxLabels;
use crate::metrics::Repair;
use crate::model::{SandboxRecord, SandboxSpec, Stage, UidSlot, limits};

impl Lifecycle {
    /// Restores the sandboxes of the previous run, completes or undoes operations that were cut off, and removes
    /// leftovers.
    pub(in crate::service) async fn restore_all(self: &Arc<Self>) -> Result<(), Error> {
        let mut inventory = self.take_inventory().await?;
        // After the containers, so that the disk of a container that ran is attached.
        inventory.disks = self.storage.listed_disks().await;
        self.load_orphans().await?;
        // If the start is retried, the store has these records already.
        let records = if self.store.is_new() && self.store.sandboxes().await?.is_empty() {
            let records = self.records_from_labels(&[], &inventory, |_| true).await?;
            if !records.is_empty() {
                info!(
                    sandboxes = records.len(),
                    "the store is new; sandboxes are restored from their labels"
                );
            }
            records
        } else {
            let mut records = self.store.sandboxes().await?;
            // A note with a session is written before the row, and removed before it. So if there is no row, the note was the last
            // step of a create, or an earlier start could not read it.
            let is_continuous = self.ownership.is_continuous();
            let may_be_missing = |labels: &SandboxLabels| !is_continuous || labels.is_pooled();
            records.extend(self.records_from_labels(&records, &inventory, may_be_missing).await?);
            records
        };
        // An error ends this attempt before the sweep, which would remove objects of sandboxes that are not in the
        // registry.
        let records = records.into_iter().filter(|record| self.registry.get(&record.id).is_none());
        futures::stream::iter(records.map(Ok))
            .try_for_each_concurrent(limits::RECONCILE_AT_ONCE, |record| self.restore(record, &inventory))
            .await?;
        self.charge_restored_bases().await;
        let lifecycle = Arc::clone(self);
        self.tasks
            .wait_up_to(limits::RESTORE_WAIT, async move {
                if let Err(error) = lifecycle.sweep(&inventory).await {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "could not remove leftovers; retrying later"
                    );
                }
            })
            .await;
        Ok(())
    }

    /// Restores one sandbox, in the state that its row and the engine's objects show.
    async fn restore(
        self: &Arc<Self>,
        mut record: SandboxRecord,
        inventory: &Inventory,
    ) -> Result<(), Error> {
        if record.is_tentative {
            if self.ownership.is_continuous() {
                return self.finish_delete(record).await;
            }
            // The row is older than the sandbox, which may be in use since.
            self.store.confirm(std::slice::from_ref(&record.id)).await?;
            record.is_tentative = false;
        }
        let may_keep_running = |labels: &SandboxLabels| {
            // The container is on the network that it was created with.
            labels.spec.network.is_open() == record.spec.network.is_open()
                && self.check_network(&record.spec.network).is_ok()
        };
        let container = inventory.containers.get(&record.id);
        let runs = match container {
            Some((labels, true)) if !may_keep_running(labels) => {
                warn!(sandbox = %record.id, "the network of a container is not allowed for its sandbox; parking the sandbox");
                false
            }
            // The previous daemon was killed while the container started. Its helper released the disk's device before
            // the engine mounted it, and the device had become another file's.
            Some((_, true)) if inventory.has_other_disk(&record) => {
                warn!(sandbox = %record.id, "a container has another disk than its sandbox's; parking the sandbox");
                false
            }
            container => container.is_some_and(|(_, runs)| *runs),
        };
        let stage = match record.stage {
            // The row is older than the sandbox, which was created since.
            Stage::Creating if !self.ownership.is_continuous() && inventory.has(&record.id) => Stage::Waking,
            // The row is older than its container: the sandbox was woken since.
            Stage::Parked if !self.ownership.is_continuous() && runs => Stage::Waking,
            stage => stage,
        };
        match stage {
            // No client has received its id yet, or a client has requested the delete.
            Stage::Creating | Stage::Deleting => self.finish_delete(record).await,
            // A running container may have commands in it, whatever operation was cut off.
            Stage::Running | Stage::Parking | Stage::Waking | Stage::Lost if runs => {
                self.restore_running(record).await
            }
            Stage::Lost => self.restore_lost(record).await,
            Stage::Running | Stage::Parking | Stage::Waking | Stage::Parked => {
                self.restore_parked(record, inventory).await
            }
        }
    }

    /// Enters a sandbox into the registry and charges its project. Returns false if its session or user id is taken.
    fn insert_restored(&self, sandbox: &Arc<Sandbox>) -> bool {
        let resources = sandbox.with_spec(|spec| spec.resources);
        let charge = self.quotas.existing_sandbox(&sandbox.owner().project, resources);
        self.registry.insert_restored(Arc::clone(sandbox), charge)
    }

    async fn finish_delete(self: &Arc<Self>, record: SandboxRecord) -> Result<(), Error> {
        info!(sandbox = %record.id, stage = record.stage.as_str(), "removing a sandbox whose create or delete was cut off");
        let sandbox = Sandbox::restored(record, State::Deleting, None);
        sandbox.update(|record| record.stage = Stage::Deleting);
        // It stays in the registry until every part was removed, so that an error is retried.
        if self.insert_restored(&sandbox) {
            self.check_sandbox_briefly(sandbox).await;
        }
        Ok(())
    }

    /// Checks a sandbox. After [`limits::RESTORE_WAIT`] the check continues in the background.
    async fn check_sandbox_briefly(self: &Arc<Self>, sandbox: Arc<Sandbox>) {
        let lifecycle = Arc::clone(self);
        self.tasks
            .wait_up_to(limits::RESTORE_WAIT, async move { lifecycle.check_sandbox(&sandbox).await })
            .await;
    }

    async fn restore_running(self: &Arc<Self>, record: SandboxRecord) -> Result<(), Error> {
        let id = record.id.clone();
        let sandbox = Sandbox::restored(record, State::Creating, None);
        sandbox.set_restored(false);
        let agent = self.open_listener(&sandbox)?;
        let changed = sandbox.stage() != Stage::Running;
        sandbox.update(|record| {
            record.stage = Stage::Running;
            record.parked_at_age_ms = None;
            record.checkpoint_pending = false;
        });
        // The previous daemon may have been killed before it recorded all commands.
        sandbox.ledger().set_unrecorded(true);
        let egress = self.begin_egress(&sandbox, &agent);
        let permit = self.existing_run_permit(&sandbox);
        *sandbox.order.exclusive().await = State::Running(Running { agent, permit, egress });
        if self.insert_restored(&sandbox) {
            info!(sandbox = %id, "sandbox restored");
        } else {
            warn!(sandbox = %id, "sandbox not restored: its session or user id belongs to another sandbox");
            return Ok(());
        }
        if changed {
            self.count_repair(Repair::CutOff);
            self.save(&sandbox).await;
        }
        self.restore_peer(sandbox).await;
        Ok(())
    }

    /// Finds out which process is accepted as the agent. A container that hangs must not delay the other sandboxes, so
    /// its sandbox is retried in the background.
    async fn restore_peer(self: &Arc<Self>, sandbox: Arc<Sandbox>) {
        let lifecycle = Arc::clone(self);
        self.tasks
            .wait_up_to(limits::RESTORE_WAIT, async move {
                let mut pause = *limits::START_RETRY.start();
                while let Err(error) = lifecycle.restore_once(&sandbox).await {
                    warn!(
                        sandbox = %sandbox.id(),
                        error = &error as &dyn std::error::Error,
                        retry_in = ?pause,
                        "could not restore a sandbox; retrying"
                    );
                    tokio::select! {
                        () = lifecycle.tasks.closing().cancelled() => return,
                        () = sleep(pause) => {}
                    }
                    pause = (pause * 2).min(*limits::START_RETRY.end());
                }
            })
            .await;
    }

    async fn restore_once(&self, sandbox: &Sandbox) -> Result<(), Error> {
        // If the container ended since the inventory, the next use of the sandbox finds out.
        if let Some(inspected) = self.engine.inspect(sandbox.id()).await? {
            self.engine.remove_others(sandbox.id(), Some(&inspected.container_id)).await?;
            sandbox.peer.send_replace(self.peer_of(inspected.status));
            sandbox.set_posture(inspected.posture);
            self.check_container(sandbox).await?;
        }
        sandbox.set_restored(true);
        Ok(())
    }

    async fn restore_parked(
        self: &Arc<Self>,
        record: SandboxRecord,
        inventory: &Inventory,
    ) -> Result<(), Error> {
        let id = record.id.clone();
        let age = self.age.now_ms();
        let was_parked = record.stage == Stage::Parked;
        let is_continuous = self.ownership.is_continuous();
        let has_files = inventory.has_files_of(&record);
        let sandbox = Sandbox::restored(record, State::Parked, None);
        sandbox.update(|record| {
            record.stage = Stage::Parked;
            record.parked_at_age_ms.get_or_insert(age);
            record.checkpoint_pending |= !was_parked || !is_continuous;
        });
        if !self.insert_restored(&sandbox) {
            warn!(sandbox = %id, "sandbox not restored: its session or user id belongs to another sandbox");
            return Ok(());
        }
        self.remove_run_dir_of(&id)?;
        // The sweep removes a leftover container. The check handles a missing workspace.
        if !has_files {
            self.check_sandbox_briefly(Arc::clone(&sandbox)).await;
        }
        if !was_parked && sandbox.stage() == Stage::Parked {
            info!(sandbox = %id, "sandbox parked: its container has ended");
            self.count_repair(Repair::Ended);
            self.history.end_all(sandbox.ledger()).await;
            self.save(&sandbox).await;
        }
        Ok(())
    }

    async fn restore_lost(self: &Arc<Self>, record: SandboxRecord) -> Result<(), Error> {
        let sandbox = Sandbox::restored(record, State::Lost, None);
        if self.insert_restored(&sandbox) {
            self.check_sandbox(&sandbox).await;
        }
        Ok(())
    }

    /// The labels of a sandbox of a session: these, or those beside its disk if it was started before a session wanted it.
    /// `None` if it is not known to have a session.
    async fn with_session(&self, labels: &SandboxLabels) -> Option<SandboxLabels> {
        if !labels.is_pooled() {
            return Some(labels.clone());
        }
        match self.noted(labels).await {
            Noted::Of(labels) => Some(*labels),
            Noted::Waits | Noted::Unknown | Noted::Unread => None,
        }
    }

    /// Creates records from the labels on the engine, for sandboxes that are not `known`, and writes them to the store.
    /// If two sandboxes claim the same session or user id, a known one takes precedence, then a running one.
    async fn records_from_labels(
        &self,
        known: &[SandboxRecord],
        inventory: &Inventory,
        may_be_missing: impl Fn(&SandboxLabels) -> bool,
    ) -> Result<Vec<SandboxRecord>, Error> {
        let mut running: Vec<_> = inventory.containers.values().filter(|(_, runs)| *runs).collect();
        running.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
        let running = running.into_iter().map(|(labels, _)| (labels, Stage::Running));
        let parked = inventory.volumes.values().map(|labels| (labels, Stage::Parked));
        let session_of = |spec: &SandboxSpec| (spec.owner.clone(), spec.session_key.clone());
        let mut sessions: HashSet<_> = known.iter().map(|record| session_of(&record.spec)).collect();
        let mut slots: HashSet<_> = known.iter().map(|record| record.slot).collect();
        let mut records = Vec::new();
        for (labels, stage) in running.chain(parked) {
            let is_known = known.iter().any(|record| record.id == labels.id) || self.was_deleted(&labels.id);
            if is_known || !may_be_missing(labels) {
                continue;
            }
            let Some(labels) = self.with_session(labels).await else { continue };
            // The probe sandbox of an interrupted start has the last user id.
            let is_probe = labels.slot == UidSlot::LAST;
            let session = session_of(&labels.spec);
            if is_probe || sessions.contains(&session) || slots.contains(&labels.slot) {
                continue;
            }
            sessions.insert(session);
            slots.insert(labels.slot);
            let mut record = new_record(labels.id, labels.slot, labels.transport, labels.spec);
            record.disk = labels.disk;
            record.stage = stage;
            record.parked_at_age_ms = (stage == Stage::Parked).then(|| self.age.now_ms());
            record.checkpoint_pending = stage == Stage::Parked;
            records.push(record);
        }
        if !records.is_empty() || self.store.is_new() {
            self.store.rehydrate(&records).await?;
        }
        Ok(records)
    }
}
