//! The event stream of one viewer of a terminal.
//!
//! Sends the size, then the output from where the viewer starts, then new output, and the end last. If a viewer
//! cannot continue at its offset because that output was dropped or written for another size, it gets the current
//! screen instead. It has then missed output but shows the right screen.

use std::sync::Arc;

use agent_protocol::v1::{self, terminal_event::Event};
use bytes::Bytes;
use futures::Stream;
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;

use super::replay::strip_queries;
use super::screen::Size;
use super::terminal::{State, Terminal};
use crate::limits::VIEW_BYTES;

/// Position of a viewer.
#[derive(Debug, Clone, Copy)]
enum Position {
    /// After this many bytes.
    After(u64),
    /// At the start: send what is kept, or only the screen.
    Start { history: bool },
}

/// A viewer of a terminal.
#[derive(Debug)]
pub(crate) struct Viewer {
    terminal: Arc<Terminal>,
    position: Position,
    /// The rest of data that is only valid as a whole.
    rest: Bytes,
    sent_size: Option<Size>,
    done: bool,
    _permit: OwnedSemaphorePermit,
}

impl Viewer {
    pub(super) fn new(
        terminal: Arc<Terminal>,
        request: &v1::ViewTerminalRequest,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let start = Position::Start { history: request.history };
        let position = request.after.map_or(start, Position::After);
        Self { terminal, position, rest: Bytes::new(), sent_size: None, done: false, _permit: permit }
    }

    /// Returns the events in order.
    pub(crate) fn events(self) -> impl Stream<Item = Result<v1::TerminalEvent, Status>> {
        futures::stream::unfold(self, |mut viewer| async move {
            let event = viewer.next().await?;
            Some((Ok(v1::TerminalEvent { event: Some(event) }), viewer))
        })
    }

    async fn next(&mut self) -> Option<Event> {
        let terminal = Arc::clone(&self.terminal);
        while !self.done {
            let changed = terminal.changed.notified();
            let event = self.next_now(&terminal.lock());
            if event.is_some() {
                return event;
            }
            changed.await;
        }
        None
    }

    fn next_now(&mut self, state: &State) -> Option<Event> {
        if !self.rest.is_empty() {
            return Some(self.next_of_rest());
        }
        if self.sent_size != Some(state.size) {
            self.sent_size = Some(state.size);
            return Some(Event::Size(state.size.to_wire()));
        }
        let output = match self.position {
            Position::After(after) => self.read_after(state, after),
            Position::Start { history } => self.start(state, history),
        };
        match state.ended {
            Some(ended) if output.is_none() => {
                self.done = true;
                Some(Event::Ended(ended))
            }
            _ => output,
        }
    }

    fn read_after(&mut self, state: &State, after: u64) -> Option<Event> {
        let Some(data) = state.history.read(after, u64::MAX, VIEW_BYTES) else {
            return self.start(state, false);
        };
        if data.is_empty() {
            return None;
        }
        let after = after + data.len() as u64;
        self.position = Position::After(after);
        Some(Event::Output(v1::TerminalOutput { data, after: Some(after) }))
    }

    fn start(&mut self, state: &State, with_history: bool) -> Option<Event> {
        let history = &state.history;
        let (first, complete_end) = (history.first_start(), history.complete_end());
        let mut all = Vec::new();
        if with_history {
            let kept = history.read(first, complete_end, usize::MAX).unwrap_or_default();
            all = strip_queries(&kept);
        }
        // All output since the start, for this size, draws the screen without a redraw.
        if !with_history || first > 0 || state.resized_at > 0 {
            all.extend(state.screen.redraw());
        }
        self.position = Position::After(complete_end);
        self.rest = all.into();
        if self.rest.is_empty() { self.read_after(state, complete_end) } else { Some(self.next_of_rest()) }
    }

    fn next_of_rest(&mut self) -> Event {
        let data = self.rest.split_to(self.rest.len().min(VIEW_BYTES));
        let after = match self.position {
            Position::After(after) if self.rest.is_empty() => Some(after),
            Position::After(_) | Position::Start { .. } => None,
        };
        Event::Output(v1::TerminalOutput { data, after })
    }
}
