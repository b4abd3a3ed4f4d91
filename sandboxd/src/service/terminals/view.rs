//! A viewer of a terminal, across broken connections to its agent.

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

/// What one viewer of a terminal hears. Never fails: what cannot be seen any more ends as `lost`. Keeps the sandbox
/// in use for as long as it lives.
pub struct TerminalView {
    lifecycle: Arc<Lifecycle>,
    sandbox: Arc<Sandbox>,
    agent: AgentHandle,
    terminal: TerminalId,
    events: Option<TerminalEvents>,
    /// Where to go on should the connection break.
    from: ViewFrom,
    /// The size that was told last.
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

    /// What the viewer itself does to the terminal, which goes on while it looks.
    pub fn hand(&self) -> TerminalHand {
        TerminalHand { agent: self.agent.clone(), terminal: self.terminal.clone() }
    }

    /// The next event; nothing after the end. Safe to cancel.
    pub async fn next(&mut self) -> Option<TerminalEvent> {
        while !self.done {
            let Some(events) = &mut self.events else {
                if let Some(lost) = self.reattach().await {
                    return Some(lost);
                }
                continue;
            };
            match events.next().await {
                // The first thing on every connection, and no news where it broke in between.
                Some(Ok(TerminalEvent::Size(size))) if self.size == Some(size) => {}
                Some(Ok(event)) => return Some(self.note(event)),
                Some(Err(error)) => {
                    debug!(terminal = %self.terminal, error = &error as &dyn std::error::Error, "a view broke off");
                    self.events = None;
                }
                // A view has an end; without one it was cut.
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

    /// Goes on where the last connection stopped; the end, where nobody can.
    async fn reattach(&mut self) -> Option<TerminalEvent> {
        if !self.lifecycle.is_gone(&self.sandbox, &self.agent).await {
            match self.agent.view_terminal(&self.terminal, self.from).await {
                Ok(events) => {
                    self.events = Some(events);
                    return None;
                }
                Err(error) if error.is_broken() => return None,
                // The agent is another one, or does not make sense any more.
                Err(_) => {}
            }
        }
        self.done = true;
        Some(TerminalEvent::Ended(TerminalEnded::LOST))
    }
}

/// Types into a terminal and changes its size, while its view is elsewhere.
#[derive(Debug, Clone)]
pub struct TerminalHand {
    agent: AgentHandle,
    terminal: TerminalId,
}

impl TerminalHand {
    /// Types. Where the connection breaks meanwhile nobody knows what was taken, and it is not tried again.
    pub async fn type_in(&self, data: Bytes) -> Result<(), Error> {
        Ok(self.agent.type_into(&self.terminal, data).await?)
    }

    /// Gives the terminal another size.
    pub async fn resize(&self, size: TerminalSize) -> Result<(), Error> {
        Ok(self.agent.resize_terminal(&self.terminal, size).await?)
    }
}
