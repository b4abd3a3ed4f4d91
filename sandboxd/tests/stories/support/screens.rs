//! Terminals and their viewers.

use std::num::NonZeroU16;

use futures::StreamExt;
use sandbox_api::command::EndReason;
use sandbox_api::terminal::OpenTerminal;
use sandbox_api::{SandboxId, TerminalId};
use sandbox_client::{Client, Keyboard, TerminalEvent, TerminalEvents};
use tokio::time::timeout;

use crate::support::harness::{Daemon, SOON};

/// Opens a terminal.
pub(crate) async fn open(daemon: &Daemon, sandbox: &SandboxId, request: &OpenTerminal) -> TerminalId {
    daemon.client.open_terminal(sandbox, request).await.unwrap().terminal_id
}

/// Opens a terminal with a shell.
pub(crate) async fn shell(daemon: &Daemon, sandbox: &SandboxId) -> TerminalId {
    open(daemon, sandbox, &OpenTerminal::default()).await
}

/// A viewer and the output that it has received.
pub(crate) struct Viewer {
    events: TerminalEvents,
    keyboard: Keyboard,
    seen: Vec<u8>,
    /// Position of the last match in the output.
    found: usize,
    pub(crate) not_done: Vec<String>,
    size: Option<(u32, u32)>,
    exit: Option<(i32, Option<String>, EndReason)>,
}

impl Viewer {
    pub(crate) async fn attach(client: &Client, sandbox: &SandboxId, terminal: &TerminalId) -> Self {
        let (events, keyboard) = client.attach_terminal(sandbox, terminal).await.unwrap();
        Self { events, keyboard, seen: Vec::new(), found: 0, not_done: Vec::new(), size: None, exit: None }
    }

    pub(crate) async fn type_in(&mut self, text: &str) {
        self.keyboard.type_in(text.to_owned()).await.unwrap();
    }

    pub(crate) async fn resize(&mut self, cols: u32, rows: u32) {
        self.keyboard.resize(cols, rows).await.unwrap();
    }

    /// Receives one event. A connection error fails the story.
    pub(crate) async fn next(&mut self) -> bool {
        let event = timeout(SOON, self.events.next()).await;
        let event = event.unwrap_or_else(|_| panic!("no event; seen so far: {:?}", self.seen()));
        match event {
            None => return false,
            Some(event) => match event.unwrap() {
                TerminalEvent::Output(bytes) => self.seen.extend(bytes),
                TerminalEvent::Size { cols, rows } => self.size = Some((cols, rows)),
                TerminalEvent::NotDone(error) => self.not_done.push(error),
                TerminalEvent::Exit { exit_code, signal, reason } => {
                    self.exit = Some((exit_code, signal, reason));
                }
            },
        }
        true
    }

    /// Whether the connection breaks before the terminal ends.
    pub(crate) async fn breaks(&mut self) -> bool {
        while let Some(event) = timeout(SOON, self.events.next()).await.expect("the connection stays open") {
            if event.is_err() {
                return true;
            }
        }
        false
    }

    /// Waits until `text` arrives, after the position of the last match.
    pub(crate) async fn until_seen(&mut self, text: &str) {
        let mut from = self.found;
        loop {
            if let Some(at) = find(&self.seen[from..], text.as_bytes()) {
                self.found = from + at;
                return;
            }
            from = from.max((self.seen.len() + 1).saturating_sub(text.len()));
            assert!(self.next().await, "it ended without {text:?}: {:?}", self.seen());
        }
    }

    /// All output.
    pub(crate) fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// The first reported size.
    pub(crate) async fn size(&mut self) -> (u32, u32) {
        while self.size.is_none() {
            assert!(self.next().await);
        }
        self.size.unwrap()
    }

    /// Waits until the terminal has this size.
    pub(crate) async fn until_size(&mut self, size: (u32, u32)) {
        while self.size != Some(size) {
            assert!(self.next().await, "it ended with the size {:?}", self.size);
        }
    }

    /// Waits for another size.
    pub(crate) async fn size_after(&mut self, before: (u32, u32)) -> (u32, u32) {
        while self.size.is_none_or(|size| size == before) {
            assert!(self.next().await);
        }
        self.size.unwrap()
    }

    /// Waits for the terminal's end: code, signal and reason.
    pub(crate) async fn exit(&mut self) -> (i32, Option<String>, EndReason) {
        while self.next().await {}
        self.exit.clone().expect("the terminal ended without an exit event")
    }
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|part| part == text)
}

/// The screen of a window of this size that displays the viewer's output.
pub(crate) fn shown_by(viewer: &Viewer, cols: u16, rows: u16) -> String {
    let (rows, cols) = (NonZeroU16::new(rows).unwrap(), NonZeroU16::new(cols).unwrap());
    let mut window = vt100::Parser::new(rows, cols, 0);
    window.process(&viewer.seen);
    window.screen().contents()
}
