//! Sitting at a terminal: what stories of terminals have in common.

use std::num::NonZeroU16;

use futures::StreamExt;
use sandbox_api::command::EndReason;
use sandbox_api::terminal::OpenTerminal;
use sandbox_api::{SandboxId, TerminalId};
use sandbox_client::{Client, Keyboard, TerminalEvent, TerminalEvents};
use tokio::time::timeout;

use crate::support::harness::{Daemon, SOON};

/// Opens a terminal.
pub(crate) async fn open(daemon: &Daemon, sandbox: &SandboxId, wish: &OpenTerminal) -> TerminalId {
    daemon.client.open_terminal(sandbox, wish).await.unwrap().terminal_id
}

/// Opens a terminal with a shell.
pub(crate) async fn shell(daemon: &Daemon, sandbox: &SandboxId) -> TerminalId {
    open(daemon, sandbox, &OpenTerminal::default()).await
}

/// One viewer and what it has seen.
pub(crate) struct Seat {
    events: TerminalEvents,
    keyboard: Keyboard,
    seen: Vec<u8>,
    /// Up to where something was found.
    found: usize,
    pub(crate) not_done: Vec<String>,
    size: Option<(u32, u32)>,
    exit: Option<(i32, Option<String>, EndReason)>,
}

impl Seat {
    pub(crate) async fn take(client: &Client, sandbox: &SandboxId, terminal: &TerminalId) -> Self {
        let (events, keyboard) = client.attach_terminal(sandbox, terminal).await.unwrap();
        Self { events, keyboard, seen: Vec::new(), found: 0, not_done: Vec::new(), size: None, exit: None }
    }

    pub(crate) async fn type_in(&mut self, text: &str) {
        self.keyboard.type_in(text.to_owned()).await.unwrap();
    }

    pub(crate) async fn resize(&mut self, cols: u32, rows: u32) {
        self.keyboard.resize(cols, rows).await.unwrap();
    }

    /// One event; an error of the connection ends the story.
    pub(crate) async fn next(&mut self) -> bool {
        let event = timeout(SOON, self.events.next()).await;
        let event = event.unwrap_or_else(|_| panic!("nothing came; seen so far: {:?}", self.seen()));
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

    /// Whether the connection breaks before the terminal's end.
    pub(crate) async fn breaks(&mut self) -> bool {
        while let Some(event) = timeout(SOON, self.events.next()).await.expect("it goes on") {
            if event.is_err() {
                return true;
            }
        }
        false
    }

    /// Waits until `text` comes, after what was waited for before.
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

    /// Everything seen.
    pub(crate) fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// The size it was told of first.
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

    /// The size after another one.
    pub(crate) async fn size_after(&mut self, before: (u32, u32)) -> (u32, u32) {
        while self.size.is_none_or(|size| size == before) {
            assert!(self.next().await);
        }
        self.size.unwrap()
    }

    /// How it ended: code, signal and reason.
    pub(crate) async fn exit(&mut self) -> (i32, Option<String>, EndReason) {
        while self.next().await {}
        self.exit.clone().expect("it ended without saying how")
    }
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|part| part == text)
}

/// What somebody with a window of this size sees who was told what `seat` was told.
pub(crate) fn shown_by(seat: &Seat, cols: u16, rows: u16) -> String {
    let (rows, cols) = (NonZeroU16::new(rows).unwrap(), NonZeroU16::new(cols).unwrap());
    let mut window = vt100::Parser::new(rows, cols, 0);
    window.process(&seat.seen);
    window.screen().contents()
}
