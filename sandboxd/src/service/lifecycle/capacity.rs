//! How many sandboxes may run, and which is parked for another.

use std::sync::Arc;

use tokio::time::timeout;
use tracing::{debug, info};

use super::order::RunPermit;
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::model::Stage;

impl Lifecycle {
    /// Returns a permit for one more running sandbox. If none is free, parks the idle sandbox that was used least
    /// recently. A sandbox in use is never parked for another.
    pub(super) async fn acquire_run_permit(self: &Arc<Self>) -> Result<RunPermit, Error> {
        self.park_surplus().await;
        loop {
            if let Some(permit) = self.try_run_permit() {
                return Ok(permit);
            }
            // One task at a time. Otherwise ten waiting tasks would park ten sandboxes for the first permit.
            let _guard = self.evicting.lock().await;
            if let Some(permit) = self.try_run_permit() {
                return Ok(permit);
            }
            let parked = self.park_least_recently_used().await;
            if !matches!(parked, Ok(true)) {
                // One that took long may be parked by now.
                let permit = self.try_run_permit().map(Ok);
                let full = || Error::Full { max: self.setup.limits.max_concurrent };
                return permit.unwrap_or_else(|| Err(parked.err().unwrap_or_else(full)));
            }
        }
    }

    /// Parks idle sandboxes while more run than allowed. That happens after a restart with a lower limit.
    pub(in crate::service) async fn park_surplus(self: &Arc<Self>) {
        if self.running() <= self.setup.limits.max_concurrent {
            return;
        }
        let _guard = self.evicting.lock().await;
        while self.running() > self.setup.limits.max_concurrent {
            if !self.park_least_recently_used().await.unwrap_or(false) {
                return;
            }
        }
    }

    /// Whether one more sandbox may run without another one being parked for it.
    pub(in crate::service) fn has_room(&self) -> bool {
        self.permits.available_permits() > 0 && self.running() < self.setup.limits.max_concurrent
    }

    fn running(&self) -> usize {
        self.registry.all().iter().filter(|sandbox| sandbox.stage() == Stage::Running).count()
    }

    pub(super) fn try_run_permit(&self) -> Option<RunPermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }

    /// Parks one idle sandbox. Returns false if no sandbox is idle, and the last error if none of the idle ones could
    /// be parked.
    async fn park_least_recently_used(self: &Arc<Self>) -> Result<bool, Error> {
        let mut last_error = None;
        for sandbox in self.idle_longest_first() {
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

    fn idle_longest_first(&self) -> Vec<Arc<Sandbox>> {
        let mut idle: Vec<_> = self
            .registry
            .all()
            .into_iter()
            .filter(|sandbox| sandbox.stage() == Stage::Running && !sandbox.activity().is_used())
            .map(|sandbox| (sandbox.activity().idle_for(), sandbox))
            .collect();
        idle.sort_by_key(|(idle_for, _)| std::cmp::Reverse(*idle_for));
        idle.into_iter().map(|(_, sandbox)| sandbox).collect()
    }
}
