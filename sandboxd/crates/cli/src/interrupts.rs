//! Termination signals, for commands that must clean up before they end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit_code;

/// SIGINT, SIGTERM and SIGHUP. While this exists, they do not end the program by themselves.
#[derive(Debug)]
pub(super) struct Interrupts {
    int: Signal,
    term: Signal,
    hup: Signal,
}

impl Interrupts {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            int: signal(SignalKind::interrupt())?,
            term: signal(SignalKind::terminate())?,
            hup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal, and returns its exit code.
    pub(super) async fn next(&mut self) -> u8 {
        let kind = tokio::select! {
            _ = self.int.recv() => SignalKind::interrupt(),
            _ = self.term.recv() => SignalKind::terminate(),
            _ = self.hup.recv() => SignalKind::hangup(),
        };
        exit_code::of_signal(kind.as_raw_value())
    }
}
