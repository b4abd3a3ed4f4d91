//! How many sandboxes may run, and which is parked for another.
//!
//! A sandbox is parked only for another one of its project. So no project takes the permits of another one, however many
//! sandboxes it creates. Within a project, [`making_room`](super::making_room) chooses.

use std::cmp::Reverse;
use std::sync::Arc;

use tokio::time::timeout;
use tokio_util::sync::DropGuard;
use tracing::{debug, info};

use super::making_room::{Idle, parked_for};
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::agent::AgentHandle;
use crate::model::{Owner, ProjectName, Stage};
use crate::service::QuotaError;
use crate::service::quotas::{Denied, RunPermit};

impl Lifecycle {
    /// Returns a permit for one more running sandbox. If none is free, or the project may not have more, parks an idle sandbox
    /// of the project: one of the same owner if there is any. A sandbox in use is never parked for another.
    pub(super) async fn acquire_run_permit(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
    ) -> Result<RunPermit, Error> {
        self.park_surplus().await;
        let project = &sandbox.owner().project;
        loop {
            match self.try_run_permit(sandbox) {
                Ok(permit) => return Ok(permit),
                // No matter how many others are parked.
                Err(Denied::Quota(error @ QuotaError::TooMuch { .. })) => return Err(error.into()),
                Err(Denied::Full) if self.make_room_in_pool().await => continue,
                Err(Denied::Quota(_) | Denied::Full) => {}
            }
            // One task of a project at a time. Otherwise ten waiting tasks would park ten sandboxes for the first permit.
            let evictions = self.evictions.of(project);
            let _guard = evictions.lock().await;
            if let Ok(permit) = self.try_run_permit(sandbox) {
                return Ok(permit);
            }
            let _promise = self.quotas.promise(project);
            let parked = self.park_idle_for(Some(sandbox.owner())).await;
            // One that took long may be parked by now.
            let denied = match self.try_run_permit(sandbox) {
                Ok(permit) => return Ok(permit),
                Err(denied) => denied,
            };
            match parked {
                // One was not enough.
                Ok(true) => {}
                Ok(false) => return Err(self.full(denied)),
                Err(error) => return Err(error),
            }
        }
    }

    fn full(&self, denied: Denied) -> Error {
        match denied {
            Denied::Quota(error) => error.into(),
            Denied::Full => Error::Full { max: self.setup.limits.max_concurrent },
        }
    }

    /// Parks idle sandboxes while more run than allowed. That happens after a restart with a lower limit.
    pub(in crate::service) async fn park_surplus(self: &Arc<Self>) {
        if self.running() <= self.setup.limits.max_concurrent {
            return;
        }
        let _guard = self.evictions.of_surplus().lock().await;
        while self.running() > self.setup.limits.max_concurrent {
            if !self.park_idle_for(None).await.unwrap_or(false) {
                return;
            }
        }
    }

    /// Whether one more sandbox of a project may run without another one being parked for it.
    pub(in crate::service) fn has_room(&self, project: &ProjectName) -> bool {
        let has_room = self.quotas.has_room(project) || !self.pool.is_empty();
        has_room && self.running() < self.setup.limits.max_concurrent
    }

    fn running(&self) -> usize {
        self.registry.all().iter().filter(|sandbox| sandbox.stage() == Stage::Running).count()
    }

    fn try_run_permit(&self, sandbox: &Sandbox) -> Result<RunPermit, Denied> {
        self.quotas.run(sandbox.owner(), sandbox.with_spec(|spec| spec.resources))
    }

    /// The permit of a sandbox that runs already, also if too many run.
    pub(super) fn existing_run_permit(&self, sandbox: &Sandbox) -> RunPermit {
        self.quotas.existing_run(sandbox.owner(), sandbox.with_spec(|spec| spec.resources))
    }

    /// Serves the outbound connections of a sandbox until the guard is dropped.
    pub(super) fn begin_egress(&self, sandbox: &Sandbox, agent: &AgentHandle) -> DropGuard {
        self.egress.begin(
            sandbox.id(),
            sandbox.owner(),
            sandbox.outbound(),
            agent,
            self.quotas.egress(&sandbox.owner().project),
        )
    }

    /// Parks one idle sandbox, for another one of `requester` if there is one. Returns false if none may be parked, and the
    /// last error if none of those could be.
    async fn park_idle_for(self: &Arc<Self>, requester: Option<&Owner>) -> Result<bool, Error> {
        let mut last_error = None;
        let idle = match requester {
            Some(owner) => parked_for(self.idle(), owner, self.quotas.running_of(owner)),
            None => self.idle_longest_first(),
        };
        for sandbox in idle {
            // If parking hangs, it continues in the background, and another sandbox is tried.
            let parked = timeout(self.eviction_wait(), self.park_if_idle(&sandbox)).await;
            match parked.unwrap_or(Err(Error::ConcurrentTransitions)) {
                Ok(true) => {
                    info!(sandbox = %sandbox.id(), "sandbox parked to free a permit for another");
                    return Ok(true);
                }
                Ok(false) => {}
                Err(error) => {
                    debug!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not park a sandbox");
                    last_error = Some(error);
                }
            }
        }
        last_error.map_or(Ok(false), Err)
    }

    fn idle(&self) -> Vec<Idle<Arc<Sandbox>>> {
        let is_idle =
            |sandbox: &Arc<Sandbox>| sandbox.stage() == Stage::Running && !sandbox.activity().is_used();
        let idle = self.registry.all().into_iter().filter(is_idle).map(|sandbox| Idle {
            owner: sandbox.owner().clone(),
            idle_for: sandbox.activity().idle_for(),
            running: self.quotas.running_of(sandbox.owner()),
            sandbox,
        });
        idle.collect()
    }

    /// Idle sandboxes of all projects, those of projects that run no more than they are guaranteed last.
    fn idle_longest_first(&self) -> Vec<Arc<Sandbox>> {
        let mut idle = self.idle();
        idle.sort_by_key(|idle| {
            let is_guaranteed = self.quotas.is_within_guarantee(&idle.owner.project);
            (is_guaranteed, Reverse(idle.idle_for))
        });
        idle.into_iter().map(|idle| idle.sandbox).collect()
    }
}
