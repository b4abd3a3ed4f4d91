//! Comparing what is with what should be, and making the one the other.
//!
//! The order of looking matters: the engine first, then the registry. A sandbox enters the registry before
//! anything of it is made and leaves it after everything of it is gone, so what the engine lists and the
//! registry does not know afterwards is nobody's.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use sandbox_api::SandboxId;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::order::{Running, State};
use super::registry::Sandbox;
use super::{Error, Service};
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
    fn has(&self, id: &SandboxId) -> bool {
        self.containers.contains_key(id) || self.volumes.contains_key(id)
    }

    /// Whether the files of a sandbox seem to be there. What was not asked for counts as there.
    fn has_files_of(&self, record: &SandboxRecord) -> bool {
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

impl Service {
    /// Makes what is what should be. One at a time.
    pub(super) async fn reconcile(self: &Arc<Self>) -> Result<(), Error> {
        let _turn = self.reconciling.lock().await;
        let on_engine = self.look().await?;
        futures::stream::iter(self.registry.all())
            .for_each_concurrent(limits::RECONCILE_AT_ONCE, |sandbox| async move {
                self.look_at(&sandbox).await;
            })
            .await;
        self.sweep(&on_engine).await?;
        self.sweep_publishers().await?;
        self.revive_publishers(None).await
    }

    /// What the engine has of ours. Labels that do not verify make nothing ours.
    pub(super) async fn look(&self) -> Result<OnEngine, Error> {
        let containers = self.engine.list().await?;
        // After the containers, so that its marker speaks for both.
        let volumes = self.engine.volumes().await?;
        self.judge_engine(&volumes).await?;
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
    pub(super) async fn look_at(self: &Arc<Self>, sandbox: &Arc<Sandbox>) {
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
                    self.verify_engine().await?;
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
        let kept = [self.publish_network(), self.bridge_name()];
        let relics = self.engine.remove_networks(|name| kept.iter().any(|kept| kept == name)).await?;
        let networks = relics + self.tidy_bridge().await?;
        (0..networks).for_each(|_| self.repaired(Repair::Network));
        let disks = self.unclaimed_disks().await?;
        let unused = self.sweep_unused_disks(disks.unused).await;
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

    /// Takes back the sandboxes of before, finishes or undoes what was cut off, and sweeps the rest.
    pub(super) async fn take_back_all(self: &Arc<Self>) -> Result<(), Error> {
        let mut on_engine = self.look().await?;
        on_engine.disks = self.disk_names().await;
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
        } else if self.is_continuous() {
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
        let service = Arc::clone(self);
        self.not_for_long(async move {
            if let Err(error) = service.sweep(&on_engine).await {
                warn!(error = &error as &dyn std::error::Error, "could not sweep; trying again later");
            }
        })
        .await;
        Ok(())
    }

    /// Waits for a part of the start that need not be done before requests are served. Where it takes long, it
    /// goes on by itself.
    pub(super) async fn not_for_long(&self, part: impl Future<Output = ()> + Send + 'static) {
        let _ = timeout(limits::RESTORE_WAIT, self.tasks.spawn(part)).await;
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
            Stage::Creating if !self.is_continuous() && on_engine.has(&record.id) => Stage::Waking,
            // It was woken since.
            Stage::Parked if !self.is_continuous() && runs => Stage::Waking,
            stage => stage,
        };
        match stage {
            // Nobody was told that it is there, or somebody was told that it is not.
            Stage::Creating | Stage::Deleting => self.finish_delete(record).await,
            // A container that runs may have commands in it, whatever was about to happen to it.
            Stage::Running | Stage::Parking | Stage::Waking | Stage::Lost if runs => {
                self.take_back_running(record).await
            }
            Stage::Lost => self.take_back_lost(record).await,
            Stage::Running | Stage::Parking | Stage::Waking | Stage::Parked => {
                self.take_back_parked(record, on_engine).await
            }
        }
    }

    async fn finish_delete(self: &Arc<Self>, record: SandboxRecord) -> Result<(), Error> {
        info!(sandbox = %record.id, stage = record.stage.as_str(), "removing what was cut off");
        let sandbox = Sandbox::of_before(record, State::Stuck, None);
        sandbox.update(|record| record.stage = Stage::Deleting);
        // In the registry until nothing of it is left, so that a failure is tried again.
        if self.registry.adopt(Arc::clone(&sandbox)) {
            self.look_at_for_a_moment(sandbox).await;
        }
        Ok(())
    }

    async fn look_at_for_a_moment(self: &Arc<Self>, sandbox: Arc<Sandbox>) {
        let service = Arc::clone(self);
        self.not_for_long(async move { service.look_at(&sandbox).await }).await;
    }

    async fn take_back_running(self: &Arc<Self>, record: SandboxRecord) -> Result<(), Error> {
        let id = record.id.clone();
        let sandbox = Sandbox::of_before(record, State::Creating, None);
        sandbox.set_restored(false);
        let agent = self.open_door(&sandbox)?;
        let changed = sandbox.stage() != Stage::Running;
        sandbox.update(|record| {
            record.stage = Stage::Running;
            record.parked_at_age_ms = None;
        });
        // The daemon before this one may have been killed before it wrote everything down.
        sandbox.set_unrecorded(true);
        let egress = self.begin_egress(&sandbox, &agent);
        *sandbox.order.exclusive().await =
            State::Running(Running { agent: agent.clone(), place: self.free_place(), egress });
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
        self.watch_of_before(&sandbox, i64::MAX).await;
        self.record_restored(&sandbox, &agent);
        self.restore(sandbox).await;
        Ok(())
    }

    /// Finds out which process may be the agent. A container that hangs must not keep the others from being
    /// restored: its sandbox is tried again in the background.
    async fn restore(self: &Arc<Self>, sandbox: Arc<Sandbox>) {
        let service = Arc::clone(self);
        self.not_for_long(async move {
            let mut pause = *limits::START_RETRY.start();
            while let Err(error) = service.restore_once(&sandbox).await {
                warn!(
                    sandbox = %sandbox.id(),
                    error = &error as &dyn std::error::Error,
                    retry_in = ?pause,
                    "a sandbox is not restored yet; trying again"
                );
                tokio::select! {
                    () = service.watching.cancelled() => return,
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

    async fn take_back_parked(
        self: &Arc<Self>,
        record: SandboxRecord,
        on_engine: &OnEngine,
    ) -> Result<(), Error> {
        let id = record.id.clone();
        let age = self.age.now_ms();
        let was_parked = record.stage == Stage::Parked;
        let has_files = on_engine.has_files_of(&record);
        let sandbox = Sandbox::of_before(record, State::Parked, None);
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
            self.end_history_of(&sandbox).await;
            self.save(&sandbox).await;
        }
        Ok(())
    }

    async fn take_back_lost(self: &Arc<Self>, record: SandboxRecord) -> Result<(), Error> {
        let sandbox = Sandbox::of_before(record, State::Lost, None);
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
            let mut record = super::registry::new_record(
                labels.id.clone(),
                labels.slot,
                labels.transport,
                labels.spec.clone(),
            );
            record.disk = labels.disk.clone();
            record.stage = stage;
            record.parked_at_age_ms = (stage == Stage::Parked).then(|| self.age.now_ms());
            records.push(record);
        }
        self.store.rehydrate(&records).await?;
        Ok(records)
    }
}
