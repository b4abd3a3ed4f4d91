//! The stream of a run. It keeps the sandbox in use, and ends with one event that says how the run ended.

use std::sync::Arc;

use futures::{Stream, StreamExt};
use sandbox_api::context::{Language, RunStatus};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, warn};

use super::Contexts;
use super::calls_of_run::CallsOfRun;
use crate::agent::{Reported, RunEvents};
use crate::model::context::{RunEnded, RunEvent, RunSpec};
use crate::model::limits;
use crate::service::clock::now_ms;
use crate::service::lifecycle::{InUse, InUseMark, Sandbox};

/// Events of one run. Never fails: if the rest can no longer be read, the run ends as lost.
pub struct RunStream {
    contexts: Arc<Contexts>,
    sandbox: Arc<Sandbox>,
    spec: RunSpec,
    events: RunEvents,
    calls: CallsOfRun,
    /// Number of restarts of the container before the run.
    restarts: u64,
    began: Instant,
    started_at_ms: i64,
    language: Option<Language>,
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
        calls: CallsOfRun,
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
            calls,
            began: Instant::now(),
            started_at_ms: now_ms(),
            language: None,
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
        loop {
            let reported = match timeout_at(last, timeout(limits::HEARTBEAT, self.events.next())).await {
                Ok(Err(_)) => return Some(RunEvent::Heartbeat),
                Ok(Ok(reported)) => reported,
                Err(_) => return Some(self.stuck().await),
            };
            let event = match reported {
                Some(Ok(reported)) => self.event_of(reported).await,
                Some(Err(error)) => {
                    debug!(run = %self.spec.id, error = &error as &dyn std::error::Error, "the stream of a run broke");
                    Some(self.lost())
                }
                None => Some(self.lost()),
            };
            if event.is_some() {
                return event;
            }
        }
    }

    /// What clients see of a report.
    async fn event_of(&mut self, reported: Reported) -> Option<RunEvent> {
        match reported {
            Reported::Event(RunEvent::Ended(ended)) => {
                let ended = self.confirmed(ended).await;
                Some(self.end(ended))
            }
            Reported::Event(event) => {
                if let RunEvent::Started { at_ms, language, .. } = event {
                    (self.started_at_ms, self.language) = (at_ms, language);
                }
                Some(event)
            }
            Reported::Call { call, name, arguments } => {
                self.calls.begin(call, name, &arguments).await.map(RunEvent::ToolCall)
            }
            Reported::CallExpired { call } => {
                self.calls.expire(call);
                None
            }
        }
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
        self.note_end(&ended);
        RunEvent::Ended(ended)
    }

    fn note_end(&mut self, ended: &RunEnded) {
        self.done = true;
        self.contexts.snapshots.note_end(&self.sandbox, &self.spec.id);
        let ledger = self.sandbox.ledger();
        self.contexts.history.note_run(ledger, &self.spec, self.language, self.started_at_ms, ended);
    }
}

impl Drop for RunStream {
    fn drop(&mut self) {
        // The agent interrupts the run, because its reader has left.
        if !self.done {
            let status = RunStatus::Interrupted;
            self.note_end(&RunEnded { status, ..RunEnded::lost(self.began.elapsed()) });
        }
    }
}

impl std::fmt::Debug for RunStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunStream").field("run", &self.spec.id).finish_non_exhaustive()
    }
}
