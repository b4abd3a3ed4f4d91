//! Periodic tasks of the daemon, and its reactions to events of the engine.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::clock::now_ms;
use super::{Error, Service};
use crate::engine::Change;
use crate::memory::trim_regularly;
use crate::model::limits;

impl Service {
    /// Runs the upkeep until `shutdown`. Begins when the start is complete.
    pub async fn run_upkeep(self: &Arc<Self>, shutdown: CancellationToken) {
        let work = async {
            // Requests that need no sandbox are served before the start is complete.
            tokio::join!(self.audit.keep(), self.run_when_ready());
        };
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = work => {}
        }
    }

    async fn run_when_ready(self: &Arc<Self>) {
        self.lifecycle.until_ready().await;
        tokio::join!(
            self.lifecycle.park_surplus(),
            self.lifecycle.keep_pool(),
            self.tick_every_second(),
            self.tick_every_minute(),
            self.keep_usage(),
            self.storage.watch_space(),
            self.commands.sweep_feeds(),
            trim_regularly(),
            self.follow_engine(),
            self.keep_snapshots(),
            self.collect_chunks(),
            self.make_missed_checkpoints(),
            self.watch_ownership()
        );
    }

    /// Ends what has expired: links and commands. Parks idle sandboxes and deletes those that were parked for too long.
    async fn tick_every_second(&self) {
        let mut ticks = interval(limits::UPKEEP_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.previews.end_expired_links().await;
            self.projects.close_ended();
            if self.projects.note_expired() {
                self.end_links_of_tokens().await;
            }
            if self.check_engine().is_err() {
                continue;
            }
            self.mcp_servers.tidy_up();
            for sandbox in self.lifecycle.all() {
                self.commands.end_overdue(&sandbox);
                self.lifecycle.retire_if_due(sandbox);
            }
        }
    }

    /// Writes what projects have used, and deletes what is too old.
    async fn keep_usage(&self) {
        let mut ticks = interval(limits::USAGE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut trimmed: Option<Instant> = None;
        loop {
            ticks.tick().await;
            let mut done = self.quotas.write_usage().await;
            if trimmed.is_none_or(|at| at.elapsed() >= limits::TRIM_EVERY) {
                trimmed = Some(Instant::now());
                done = done.and(self.quotas.trim_usage().await);
            }
            if let Err(error) = done {
                warn!(error = &error as &dyn std::error::Error, "could not write what projects have used");
            }
        }
    }

    /// Ends interrupted restores and deletes expired snapshots.
    async fn keep_snapshots(&self) {
        let mut ticks = interval(limits::RECONCILE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if self.snapshots.open_store().await.is_err() {
                // Nothing is removed before the store is open, however long that takes.
                continue;
            }
            if self.check_engine().is_ok()
                && let Err(error) = self.snapshots.resume_interrupted().await
            {
                warn!(error = &error as &dyn std::error::Error, "could not resume interrupted restores");
            }
            if let Err(error) = self.repositories.tidy_up().await {
                warn!(error = &error as &dyn std::error::Error, "could not tidy up fetched repositories");
            }
            if let Err(error) = self.packages.tidy_up().await {
                warn!(error = &error as &dyn std::error::Error, "could not tidy up resolved packages");
            }
            if let Err(error) = self.snapshots.delete_expired().await {
                warn!(error = &error as &dyn std::error::Error, "could not delete expired snapshots");
            }
        }
    }

    /// Removes the chunks that no snapshot needs. That can take long, and an interrupted restore must not wait for it.
    async fn collect_chunks(&self) {
        let mut ticks = interval(limits::RECONCILE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut collected, mut is_full, mut made_room): (_, _, Option<Instant>) =
            (Instant::now(), false, None);
        loop {
            tokio::select! {
                () = self.snapshots.disk_full() => {
                    is_full = true;
                    // If that did not help a moment ago, it hardly does now.
                    if made_room.is_some_and(|at| at.elapsed() < limits::RECONCILE_EVERY) {
                        continue;
                    }
                }
                _ = ticks.tick() => {}
            }
            let is_due = is_full
                || collected.elapsed() >= limits::COLLECT_EVERY
                || self.snapshots.needs_collection().await;
            if !is_due || self.snapshots.open_store().await.is_err() {
                continue;
            }
            collected = Instant::now();
            made_room = is_full.then_some(collected).or(made_room);
            is_full = false;
            if let Err(error) = self.snapshots.collect().await {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "could not collect unused chunks of snapshots"
                );
            }
        }
    }

    /// Makes the snapshots of parked sandboxes that the remote store does not have yet. One can take long.
    async fn make_missed_checkpoints(&self) {
        let mut ticks = interval(limits::MISSED_CHECKPOINTS_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if self.check_engine().is_ok() {
                // It wakes sandboxes, which is much for the stack of one task.
                Box::pin(self.snapshots.make_missed_checkpoints()).await;
            }
        }
    }

    /// Reconciles the actual state with the desired state, and writes the state that only memory holds.
    async fn tick_every_minute(&self) {
        let mut ticks = interval(limits::RECONCILE_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick comes at once, and the start has just reconciled.
        ticks.tick().await;
        let mut trimmed = Instant::now();
        loop {
            ticks.tick().await;
            if let Err(error) = self.projects.write_last_uses().await {
                warn!(error = &error as &dyn std::error::Error, "could not write when tokens were last used");
            }
            if let Err(error) = self.reconcile().await {
                warn!(error = &error as &dyn std::error::Error, "could not reconcile with the engine");
            }
            if self.check_engine().is_ok() {
                self.lifecycle.park_surplus().await;
            }
            self.commands.record_dropped().await;
            self.lifecycle.flush().await;
            self.previews.maintain_links().await;
            if trimmed.elapsed() >= limits::TRIM_EVERY {
                trimmed = Instant::now();
                if let Err(error) = self.context.store.trim().await {
                    warn!(error = &error as &dyn std::error::Error, "could not trim the history");
                }
            }
            if self.check_engine().is_ok()
                && let Err(error) = self.lifecycle.enforce_disk_budget().await
            {
                warn!(error = &error as &dyn std::error::Error, "could not enforce the disk budget");
            }
        }
    }

    async fn reconcile(&self) -> Result<(), Error> {
        self.lifecycle.reconcile().await?;
        self.previews.sweep_publishers().await?;
        self.previews.restart_publishers(None).await
    }

    /// Checks a sandbox when the engine reports a change of its container, and all sandboxes after the engine was unavailable.
    async fn follow_engine(self: &Arc<Self>) {
        let mut was_away = false;
        loop {
            let since = now_ms();
            let mut changes = std::pin::pin!(self.context.engine.changes(since));
            self.history.begin_listening(since);
            let began = Instant::now();
            if was_away {
                // After the subscription, so that no change is missed in between.
                let service = Arc::clone(self);
                self.context.tasks.spawn(async move {
                    let done = service.reconcile().await;
                    debug!(ok = done.is_ok(), "reconciled after the engine was unavailable");
                });
            }
            while let Some(Ok(change)) = changes.next().await {
                self.handle_change(change);
            }
            self.history.end_listening();
            self.ownership.mark_unverified();
            was_away = true;
            // If the engine closes the connection at once, it is asked less often.
            let pause =
                if began.elapsed() > limits::EVENTS_RETRY { Duration::ZERO } else { limits::EVENTS_RETRY };
            info!("the engine's event stream ended");
            sleep(pause).await;
        }
    }

    fn handle_change(self: &Arc<Self>, change: Change) {
        let Some(sandbox) = self.lifecycle.registered(&change.sandbox) else {
            return self.lifecycle.note_change_of_waiting(&change.sandbox);
        };
        // The container itself still runs; only some of its processes were killed.
        if let Some(at) = change.oom_at_ms {
            return sandbox.ledger().note_oom(at);
        }
        let service = Arc::clone(self);
        self.context.tasks.spawn(async move {
            if !change.of_publisher {
                return service.lifecycle.check_sandbox(&sandbox).await;
            }
            if let Err(error) = service.previews.restart_publishers(Some(sandbox.id())).await {
                warn!(sandbox = %sandbox.id(), error = &error as &dyn std::error::Error, "could not publish a port again");
            }
        });
    }

    /// Detects a daemon that is started after this one, and the return of the right engine.
    async fn watch_ownership(&self) {
        loop {
            let mut epochs = std::pin::pin!(self.context.engine.new_epochs(now_ms()));
            loop {
                let was_foreign = self.ownership.is_foreign();
                tokio::select! {
                    created = epochs.next() => match created {
                        Some(Ok(())) => drop(self.ownership.verify().await),
                        Some(Err(_)) | None => break,
                    },
                    () = sleep(limits::EVENTS_RETRY) => {
                        if was_foreign && self.ownership.verify().await.is_ok() {
                            // Each step logs its own errors.
                            drop(self.reconcile().await);
                        }
                    }
                }
            }
            self.ownership.mark_unverified();
            sleep(limits::EVENTS_RETRY).await;
            drop(self.ownership.verify().await);
        }
    }
}
