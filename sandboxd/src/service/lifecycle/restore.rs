//! Restoring the sandboxes of the previous run.

use std::collections::HashSet;
use std::sync::Arc;

use futures::TryStreamExt;
use tokio::time::sleep;
use tracing::{info, warn};

use super::order::{Running, State};
use super::reconcile::OnEngine;
use super::sandbox::{Sandbox, new_record};
use super::{Error, Lifecycle};
use crate::engine::SandboxLabels;
use crate::metrics::Repair;
use crate::model::{SandboxRecord, Stage, UidSlot, limits};

impl Lifecycle {
    /// Takes back the sandboxes of before, finishes or undoes what was cut off, and sweeps the rest.
    pub(in crate::service) async fn restore_all(self: &Arc<Self>) -> Result<(), Error> {
        let mut on_engine = self.look().await?;
        on_engine.disks = self.storage.names().await;
        self.take_orphans().await?;
        // A start that is tried again has them in the store already.
        let records = if self.store.is_new() && self.store.sandboxes().await?.is_empty() {
            let records = self.rehydrate(&on_engine).await?;
            if !records.is_empty() {
                info!(
                    sandboxes = records.len(),
                    "the store is new; sandboxes are taken back from their labels"
                );
            }
            records
        } else if self.ownership.is_continuous() {
            self.store.sandboxes().await?
        } else {
            let mut records = self.store.sandboxes().await?;
            records.extend(self.rehydrate_beside(&records, &on_engine).await?);
            records
        };
        // An error ends this try here, before the sweep: what is not in the registry would be swept.
        let records = records.into_iter().filter(|record| self.registry.get(&record.id).is_none());
        futures::stream::iter(records.map(Ok))
            .try_for_each_concurrent(limits::RECONCILE_AT_ONCE, |record| self.settle(record, &on_engine))
            .await?;
        let lifecycle = Arc::clone(self);
        self.tasks
            .wait_up_to(limits::RESTORE_WAIT, async move {
                if let Err(error) = lifecycle.sweep(&on_engine).await {
                    warn!(error = &error as &dyn std::error::Error, "could not sweep; trying again later");
                }
            })
            .await;
        Ok(())
    }

    /// Takes one sandbox back as what it turns out to be.
    async fn settle(self: &Arc<Self>, record: SandboxRecord, on_engine: &OnEngine) -> Result<(), Error> {
        let may_go_on = |labels: &SandboxLabels| {
            // Its container is on the network that it was made with.
            labels.spec.network.is_open() == record.spec.network.is_open()
                && self.allows_network(&record.spec.network).is_ok()
        };
        let container = on_engine.containers.get(&record.id);
        let runs = match container {
            Some((labels, true)) if !may_go_on(labels) => {
                warn!(sandbox = %record.id, "a container has a network that its sandbox may not have; it is parked");
                false
            }
            container => container.is_some_and(|(_, runs)| *runs),
        };
        let stage = match record.stage {
            // An older row than the sandbox: it was made since.
            Stage::Creating if !self.ownership.is_continuous() && on_engine.has(&record.id) => Stage::Waking,
            // It was woken since.
            Stage::Parked if !self.ownership.is_continuous() && runs => Stage::Waking,
            stage => stage,
        };
        match stage {
            // Nobody was told that it is there, or somebody was told that it is not.
            Stage::Creating | Stage::Deleting => self.finish_delete(record).await,
            // A container that runs may have commands in it, whatever was about to happen to it.
            Stage::Running | Stage::Parking | Stage::Waking | Stage::Lost if runs => {
                self.restore_running(record).await
            }
            Stage::Lost => self.restore_lost(record).await,
            Stage::Running | Stage::Parking | Stage::Waking | Stage::Parked => {
                self.restore_parked(record, on_engine).await
            }
        }
    }

    async fn finish_delete(self: &Arc<Self>, record: SandboxRecord) -> Result<(), Error> {
        info!(sandbox = %record.id, stage = record.stage.as_str(), "removing what was cut off");
        let sandbox = Sandbox::restored(record, State::Stuck, None);
        sandbox.update(|record| record.stage = Stage::Deleting);
        // In the registry until nothing of it is left, so that a failure is tried again.
        if self.registry.adopt(Arc::clone(&sandbox)) {
            self.look_at_for_a_moment(sandbox).await;
        }
        Ok(())
    }

    async fn look_at_for_a_moment(self: &Arc<Self>, sandbox: Arc<Sandbox>) {
        let lifecycle = Arc::clone(self);
        self.tasks.wait_up_to(limits::RESTORE_WAIT, async move { lifecycle.look_at(&sandbox).await }).await;
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
        });
        // The daemon before this one may have been killed before it wrote everything down.
        sandbox.ledger().set_unrecorded(true);
        let egress = self.egress.begin(sandbox.outbound(), &agent);
        *sandbox.order.exclusive().await =
            State::Running(Running { agent, permit: self.free_permit(), egress });
        if self.registry.adopt(Arc::clone(&sandbox)) {
            info!(sandbox = %id, "took a sandbox back");
        } else {
            warn!(sandbox = %id, "left a sandbox alone whose session or user id has another");
            return Ok(());
        }
        if changed {
            self.repaired(Repair::CutOff);
            self.save(&sandbox).await;
        }
        self.restore_peer(sandbox).await;
        Ok(())
    }

    /// Finds out which process may be the agent. A container that hangs must not keep the others from being
    /// restored: its sandbox is tried again in the background.
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
                        "a sandbox is not restored yet; trying again"
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
        // Whoever uses a sandbox next finds out that its container went just now.
        if let Some(inspected) = self.engine.inspect(sandbox.id()).await? {
            self.engine.remove_others(sandbox.id(), Some(&inspected.container_id)).await?;
            sandbox.peer.send_replace(self.peer_of(inspected.status));
            sandbox.set_posture(inspected.posture);
            self.is_as_it_should_be(sandbox).await?;
        }
        sandbox.set_restored(true);
        Ok(())
    }

    async fn restore_parked(
        self: &Arc<Self>,
        record: SandboxRecord,
        on_engine: &OnEngine,
    ) -> Result<(), Error> {
        let id = record.id.clone();
        let age = self.age.now_ms();
        let was_parked = record.stage == Stage::Parked;
        let has_files = on_engine.has_files_of(&record);
        let sandbox = Sandbox::restored(record, State::Parked, None);
        sandbox.update(|record| {
            record.stage = Stage::Parked;
            record.parked_at_age_ms.get_or_insert(age);
        });
        if !self.registry.adopt(Arc::clone(&sandbox)) {
            warn!(sandbox = %id, "left a sandbox alone whose session or user id has another");
            return Ok(());
        }
        self.remove_run_dir_of(&id)?;
        // A container that is left over, or a workspace that is gone, is what the sweep and the next look at
        // it are for.
        if !has_files {
            self.look_at_for_a_moment(Arc::clone(&sandbox)).await;
        }
        if !was_parked && sandbox.stage() == Stage::Parked {
            info!(sandbox = %id, "the container of a sandbox has ended; it is parked");
            self.repaired(Repair::Ended);
            self.history.end_all(sandbox.ledger()).await;
            self.save(&sandbox).await;
        }
        Ok(())
    }

    async fn restore_lost(self: &Arc<Self>, record: SandboxRecord) -> Result<(), Error> {
        let sandbox = Sandbox::restored(record, State::Lost, None);
        if self.registry.adopt(Arc::clone(&sandbox)) {
            self.look_at(&sandbox).await;
        }
        Ok(())
    }

    /// The records of what the engine's labels tell, where the store is new.
    async fn rehydrate(&self, on_engine: &OnEngine) -> Result<Vec<SandboxRecord>, Error> {
        self.rehydrate_beside(&[], on_engine).await
    }

    /// The records of what the engine's labels tell beside those that are known. Where two claim one session or
    /// user id, the known one has it, or else the one that runs.
    async fn rehydrate_beside(
        &self,
        known: &[SandboxRecord],
        on_engine: &OnEngine,
    ) -> Result<Vec<SandboxRecord>, Error> {
        let mut running: Vec<_> = on_engine.containers.values().filter(|(_, runs)| *runs).collect();
        running.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
        let running = running.into_iter().map(|(labels, _)| (labels, Stage::Running));
        let parked = on_engine.volumes.values().map(|labels| (labels, Stage::Parked));
        let mut sessions: HashSet<_> = known.iter().map(|record| &record.spec.session_key).collect();
        let mut slots: HashSet<_> = known.iter().map(|record| record.slot).collect();
        let mut records = Vec::new();
        for (labels, stage) in running.chain(parked) {
            // The daemon's own trial of another start has the last user id; it was cut off.
            let is_trial = labels.slot == UidSlot::LAST;
            if is_trial || sessions.contains(&labels.spec.session_key) || slots.contains(&labels.slot) {
                continue;
            }
            sessions.insert(&labels.spec.session_key);
            slots.insert(labels.slot);
            let mut record =
                new_record(labels.id.clone(), labels.slot, labels.transport, labels.spec.clone());
            record.disk = labels.disk.clone();
            record.stage = stage;
            record.parked_at_age_ms = (stage == Stage::Parked).then(|| self.age.now_ms());
            records.push(record);
        }
        self.store.rehydrate(&records).await?;
        Ok(records)
    }
}
