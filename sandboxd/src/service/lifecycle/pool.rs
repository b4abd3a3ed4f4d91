//! Sandboxes that were started before a session wants them, so that a create takes milliseconds.
//!
//! Their containers are those of sandboxes that name no options. A create that wants such a container takes one with a write to
//! the store, a note beside the disk ([`claim`](super::claim)) and one message to the agent, without a call to the engine.
//! Every other create, and every create while none waits, starts a container.
//!
//! A sandbox that waits is in the registry, so nothing takes its user id or removes its parts. It holds a permit to run, and
//! makes room when a session needs that. It has no row in the store: after a restart it belongs to no session, and its note
//! says so.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use futures::{StreamExt, TryFutureExt};
use sandbox_api::SandboxId;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use super::container::Workspace;
use super::readiness::Prepared;
use super::reconcile::Inventory;
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::agent::AgentHandle;
use crate::engine::SandboxLabels;
use crate::metrics::Repair;
use crate::model::{Owner, POOL_KEY, ProjectName, Resources, SandboxSpec, limits};
use crate::seam;
use crate::service::clock::now_ms;
use crate::service::quotas::RunPermit;

/// A sandbox whose container runs and whose agent has answered.
#[derive(Debug)]
pub(super) struct Started {
    sandbox: Arc<Sandbox>,
    pub(super) agent: AgentHandle,
    pub(super) permit: RunPermit,
}

impl Started {
    /// The sandbox as it was while it waited.
    pub(super) fn sandbox(&self) -> &Arc<Sandbox> {
        &self.sandbox
    }
}

/// The sandboxes that wait for a session.
#[derive(Debug, Default)]
pub(super) struct Pool {
    state: Mutex<State>,
    /// Notified when one was taken, or may not be usable any more.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Started>,
    /// Whose sandboxes they will be. The kernel divides the processors among projects, so a container is in the cgroup of its
    /// project from the start.
    project: ProjectName,
    /// The project of the last create that could have taken one.
    last: ProjectName,
    /// When the last sandbox was created.
    last_create: Option<Instant>,
}

impl Pool {
    /// Takes one for a sandbox with this specification, if one fits. `image` is what sandboxes get that name none.
    pub(super) fn take(&self, spec: &SandboxSpec, image: &str) -> Option<Started> {
        let mut state = self.lock();
        state.last_create = Some(Instant::now());
        if !fits(spec, image) {
            return None;
        }
        state.follow(&spec.owner.project);
        let usable = |started: &Started| {
            started.sandbox.owner().project == spec.owner.project && started.agent.is_connected()
        };
        let at = state.ready.iter().position(usable)?;
        let mut started = state.ready.remove(at)?;
        self.changed.notify_one();
        if started.permit.move_to(&spec.owner).is_err() {
            // Its project may not run more, or the rest is kept for others.
            state.ready.push_back(started);
            return None;
        }
        Some(started)
    }

    /// Takes one that does not fit any more, or any one if `any` is set.
    fn take_out(&self, mut is_out: impl FnMut(&Started) -> bool) -> Option<Started> {
        let mut state = self.lock();
        let at = state.ready.iter().position(&mut is_out)?;
        state.ready.remove(at)
    }

    /// Whether one waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().ready.is_empty()
    }

    /// Number of those that wait.
    pub(super) fn len(&self) -> usize {
        self.lock().ready.len()
    }

    /// Something may have happened to one of them.
    pub(super) fn note_change(&self) {
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Notes a create. Two in a row of another project make the pool its own.
    fn follow(&mut self, project: &ProjectName) {
        if project.is_reserved() {
            return;
        }
        if self.last == *project {
            self.project = project.clone();
        } else {
            self.last = project.clone();
        }
    }
}

/// Whether a sandbox with this specification could have the container of one that waits.
fn fits(spec: &SandboxSpec, image: &str) -> bool {
    spec.image.as_ref().is_none_or(|wanted| wanted == image)
        && spec.resources == Resources::default()
        && !spec.network.is_open()
}

/// The specification of one that waits.
fn waiting_spec(project: ProjectName) -> SandboxSpec {
    let key = POOL_KEY.parse().expect("it is a session key");
    SandboxSpec { owner: Owner { project, subject: None }, ..SandboxSpec::new(key) }
}

impl Lifecycle {
    /// Keeps the wanted number of sandboxes waiting.
    pub(in crate::service) async fn keep_pool(self: &Arc<Self>) {
        if self.setup.limits.pool_size == 0 || !self.storage.has_disks() {
            return;
        }
        tokio::join!(self.fill_pool(), self.follow_images());
    }

    async fn fill_pool(self: &Arc<Self>) {
        let mut pause = *limits::POOL_RETRY.start();
        loop {
            self.until_quiet().await;
            let lifecycle = Arc::clone(self);
            // Runs to its end, so that a stop of the daemon leaves no half of a sandbox.
            let filled = self.tasks.run_detached(async move { lifecycle.fill_pool_once().await }).await;
            if let Err(error) = &filled {
                warn!(
                    error = error as &dyn std::error::Error,
                    retry_in = ?pause,
                    "no sandbox could be started in advance; new ones start their own"
                );
            }
            if filled.is_err() {
                sleep(pause).await;
                pause = (pause * 2).min(*limits::POOL_RETRY.end());
            } else {
                pause = *limits::POOL_RETRY.start();
                let _ = timeout(limits::POOL_CHECK, self.pool.changed.notified()).await;
            }
        }
    }

    /// Waits until no sandbox was created for a moment, so that starting one in advance does not slow others down. Under
    /// steady load not longer than [`limits::POOL_PATIENCE`].
    async fn until_quiet(&self) {
        let began = Instant::now();
        while began.elapsed() < limits::POOL_PATIENCE {
            let Some(last) = self.pool.lock().last_create else { return };
            let Some(left) = limits::POOL_QUIET.checked_sub(last.elapsed()) else { return };
            sleep(left).await;
        }
    }

    /// Removes those that are not usable any more, and starts as many as are missing.
    async fn fill_pool_once(self: &Arc<Self>) -> Result<(), Error> {
        let prepared = self.prepared()?.clone();
        self.remove_outdated(&prepared).await?;
        while self.pool.len() < self.setup.limits.pool_size && !self.tasks.is_stopping() {
            match self.start_waiting(&prepared).await? {
                Some(started) => self.pool.lock().ready.push_back(started),
                // There is room for it when another sandbox is parked.
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Removes those whose container ended or was changed, or is of an earlier image or for another project, and those whose
    /// removal failed before.
    async fn remove_outdated(&self, prepared: &Prepared) -> Result<(), Error> {
        let image_id = self.engine.image_id(&prepared.image).await?;
        for sandbox in self.registry.waiting() {
            let is_usable = self.is_usable(&sandbox, &image_id).await?;
            if is_usable && self.pool.lock().ready.iter().any(|started| started.sandbox.id() == sandbox.id())
            {
                continue;
            }
            let taken = self.pool.take_out(|started| started.sandbox.id() == sandbox.id());
            // It may have been given to a session meanwhile.
            if taken.is_some() || self.registry.waiting().iter().any(|waiting| waiting.id() == sandbox.id()) {
                self.remove_waiting(&sandbox).await?;
            }
        }
        Ok(())
    }

    /// Whether a sandbox that waits is as it was when it was started, and would be started the same way now.
    async fn is_usable(&self, sandbox: &Sandbox, image_id: &str) -> Result<bool, Error> {
        if sandbox.owner().project != self.pool.lock().project
            || sandbox.image_id().as_deref() != Some(image_id)
        {
            return Ok(false);
        }
        let before = sandbox.with_facts(|facts| facts.posture.clone());
        Ok(self.check_container(sandbox).await? && sandbox.with_facts(|facts| facts.posture == before))
    }

    /// Starts one. `None` if there is no room.
    async fn start_waiting(self: &Arc<Self>, prepared: &Prepared) -> Result<Option<Started>, Error> {
        self.ownership.ensure_owned().await?;
        let resources = Resources::default();
        let owner = Owner { project: ProjectName::pool(), subject: None };
        let Ok(permit) = self.quotas.run(&owner, resources) else { return Ok(None) };
        let spec = waiting_spec(self.pool.lock().project.clone());
        let Some(sandbox) = self.registry.enter_waiting(spec, prepared.transport)? else { return Ok(None) };
        match self.start_steps(&sandbox, prepared).await {
            Ok(agent) => {
                debug!(sandbox = %sandbox.id(), "a sandbox waits for its session");
                Ok(Some(Started { sandbox, agent, permit }))
            }
            Err(error) => {
                if let Err(second) = self.remove_waiting(&sandbox).await {
                    let error = &second as &dyn std::error::Error;
                    warn!(sandbox = %sandbox.id(), error, "could not remove a sandbox that did not start; retrying later");
                }
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

    /// Removes all parts of one that waits.
    async fn remove_waiting(&self, sandbox: &Sandbox) -> Result<(), Error> {
        self.tear_down(sandbox).await?;
        self.registry.remove_waiting(sandbox);
        Ok(())
    }

    /// Removes one that waits, because another sandbox needs its permit. Returns false if there is none.
    pub(super) async fn make_room_in_pool(&self) -> bool {
        let Some(Started { sandbox, agent, permit }) = self.pool.take_out(|_| true) else { return false };
        agent.close();
        if let Err(error) = self.remove_waiting(&sandbox).await {
            let error = &error as &dyn std::error::Error;
            warn!(sandbox = %sandbox.id(), error, "could not remove a sandbox that waited; retrying later");
        }
        drop(permit);
        true
    }

    /// Number of sandboxes that wait for a session.
    pub(in crate::service) fn waiting(&self) -> usize {
        self.pool.len()
    }

    /// The engine reports a change of a container that no session has.
    pub(in crate::service) fn note_change_of_waiting(&self, id: &SandboxId) {
        if self.registry.knows(id) {
            self.pool.note_change();
        }
    }

    /// Removes all that wait, for a stop of the daemon.
    pub(in crate::service) async fn empty_pool(&self) {
        while self.make_room_in_pool().await {}
    }

    /// Looks after the pool when images get or lose their names.
    async fn follow_images(&self) {
        loop {
            let mut changes = std::pin::pin!(self.engine.image_changes(now_ms()));
            while let Some(Ok(())) = changes.next().await {
                self.pool.note_change();
            }
            sleep(limits::EVENTS_RETRY).await;
            self.pool.note_change();
        }
    }

    /// Removes a sandbox of an earlier daemon that waited for a session: its note says that it never had one. Returns false if
    /// the note does not say so, or cannot be read.
    pub(super) async fn sweep_waiting(&self, labels: &SandboxLabels) -> bool {
        let Some(disk) = &labels.disk else { return false };
        let note = self.storage.note(disk.name()).await;
        if !note.is_ok_and(|note| note.is_some_and(|note| note == *labels)) {
            return false;
        }
        let removed = self.engine.remove(&labels.id).map_err(Error::from);
        let removed = removed.and_then(|()| self.storage.remove(Some(disk)));
        match removed.await.and_then(|()| self.remove_run_dir_of(&labels.id)) {
            Ok(()) => {
                info!(sandbox = %labels.id, "sandbox of an earlier daemon removed that waited for a session");
                self.count_repair(Repair::Orphan);
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(sandbox = %labels.id, error, "could not remove a sandbox that waited for a session; retrying later");
            }
        }
        true
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

#[cfg(test)]
mod tests {
    use crate::model::{NetworkMode, NetworkPolicy};

    use super::*;

    fn spec() -> SandboxSpec {
        SandboxSpec::new("chat:1".parse().unwrap())
    }

    #[test]
    fn only_the_container_of_a_sandbox_without_options_fits() {
        let wanted = [
            spec(),
            SandboxSpec { image: Some("own:1".into()), ..spec() },
            SandboxSpec { ports: vec![3000], env: [("A".into(), "b".into())].into(), ..spec() },
        ];
        assert!(wanted.iter().all(|spec| fits(spec, "own:1")));
        let open = NetworkPolicy::from_texts(NetworkMode::Open, &[]).unwrap();
        let small = sandbox_api::sandbox::Resources { vcpus: Some(1), ..Default::default() };
        let other = [
            SandboxSpec { image: Some("other:1".into()), ..spec() },
            SandboxSpec { network: open, ..spec() },
            SandboxSpec { resources: Resources::new(small).unwrap(), ..spec() },
        ];
        assert!(!other.iter().any(|spec| fits(spec, "own:1")));
    }

    #[test]
    fn the_pool_follows_the_project_that_creates_twice_in_a_row() {
        let mut state = State::default();
        let [lab, press]: [ProjectName; 2] = ["lab", "press"].map(|name| name.parse().unwrap());
        for (create, project) in [(&lab, "default"), (&press, "default"), (&press, "press"), (&lab, "press")]
        {
            state.follow(create);
            assert_eq!(state.project.as_str(), project);
        }
        state.follow(&ProjectName::repositories());
        state.follow(&ProjectName::repositories());
        assert_eq!(state.project, press);
    }
}
