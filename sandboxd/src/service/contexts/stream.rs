//! The stream of a run. It keeps the sandbox in use, and ends with one event that says how the run ended.

use std::sync::Arc;

use futures::{Stream, StreamExt};
use sandbox_api::context::RunStatus;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, warn};

use super::Contexts;
use crate::agent::RunEvents;
use crate::model::context::{RunEnded, RunEvent, RunSpec};
use crate::model::limits;
use crate::service::lifecycle::{InUse, InUseMark, Sandbox};

/// Events of one run. Never fails: if the rest can no longer be read, the run ends as lost.
pub struct RunStream {
    contexts: Arc<Contexts>,
    sandbox: Arc<Sandbox>,
    spec: RunSpec,
    events: RunEvents,
    /// Number of restarts of the container before the run.
    restarts: u64,
    began: Instant,
    started_at_ms: i64,
    done: bool,
    _marks: [InUseMark; 2],
    _permit: OwnedSemaphorePermit,
}

impl RunStream {
    pub(super) fn new(
        contexts: &Arc<Contexts>,
        in_use: InUse,
        spec: RunSpec,
        events: RunEvents,
        mark: InUseMark,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let (sandbox, _, of_request) = in_use.unlock();
        Self {
            contexts: Arc::clone(contexts),
            restarts: sandbox.ledger().restarts(),
            sandbox,
            spec,
            events,
            began: Instant::now(),
            started_at_ms: 0,
            done: false,
            _marks: [mark, of_request],
            _permit: permit,
        }
    }

    /// Converts to a stream of events, with heartbeats while the run is silent.
    pub fn into_events(self) -> impl Stream<Item = RunEvent> + Send {
        futures::stream::unfold(self, |mut stream| async move {
            let event = stream.next().await?;
            Some((event, stream))
        })
    }

    async fn next(&mut self) -> Option<RunEvent> {
        if self.done {
            return None;
        }
        // The agent ends the run itself. This is for one that cannot.
        let last = self.began + self.spec.timeout + limits::END_RUN;
        let event = match timeout_at(last, timeout(limits::HEARTBEAT, self.events.next())).await {
            Ok(Err(_)) => return Some(RunEvent::Heartbeat),
            Ok(Ok(event)) => event,
            Err(_) => return Some(self.stuck().await),
        };
        Some(match event {
            Some(Ok(RunEvent::Ended(ended))) => {
                let ended = self.confirmed(ended).await;
                self.end(ended)
            }
            Some(Ok(event)) => {
                if let RunEvent::Started { at_ms, .. } = event {
                    self.started_at_ms = at_ms;
                }
                event
            }
            Some(Err(error)) => {
                debug!(run = %self.spec.id, error = &error as &dyn std::error::Error, "the stream of a run broke");
                self.lost()
            }
            None => self.lost(),
        })
    }

    /// Restarts the container of a run that its agent does not end.
    async fn stuck(&mut self) -> RunEvent {
        warn!(sandbox = %self.sandbox.id(), run = %self.spec.id, "a run did not end; restarting its container");
        if let Err(error) = self.contexts.lifecycle.restart(&self.sandbox, self.restarts, None).await {
            warn!(sandbox = %self.sandbox.id(), error = &error as &dyn std::error::Error, "could not restart a container");
        }
        self.lost()
    }

    /// Lets the engine confirm that memory was short.
    // Not `&self`: the events are not `Sync`.
    async fn confirmed(&mut self, ended: RunEnded) -> RunEnded {
        if ended.status != RunStatus::OutOfMemory {
            return ended;
        }
        let was_short = self
            .contexts
            .history
            .confirm_oom_of_run(self.sandbox.ledger(), self.started_at_ms, ended.duration)
            .await;
        if was_short { ended } else { RunEnded { status: RunStatus::Died, ..ended } }
    }

    fn lost(&mut self) -> RunEvent {
        self.end(RunEnded::lost(self.began.elapsed()))
    }

    fn end(&mut self, ended: RunEnded) -> RunEvent {
        self.done = true;
        self.contexts.snapshots.note_end(&self.sandbox, &self.spec.id);
        RunEvent::Ended(ended)
    }
}

impl Drop for RunStream {
    fn drop(&mut self) {
        // The agent interrupts the run, because its reader has left.
        if !self.done {
            self.contexts.snapshots.note_end(&self.sandbox, &self.spec.id);
        }
    }
}

impl std::fmt::Debug for RunStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunStream").field("run", &self.spec.id).finish_non_exhaustive()
    }
}
