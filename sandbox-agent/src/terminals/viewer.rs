//! What one viewer of a terminal is told.
//!
//! First the size, then what was written from where the viewer wants to begin, then what comes, last the end. A
//! viewer that cannot go on where it was, because that is not kept any more, or because it was written for another
//! size, is brought to the screen as it is now: it has missed something and shows the right thing.

use std::sync::Arc;

use agent_protocol::v1::{self, terminal_event::Event};
use bytes::Bytes;
use futures::Stream;
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;

use super::replay::without_questions;
use super::screen::Size;
use super::terminal::{State, Terminal};
use crate::limits::VIEW_BYTES;

/// Where a viewer is.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Behind so many bytes.
    After(u64),
    /// To be given what is kept, or only the screen.
    Start { history: bool },
}

/// One who looks at a terminal.
#[derive(Debug)]
pub(crate) struct Viewer {
    terminal: Arc<Terminal>,
    place: Place,
    /// What is on its way and has only meaning as a whole.
    rest: Bytes,
    told_size: Option<Size>,
    done: bool,
    _permit: OwnedSemaphorePermit,
}

impl Viewer {
    pub(super) fn new(
        terminal: Arc<Terminal>,
        request: &v1::ViewTerminalRequest,
        permit: OwnedSemaphorePermit,
    ) -> Self {
        let start = Place::Start { history: request.history };
        let place = request.after.map_or(start, Place::After);
        Self { terminal, place, rest: Bytes::new(), told_size: None, done: false, _permit: permit }
    }

    /// The events, in order.
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
            let event = self.look(&terminal.lock());
            if event.is_some() {
                return event;
            }
            changed.await;
        }
        None
    }

    fn look(&mut self, state: &State) -> Option<Event> {
        if !self.rest.is_empty() {
            return Some(self.next_of_rest());
        }
        if self.told_size != Some(state.size) {
            self.told_size = Some(state.size);
            return Some(Event::Size(state.size.to_wire()));
        }
        let output = match self.place {
            Place::After(after) => self.go_on(state, after),
            Place::Start { history } => self.start(state, history),
        };
        match state.ended {
            Some(ended) if output.is_none() => {
                self.done = true;
                Some(Event::Ended(ended))
            }
            _ => output,
        }
    }

    fn go_on(&mut self, state: &State, after: u64) -> Option<Event> {
        let Some(data) = state.history.read(after, u64::MAX, VIEW_BYTES) else {
            return self.start(state, false);
        };
        if data.is_empty() {
            return None;
        }
        let after = after + data.len() as u64;
        self.place = Place::After(after);
        Some(Event::Output(v1::TerminalOutput { data, after: Some(after) }))
    }

    fn start(&mut self, state: &State, with_history: bool) -> Option<Event> {
        let history = &state.history;
        let (first, whole) = (history.first_place(), history.whole());
        let mut all = Vec::new();
        if with_history {
            let kept = history.read(first, whole, usize::MAX).unwrap_or_default();
            all = without_questions(&kept);
        }
        // What was written from the start and for this size leads to the screen by itself.
        if !with_history || first > 0 || state.resized_at > 0 {
            all.extend(state.screen.redraw());
        }
        self.place = Place::After(whole);
        self.rest = all.into();
        if self.rest.is_empty() { self.go_on(state, whole) } else { Some(self.next_of_rest()) }
    }

    fn next_of_rest(&mut self) -> Event {
        let data = self.rest.split_to(self.rest.len().min(VIEW_BYTES));
        let after = match self.place {
            Place::After(after) if self.rest.is_empty() => Some(after),
            Place::After(_) | Place::Start { .. } => None,
        };
        Event::Output(v1::TerminalOutput { data, after })
    }
}
