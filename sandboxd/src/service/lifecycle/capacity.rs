//! How many sandboxes may run, and which must go for another.

use std::sync::Arc;

use tokio::time::timeout;
use tracing::{debug, info};

use super::order::RunPermit;
use super::sandbox::Sandbox;
use super::{Error, Lifecycle};
use crate::model::{Stage, limits};

impl Lifecycle {
    /// A place for one more running sandbox. Where all are taken, the idle sandbox that was used least
    /// recently is parked for it; one that is in use never is.
    pub(super) async fn run_permit(self: &Arc<Self>) -> Result<RunPermit, Error> {
        self.park_surplus().await;
        loop {
            if let Some(permit) = self.free_permit() {
                return Ok(permit);
            }
            // One at a time, or ten newcomers would park ten sandboxes for the first place.
            let _turn = self.evicting.lock().await;
            if let Some(permit) = self.free_permit() {
                return Ok(permit);
            }
            if !self.park_least_recently_used().await? {
                return Err(Error::Full { max: self.setup.limits.max_concurrent });
            }
        }
    }

    /// Parks idle sandboxes of before while more run than may now, which a lower number leads to.
    pub(in crate::service) async fn park_surplus(self: &Arc<Self>) {
        if self.running() <= self.setup.limits.max_concurrent {
            return;
        }
        let _turn = self.evicting.lock().await;
        while self.running() > self.setup.limits.max_concurrent {
            if !self.park_least_recently_used().await.unwrap_or(false) {
                return;
            }
        }
    }

    fn running(&self) -> usize {
        self.registry.all().iter().filter(|sandbox| sandbox.stage() == Stage::Running).count()
    }

    pub(super) fn free_permit(&self) -> Option<RunPermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }

    /// Whether one was parked; the error that kept all of those from it that are idle.
    async fn park_least_recently_used(self: &Arc<Self>) -> Result<bool, Error> {
        let mut fault = None;
        for sandbox in self.idle_longest_first() {
            // One that hangs goes on being parked; somebody else makes room meanwhile.
            let parked = timeout(limits::MAKE_ROOM, self.park_if_idle(&sandbox)).await;
            match parked.unwrap_or(Err(Error::Unsettled)) {
                Ok(true) => {
                    info!(sandbox = %sandbox.id(), "parked a sandbox to make room for another");
                    return Ok(true);
                }
                Ok(false) => {}
                Err(error) => {
                    debug!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not park a sandbox");
                    fault = Some(error);
                }
            }
        }
        fault.map_or(Ok(false), Err)
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
