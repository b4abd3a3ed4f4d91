//! Attached viewer of a terminal, across broken connections to its agent.
//!
//! A view continues at the offset where the last connection broke, so a viewer loses and repeats nothing. Input is never
//! retried.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use sandbox_api::TerminalId;
use tokio::sync::OwnedSemaphorePermit;
use tracing::debug;

use super::Error;
use crate::agent::{AgentHandle, TerminalEvents};
use crate::model::terminal::{TerminalEnded, ViewFrom};
use crate::model::{TerminalEvent, TerminalSize};
use crate::service::lifecycle::{InUse, InUseMark, Lifecycle, Sandbox};

/// Events of a terminal for one viewer. Never fails: if the terminal can no longer be reached, the view ends as `lost`.
/// Keeps the sandbox in use until it is dropped.
pub struct TerminalView {
    lifecycle: Arc<Lifecycle>,
    sandbox: Arc<Sandbox>,
    agent: AgentHandle,
    terminal: TerminalId,
    events: Option<TerminalEvents>,
    /// Where to continue if the connection breaks.
    from: ViewFrom,
    /// Size that was last returned.
    size: Option<TerminalSize>,
    done: bool,
    _mark: InUseMark,
    _permit: OwnedSemaphorePermit,
}

impl TerminalView {
    pub(super) fn new(
        lifecycle: &Arc<Lifecycle>,
        in_use: InUse,
        terminal: TerminalId,
        events: TerminalEvents,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let (sandbox, agent, mark) = in_use.unlock();
        Self {
            lifecycle: Arc::clone(lifecycle),
            sandbox,
            agent,
            terminal,
            events: Some(events),
            from: ViewFrom::Scrollback,
            size: None,
            done: false,
            _mark: mark,
            _permit: permit,
        }
    }

    /// Returns a handle for the viewer's input, which works independently of its output.
    pub fn handle(&self) -> TerminalHandle {
        TerminalHandle { agent: self.agent.clone(), terminal: self.terminal.clone() }
    }

    /// Returns the next event, and `None` after the end. Safe to cancel.
    pub async fn next(&mut self) -> Option<TerminalEvent> {
        while !self.done {
            let Some(events) = &mut self.events else {
                if let Some(lost) = self.reattach().await {
                    return Some(lost);
                }
                continue;
            };
            match events.next().await {
                // Every connection begins with the size. After a reconnect it is often unchanged.
                Some(Ok(TerminalEvent::Size(size))) if self.size == Some(size) => {}
                Some(Ok(event)) => return Some(self.note(event)),
                Some(Err(error)) => {
                    debug!(terminal = %self.terminal, error = &error as &dyn std::error::Error, "the connection of a terminal's viewer broke");
                    self.events = None;
                }
                // A view ends with an end event. Without one, the connection broke.
                None => self.events = None,
            }
        }
        None
    }

    fn note(&mut self, event: TerminalEvent) -> TerminalEvent {
        match &event {
            TerminalEvent::Size(size) => self.size = Some(*size),
            TerminalEvent::Output { after, .. } => {
                self.from = after.map_or(ViewFrom::Screen, ViewFrom::After);
            }
            TerminalEvent::Ended(_) => self.done = true,
        }
        event
    }

    /// Opens a connection that continues where the last one broke. Returns the end if that is impossible.
    async fn reattach(&mut self) -> Option<TerminalEvent> {
        if !self.lifecycle.is_gone(&self.sandbox, &self.agent).await {
            match self.agent.view_terminal(&self.terminal, self.from).await {
                Ok(events) => {
                    self.events = Some(events);
                    return None;
                }
                Err(error) if error.is_broken() => return None,
                // It is another agent by now, or its response makes no sense.
                Err(_) => {}
            }
        }
        self.done = true;
        Some(TerminalEvent::Ended(TerminalEnded::LOST))
    }
}

/// Types into a terminal and resizes it, independently of its view.
#[derive(Debug, Clone)]
pub struct TerminalHandle {
    agent: AgentHandle,
    terminal: TerminalId,
}

impl TerminalHandle {
    /// Types. If the connection breaks, it is unknown how much the terminal received, so there is no retry.
    pub async fn type_in(&self, data: Bytes) -> Result<(), Error> {
        Ok(self.agent.type_into(&self.terminal, data).await?)
    }

    /// Resizes the terminal.
    pub async fn resize(&self, size: TerminalSize) -> Result<(), Error> {
        Ok(self.agent.resize_terminal(&self.terminal, size).await?)
    }
}
