//! The signals that ask a program to end, where it has to tidy up first.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exit_code;

/// SIGINT, SIGTERM and SIGHUP, which do not end the program any more.
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

    /// Waits for one of them; the exit code that it stands for.
    pub(super) async fn next(&mut self) -> u8 {
        let kind = tokio::select! {
            _ = self.int.recv() => SignalKind::interrupt(),
            _ = self.term.recv() => SignalKind::terminate(),
            _ = self.hup.recv() => SignalKind::hangup(),
        };
        exit_code::of_signal(kind.as_raw_value())
    }
}
