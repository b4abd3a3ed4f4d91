//! What a terminal's programs write, on its way to the screen and to the viewers: secret values are replaced.
//!
//! A command's output may wait for its end. A person who types waits for each character, so what may be the beginning of a
//! value is held back only for a moment.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::terminal::Terminal;
use crate::secrets::{Redactor, Secrets};

/// How long output that may be the beginning of a value is held back. A sandbox that used up its share of the processors is
/// stopped for up to a period of 100 ms, and then the rest of a value is read before this time is noticed.
const HOLD: Duration = Duration::from_millis(100);

/// The output of one terminal.
pub(super) struct Output {
    terminal: Arc<Terminal>,
    redactor: Option<Redactor>,
}

impl Output {
    pub(super) fn new(terminal: Arc<Terminal>, secrets: Option<Arc<Secrets>>) -> Self {
        Self { terminal, redactor: secrets.map(Redactor::new) }
    }

    /// Adds what was read.
    pub(super) fn add(&mut self, read: &[u8]) {
        match &mut self.redactor {
            None => self.terminal.record(read),
            Some(redactor) => record(&self.terminal, &redactor.push(read)),
        }
    }

    /// Waits until what is held back is due. Never returns if nothing is held back.
    pub(super) async fn held_long_enough(&self) {
        match &self.redactor {
            Some(redactor) if redactor.is_holding() => sleep(HOLD).await,
            _ => pending().await,
        }
    }

    /// Adds what is held back.
    pub(super) fn release(&mut self) {
        if let Some(redactor) = &mut self.redactor {
            record(&self.terminal, &redactor.finish());
        }
    }
}

/// Viewers are notified only of output that they can see.
fn record(terminal: &Terminal, shown: &[u8]) {
    if !shown.is_empty() {
        terminal.record(shown);
    }
}
