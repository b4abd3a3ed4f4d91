//! Starts sandboxes before a session wants them, keeps them usable, and removes them.
//!
//! A sandbox that waits is in the registry, so nothing takes its user id or removes its parts. It holds a permit to run, and
//! makes room when a session needs that. It has no row in the store: after a restart it belongs to no session, and its note
//! says so.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use sandbox_api::SandboxId;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::container::Workspace;
use super::order::State;
use super::pool::{Started, waiting_spec};
use super::readiness::Prepared;
use super::reconcile::Inventory;
use super::sandbox::Sandbox;
use super::view::agent_info;
use super::{Error, Lifecycle};
use crate::agent::AgentHandle;
use crate::engine::{self, SandboxLabels};
use crate::metrics::Repair;
use crate::model::{Owner, ProjectName, Resources, limits};
use crate::seam;
use crate::service::clock::now_ms;

/// The result of a check of the pool.
enum Checked {
    /// What was removed was good for some time, or is not wanted any more.
    Sound,
    /// One was unusable right after its start, or could not be removed before.
    Unsound,
}

/// When another one may be started.
struct Pace {
    /// The pause after the next failure.
    pause: Duration,
    not_before: Instant,
    missing_since: Option<Instant>,
    started: Instant,
}

impl Pace {
    fn new() -> Self {
        let now = Instant::now();
        Self { pause: *limits::POOL_RETRY.start(), not_before: now, missing_since: None, started: now }
    }

    /// How long to wait with the next start: for a pause to end, and until no sandbox was created for a moment. Under steady load
    /// not longer than [`limits::POOL_PATIENCE`].
    fn until_start(&mut self, is_missing: bool, until_quiet: Duration) -> Duration {
        if !is_missing {
            self.missing_since = None;
            if self.started.elapsed() > limits::POOL_CHECK {
                self.pause = *limits::POOL_RETRY.start();
            }
            return limits::POOL_CHECK;
        }
        let since = *self.missing_since.get_or_insert_with(Instant::now);
        let patience = limits::POOL_PATIENCE.saturating_sub(since.elapsed());
        self.not_before.saturating_duration_since(Instant::now()).max(until_quiet.min(patience))
    }

    fn note_start(&mut self) {
        (self.started, self.missing_since) = (Instant::now(), None);
    }

    fn pause(&mut self, pause: Duration) {
        self.not_before = Instant::now() + pause;
    }

    /// Pauses after a failure, and longer after each. Returns the pause.
    fn slow_down(&mut self) -> Duration {
        let pause = self.pause;
        self.pause(pause);
        self.pause = (pause * 2).min(*limits::POOL_RETRY.end());
        pause
    }
}

impl Lifecycle {
    /// Keeps the wanted number of sandboxes waiting.
    pub(in crate::service) async fn keep_pool(self: &Arc<Self>) {
        if self.setup.limits.pool_size == 0 || !self.storage.has_disks() {
            return;
        }
        tokio::join!(self.tend_pool(), self.follow_images());
    }

    /// Checks those that wait at each change, and starts another one when one is missing and there is time. What is begun runs
    /// to its end, so that a stop of the daemon leaves no half of a sandbox.
    async fn tend_pool(self: &Arc<Self>) {
        let mut pace = Pace::new();
        loop {
            let lifecycle = Arc::clone(self);
            let checked = self.tasks.run_detached(async move { lifecycle.check_pool().await }).await;
            match checked {
                Ok(Checked::Sound) => {}
                Ok(Checked::Unsound) => {
                    pace.slow_down();
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    debug!(error, "could not check the sandboxes that wait");
                }
            }
            let is_missing = self.registry.waiting().len() < self.setup.limits.pool_size;
            let wait = pace.until_start(is_missing, self.pool.until_quiet());
            if is_missing && wait.is_zero() {
                let lifecycle = Arc::clone(self);
                match self.tasks.run_detached(async move { lifecycle.start_waiting().await }).await {
                    Ok(true) => pace.note_start(),
                    // There is room for it when another sandbox is parked.
                    Ok(false) => pace.pause(limits::POOL_CHECK),
                    Err(error) => {
                        let pause = pace.slow_down();
                        let error = &error as &dyn std::error::Error;
                        warn!(error, retry_in = ?pause, "no sandbox could be started in advance; new ones start their own");
                    }
                }
                continue;
            }
            let _ = timeout(wait.min(limits::POOL_CHECK), self.pool.changed.notified()).await;
        }
    }

    /// Removes those whose container ended or was changed, or is of an earlier image or for another project, and those whose
    /// removal failed before.
    async fn check_pool(&self) -> Result<Checked, Error> {
        let prepared = self.prepared()?.clone();
        let image_id = match self.engine.image_id(&prepared.image).await {
            // No new sandbox gets what it was started from.
            Err(engine::Error::Absent { .. }) => None,
            other => Some(other?),
        };
        let mut checked = Checked::Sound;
        for sandbox in self.registry.waiting() {
            let doubt = self.pool.doubt_of(sandbox.id());
            let wanted = sandbox.owner().project == self.pool.project() && sandbox.image_id() == image_id;
            let is_sound = match self.is_sound(&sandbox).await {
                Ok(is_sound) => is_sound,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    debug!(sandbox = %sandbox.id(), error, "could not check a sandbox that waits");
                    continue;
                }
            };
            if wanted && is_sound {
                self.pool.trust(sandbox.id(), doubt);
                continue;
            }
            let taken = self.pool.take_out(|started| started.sandbox.id() == sandbox.id());
            if !is_sound && taken.as_ref().is_none_or(|taken| taken.since.elapsed() < limits::POOL_CHECK) {
                checked = Checked::Unsound;
            }
            // A session may have got it meanwhile.
            if self.registry.waiting().iter().any(|waiting| waiting.id() == sandbox.id()) {
                self.remove_waiting(&sandbox).await;
            }
        }
        Ok(checked)
    }

    /// Whether a sandbox waits that is as it was when it was started.
    async fn is_sound(&self, sandbox: &Sandbox) -> Result<bool, Error> {
        let Some(agent) = self.pool.agent_of(sandbox.id()) else { return Ok(false) };
        let before = sandbox.with_facts(|facts| facts.posture.clone());
        let is_hardened = self.check_container(sandbox).await?;
        Ok(is_hardened
            && sandbox.with_facts(|facts| facts.posture == before)
            && agent_info(&agent).await.is_some())
    }

    /// Starts one. Returns false if there is no room for it.
    async fn start_waiting(self: &Arc<Self>) -> Result<bool, Error> {
        let prepared = self.prepared()?.clone();
        self.ownership.ensure_owned().await?;
        let _starting = self.pool.begin_start();
        let resources = Resources::default();
        let owner = Owner { project: ProjectName::pool(), subject: None };
        let Ok(permit) = self.quotas.run(&owner, resources) else { return Ok(false) };
        let spec = waiting_spec(self.pool.project());
        let Some(sandbox) = self.registry.enter_waiting(spec, prepared.transport)? else { return Ok(false) };
        match self.start_steps(&sandbox, &prepared).await {
            Ok(agent) => {
                debug!(sandbox = %sandbox.id(), "a sandbox waits for its session");
                self.pool.add(Started { sandbox, agent, permit, since: Instant::now() });
                Ok(true)
            }
            Err(error) => {
                self.remove_waiting(&sandbox).await;
                Err(error)
            }
        }
    }

    async fn start_steps(&self, sandbox: &Sandbox, prepared: &Prepared) -> Result<AgentHandle, Error> {
        let disk = self.storage.claim(sandbox.labels().spec.resources.disk_mb(), None).await?;
        sandbox.update(|record| record.disk = disk);
        // First, so that each container without a session has a note that says so.
        self.storage.set_note(&sandbox.labels()).await?;
        seam::at("pool.noted");
        let agent = self.bring_up(sandbox, prepared, Workspace::New).await?;
        seam::at("pool.started");
        Ok(agent)
    }

    /// Removes all parts of one that waits. After an error it stays in the registry, and the next check retries.
    async fn remove_waiting(&self, sandbox: &Sandbox) {
        let mut state = sandbox.order.exclusive().await;
        if matches!(&*state, State::Deleted) {
            return;
        }
        match self.tear_down(sandbox).await {
            Ok(()) => {
                *state = State::Deleted;
                self.registry.remove_waiting(sandbox);
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(sandbox = %sandbox.id(), error, "could not remove a sandbox that waited; retrying later");
            }
        }
    }

    /// Removes one that waits, because another sandbox needs its permit. Returns false if there is none.
    pub(super) async fn make_room_in_pool(&self) -> bool {
        let Some(Started { sandbox, agent, permit, .. }) = self.pool.take_for_room().await else {
            return false;
        };
        agent.close();
        self.remove_waiting(&sandbox).await;
        drop(permit);
        true
    }

    /// Number of sandboxes that wait for a session.
    pub(in crate::service) fn waiting(&self) -> usize {
        self.pool.len()
    }

    /// The engine reports a change of a container that no session has.
    pub(in crate::service) fn note_change_of_waiting(&self, id: &SandboxId) {
        self.pool.doubt(|started| started.sandbox.id() == id);
    }

    /// Removes all that wait, for a stop of the daemon.
    pub(in crate::service) async fn empty_pool(&self) {
        while self.make_room_in_pool().await {}
    }

    /// Looks after the pool when images get or lose their names.
    async fn follow_images(&self) {
        loop {
            let mut changes = std::pin::pin!(self.engine.image_changes(now_ms()));
            // Some changes may have been missed.
            self.pool.doubt(|_| true);
            while let Some(Ok(())) = changes.next().await {
                self.pool.doubt(|_| true);
            }
            sleep(limits::EVENTS_RETRY).await;
        }
    }

    /// Removes a sandbox of an earlier daemon that waited for a session. Its note says that it never had one.
    pub(super) async fn sweep_waiting(&self, labels: &SandboxLabels) {
        let removed = match self.engine.remove(&labels.id).await {
            // The engine may keep an empty entry of the volume.
            Ok(()) | Err(engine::Error::Miscounted { .. }) => self.storage.remove(labels.disk.as_ref()).await,
            Err(error) => Err(error.into()),
        };
        match removed.and_then(|()| self.remove_run_dir_of(&labels.id)) {
            Ok(()) => {
                info!(sandbox = %labels.id, "sandbox of an earlier daemon removed that waited for a session");
                self.count_repair(Repair::Orphan);
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(sandbox = %labels.id, error, "could not remove a sandbox that waited for a session; retrying later");
            }
        }
    }

    /// Removes disks of such sandboxes whose container and volume were removed before. Returns the other disks.
    pub(super) async fn sweep_waiting_disks(&self, disks: Vec<String>, inventory: &Inventory) -> Vec<String> {
        let mut others = Vec::new();
        for disk in disks {
            let note = self.storage.note(&disk).await.ok().flatten();
            let waited = note.is_some_and(|note| {
                note.is_pooled() && !self.registry.knows(&note.id) && !inventory.has(&note.id)
            });
            if !waited || self.storage.remove_unclaimed(&disk).await.is_err() {
                others.push(disk);
            }
        }
        others
    }
}
