//! What happens by itself: idle sandboxes are parked, old workspaces go, and what should be is compared with
//! what is.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use sandbox_api::SandboxId;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::activity::now_ms;
use super::order::State;
use super::registry::Sandbox;
use super::{Error, Service};
use crate::memory::give_back_regularly;
use crate::model::{Stage, limits};

impl Service {
    /// Keeps the sandboxes until `shutdown`. Begins when start-up is through.
    pub async fn keep(self: &Arc<Self>, shutdown: CancellationToken) {
        let work = async {
            let mut readiness = self.readiness.subscribe();
            if readiness.wait_for(|readiness| *readiness == super::Readiness::Ready).await.is_ok() {
                tokio::join!(
                    self.park_surplus(),
                    self.keep_time(),
                    self.keep_in_step(),
                    self.watch_room(),
                    self.sweep_feeds(),
                    give_back_regularly(),
                    self.follow_engine(),
                    self.watch_engine()
                );
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = work => {}
        }
    }

    /// Every second: which commands are past their timeout, and who has been idle or parked for too long.
    async fn keep_time(self: &Arc<Self>) {
        let mut ticks = interval(limits::KEEPER_TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.end_late_links().await;
            if self.check_engine().is_err() {
                continue;
            }
            for sandbox in self.registry.all() {
                self.end_overdue(&sandbox);
                if self.is_idle_too_long(&sandbox) || self.is_parked_too_long(&sandbox) {
                    // One that hangs must not keep the others from being looked at.
                    let service = Arc::clone(self);
                    self.tasks.spawn(async move { service.retire(&sandbox).await });
                }
            }
        }
    }

    fn is_idle_too_long(&self, sandbox: &Sandbox) -> bool {
        let (stage, idle_ttl) = sandbox.look(|facts| (facts.record.stage, facts.record.spec.idle_ttl));
        stage == Stage::Running && !sandbox.activity.is_used() && sandbox.activity.idle_for() >= idle_ttl
    }

    fn is_parked_too_long(&self, sandbox: &Sandbox) -> bool {
        parked_at(sandbox)
            .flatten()
            .is_some_and(|at| self.age.since(at) >= self.setup.limits.workspace_retention)
    }

    async fn retire(self: &Arc<Self>, sandbox: &Arc<Sandbox>) {
        let done = match sandbox.stage() {
            Stage::Running => self.park_if_idle(sandbox).await.map(drop),
            Stage::Parked => {
                self.delete_parked(sandbox, |service| service.is_parked_too_long(sandbox)).await.map(drop)
            }
            Stage::Creating | Stage::Parking | Stage::Waking | Stage::Deleting | Stage::Lost => Ok(()),
        };
        if let Err(error) = done {
            warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not retire a sandbox");
        }
    }

    /// Every minute: what is, is made what should be; what only memory knew is written down.
    async fn keep_in_step(self: &Arc<Self>) {
        let mut ticks = interval(limits::RECONCILE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first one comes at once, and start-up has just done it.
        ticks.tick().await;
        let mut trimmed = Instant::now();
        loop {
            ticks.tick().await;
            if let Err(error) = self.reconcile().await {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "could not compare what is with what should be"
                );
            }
            if self.check_engine().is_ok() {
                self.park_surplus().await;
            }
            self.record_dropped().await;
            self.write_down().await;
            self.tidy_links().await;
            if trimmed.elapsed() >= limits::TRIM_EVERY {
                trimmed = Instant::now();
                if let Err(error) = self.store.trim().await {
                    warn!(error = &error as &dyn std::error::Error, "could not trim the history");
                }
            }
            if self.check_engine().is_ok()
                && let Err(error) = self.keep_disk_budget().await
            {
                warn!(error = &error as &dyn std::error::Error, "could not keep the disk budget");
            }
        }
    }

    /// Writes down what only memory knew. Also done at a stop.
    pub(super) async fn write_down(&self) {
        let seen: Vec<_> = self
            .registry
            .all()
            .iter()
            .map(|sandbox| (sandbox.id().clone(), sandbox.activity.last_used_wall_ms()))
            .collect();
        let written = async {
            self.store.set_age_ms(self.age.now_ms()).await?;
            self.store.touch(&seen).await?;
            self.store.restore_ballast();
            Ok::<_, crate::store::Error>(())
        };
        if let Err(error) = written.await {
            warn!(error = &error as &dyn std::error::Error, "the store could not be written");
        }
    }

    /// Looks at a sandbox as soon as the engine tells of it, and at all of them when it told nothing for a
    /// while because it was away.
    async fn follow_engine(self: &Arc<Self>) {
        let mut missed = false;
        loop {
            let since = now_ms();
            let mut changes = std::pin::pin!(self.engine.changes(since));
            self.ooms_watched.begin(since);
            let began = Instant::now();
            if missed {
                // Subscribed first, so that nothing falls between.
                let service = Arc::clone(self);
                self.tasks.spawn(async move {
                    let done = service.reconcile().await;
                    debug!(ok = done.is_ok(), "looked at everything after the engine was away");
                });
            }
            while let Some(Ok(change)) = changes.next().await {
                let Some(sandbox) = self.registry.get(&change.sandbox) else { continue };
                // The container goes on, without some of its processes.
                if let Some(at) = change.oom_at_ms {
                    sandbox.ooms.note(at);
                    continue;
                }
                let service = Arc::clone(self);
                self.tasks.spawn(async move {
                    if !change.of_publisher {
                        return service.look_at(&sandbox).await;
                    }
                    if let Err(error) = service.revive_publishers(Some(sandbox.id())).await {
                        warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not publish a port again");
                    }
                });
            }
            self.ooms_watched.end();
            self.identity.doubt();
            missed = true;
            // An engine that hangs up at once is asked less often.
            let pause =
                if began.elapsed() > limits::EVENTS_RETRY { Duration::ZERO } else { limits::EVENTS_RETRY };
            info!("the engine's events broke off");
            sleep(pause).await;
        }
    }

    /// Deletes parked workspaces, those first that were parked first, until the rest fits the disk budget.
    pub(super) async fn keep_disk_budget(self: &Arc<Self>) -> Result<(), Error> {
        let Some(budget) = self.setup.limits.disk_budget_bytes else {
            return Ok(());
        };
        let mut taken = self.disk_bytes_of_all().await?;
        for sandbox in self.parked_longest_first() {
            if taken <= budget {
                return Ok(());
            }
            let bytes = sandbox.look(|facts| facts.record.disk_bytes).unwrap_or(0);
            info!(sandbox = %sandbox.id(), taken, budget, "the disk budget is exceeded; deleting a parked workspace");
            if self.delete_parked(&sandbox, |_| true).await? {
                taken = taken.saturating_sub(bytes);
            }
        }
        Ok(())
    }

    /// Deletes the workspace that was parked first, to have its user id for another.
    pub(super) async fn delete_oldest_parked(self: &Arc<Self>) -> Result<(), Error> {
        match self.parked_longest_first().first() {
            Some(sandbox) => {
                info!(sandbox = %sandbox.id(), "every user id is taken; deleting the workspace parked first");
                self.delete_parked(sandbox, |_| true).await.map(drop)
            }
            None => Err(Error::Full { max: self.setup.limits.max_concurrent }),
        }
    }

    fn parked_longest_first(&self) -> Vec<Arc<Sandbox>> {
        let mut parked: Vec<_> = self
            .registry
            .all()
            .into_iter()
            .filter(|sandbox| !sandbox.activity.is_used())
            .filter_map(|sandbox| Some((parked_at(&sandbox)?, sandbox)))
            .collect();
        parked.sort_by_key(|(at, _)| *at);
        parked.into_iter().map(|(_, sandbox)| sandbox).collect()
    }

    /// Deletes a sandbox if it is parked and nobody is about to use it; done as well where there is none.
    pub async fn delete_if_parked(self: &Arc<Self>, id: &SandboxId) -> Result<(), Error> {
        let Some(sandbox) = self.registry.get(id) else {
            self.prepared()?;
            return Ok(());
        };
        // What runs need not be waited for.
        if matches!(sandbox.stage(), Stage::Creating | Stage::Running | Stage::Waking) {
            return Err(Error::NotParked);
        }
        let service = Arc::clone(self);
        let task = self.tasks.spawn(async move {
            // Whoever only looks at it may hold it for a moment; whoever will use it has marked it.
            let mut state = sandbox.order.exclusive().await;
            match &*state {
                State::Deleted => Ok(()),
                State::Parked if !sandbox.activity.is_used() => {
                    service.delete_held(&sandbox, &mut state).await
                }
                _ => Err(Error::NotParked),
            }
        });
        task.await.map_err(|source| Error::Task { source })?
    }

    /// Deletes a sandbox if it is still parked, nobody is about to use it, and `still` holds; whether it did.
    async fn delete_parked(
        self: &Arc<Self>,
        sandbox: &Arc<Sandbox>,
        still: impl Fn(&Self) -> bool,
    ) -> Result<bool, Error> {
        let Some(mut state) = sandbox.order.try_exclusive() else {
            return Ok(false);
        };
        let parked = matches!(&*state, State::Parked);
        if !parked || sandbox.activity.is_used() || !still(self) {
            return Ok(false);
        }
        self.delete_held(sandbox, &mut state).await.map(|()| true)
    }
}

/// Whether it is parked, and since which age of the daemon, if that is known.
fn parked_at(sandbox: &Sandbox) -> Option<Option<u64>> {
    sandbox.look(|facts| (facts.record.stage == Stage::Parked).then_some(facts.record.parked_at_age_ms))
}
