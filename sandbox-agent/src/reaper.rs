//! Collects every child that ends, as PID 1 must.
//!
//! Owns all waiting: nothing else in the agent may call `wait`. A command's main process is announced with
//! [`Reaper::expect`] right after the fork, with no await in between, so its status cannot be missed;
//! every other child is an orphan that came to us and is only collected.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, WaitOptions, WaitStatus, wait};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::limits::COLLECTED_AT_ONCE;

/// Hands each main process's status to the one who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Reaper {
    expected: Mutex<HashMap<Pid, oneshot::Sender<WaitStatus>>>,
}

impl Reaper {
    /// Subscribes to child ends. Must come before the first fork.
    pub(crate) fn subscribe() -> io::Result<Signal> {
        signal(SignalKind::child())
    }

    /// The status `pid` will end with.
    pub(crate) fn expect(&self, pid: Pid) -> oneshot::Receiver<WaitStatus> {
        let (status, receiver) = oneshot::channel();
        self.lock().insert(pid, status);
        receiver
    }

    /// Collects for as long as the agent lives.
    pub(crate) async fn run(&self, mut child_ended: Signal) {
        while child_ended.recv().await.is_some() {
            // Processes that fork and exit in a loop end as fast as they are collected. The agent has other work too.
            while self.collect() == COLLECTED_AT_ONCE {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Collects children that have ended, some of them where there are many; how many.
    fn collect(&self) -> usize {
        let mut collected = 0;
        // One signal may stand for many children. ECHILD means that there is none left.
        while collected < COLLECTED_AT_ONCE
            && let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG)
        {
            collected += 1;
            if let Some(expected) = self.lock().remove(&pid) {
                // A command that nobody waits for any more has been ended by other means.
                let _ = expected.send(status);
            }
        }
        collected
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Pid, oneshot::Sender<WaitStatus>>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
