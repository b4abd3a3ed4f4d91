//! How many sandboxes may run, and which is parked for another.
//!
//! A sandbox is parked only for another one of its project. So no project takes the permits of another one, however many
//! sandboxes it creates.

use std::sync::Arc;

use tokio::time::timeout;
use tokio_util::sync::DropGuard;
use tracing::{debug, info};

use super::order::RunPermit;
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::agent::AgentHandle;
use crate::model::{ProjectName, Stage};
use crate::service::QuotaError;
use crate::service::quotas::Denied;

impl Lifecycle {
    /// Returns a permit for one more running sandbox. If none is free, or the project may not have more, parks the idle
    /// sandbox of the project that was used least recently. A sandbox in use is never parked for another.
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
                Err(Denied::Quota(_) | Denied::Full) => {}
            }
            // One task of a project at a time. Otherwise ten waiting tasks would park ten sandboxes for the first permit.
            let evictions = self.evictions.of(project);
            let _guard = evictions.lock().await;
            if let Ok(permit) = self.try_run_permit(sandbox) {
                return Ok(permit);
            }
            let _promise = self.quotas.promise(project);
            let parked = self.park_least_recently_used(Some(project)).await;
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
            if !self.park_least_recently_used(None).await.unwrap_or(false) {
                return;
            }
        }
    }

    /// Whether one more sandbox of a project may run without another one being parked for it.
    pub(in crate::service) fn has_room(&self, project: &ProjectName) -> bool {
        self.quotas.has_room(project) && self.running() < self.setup.limits.max_concurrent
    }

    fn running(&self) -> usize {
        self.registry.all().iter().filter(|sandbox| sandbox.stage() == Stage::Running).count()
    }

    fn try_run_permit(&self, sandbox: &Sandbox) -> Result<RunPermit, Denied> {
        self.quotas.run(&sandbox.owner().project, sandbox.with_spec(|spec| spec.resources))
    }

    /// The permit of a sandbox that runs already, also if too many run.
    pub(super) fn existing_run_permit(&self, sandbox: &Sandbox) -> RunPermit {
        self.quotas.existing_run(&sandbox.owner().project, sandbox.with_spec(|spec| spec.resources))
    }

    /// Serves the outbound connections of a sandbox until the guard is dropped.
    pub(super) fn begin_egress(&self, sandbox: &Sandbox, agent: &AgentHandle) -> DropGuard {
        self.egress.begin(
            sandbox.id(),
            sandbox.outbound(),
            agent,
            self.quotas.egress(&sandbox.owner().project),
        )
    }

    /// Parks one idle sandbox, with `of` one of this project. Returns false if none is idle, and the last error if none of
    /// the idle ones could be parked.
    async fn park_least_recently_used(self: &Arc<Self>, of: Option<&ProjectName>) -> Result<bool, Error> {
        let mut last_error = None;
        for sandbox in self.idle_longest_first(of) {
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

    /// Idle sandboxes, those of projects that run no more than they are guaranteed last.
    fn idle_longest_first(&self, of: Option<&ProjectName>) -> Vec<Arc<Sandbox>> {
        let is_wanted = |sandbox: &Arc<Sandbox>| of.is_none_or(|project| sandbox.owner().project == *project);
        let mut idle: Vec<_> = self
            .registry
            .all()
            .into_iter()
            .filter(is_wanted)
            .filter(|sandbox| sandbox.stage() == Stage::Running && !sandbox.activity().is_used())
            .map(|sandbox| {
                let is_guaranteed = self.quotas.is_within_guarantee(&sandbox.owner().project);
                (is_guaranteed, std::cmp::Reverse(sandbox.activity().idle_for()), sandbox)
            })
            .collect();
        idle.sort_by_key(|(is_guaranteed, idle_for, _)| (*is_guaranteed, *idle_for));
        idle.into_iter().map(|(_, _, sandbox)| sandbox).collect()
    }
}
