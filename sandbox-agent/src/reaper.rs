//! Reaps every child that ends, as PID 1 must.
//!
//! Only this module may call `wait`. A command's main process is announced with [`Reaper::expect`] right after the
//! fork, with no await in between, so its status cannot be missed. Every other child is an orphan that PID 1 adopted.
//! It is reaped, and its status is dropped.

use std::collections::HashMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, WaitOptions, WaitStatus, wait};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::limits::REAPED_AT_ONCE;

/// Passes the status of each main process to its supervisor.
#[derive(Debug, Default)]
pub(crate) struct Reaper {
    expected: Mutex<HashMap<Pid, oneshot::Sender<WaitStatus>>>,
}

impl Reaper {
    /// Subscribes to SIGCHLD. Must come before the first fork.
    pub(crate) fn subscribe() -> io::Result<Signal> {
        signal(SignalKind::child())
    }

    /// Returns a receiver for the exit status of `pid`.
    pub(crate) fn expect(&self, pid: Pid) -> oneshot::Receiver<WaitStatus> {
        let (status, receiver) = oneshot::channel();
        self.lock().insert(pid, status);
        receiver
    }

    /// Whether the status of `pid` is awaited.
    pub(crate) fn expects(&self, pid: Pid) -> bool {
        self.lock().contains_key(&pid)
    }

    /// Reaps children until the agent ends.
    pub(crate) async fn run(&self, mut child_ended: Signal) {
        while child_ended.recv().await.is_some() {
            // Processes that fork and exit in a loop end as fast as they are reaped. Other tasks must run too.
            while self.reap() == REAPED_AT_ONCE {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Reaps a bounded number of ended children, and returns how many.
    fn reap(&self) -> usize {
        let mut reaped = 0;
        // One signal may stand for many children. ECHILD means that there is no child left.
        while reaped < REAPED_AT_ONCE
            && let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG)
        {
            reaped += 1;
            if let Some(expected) = self.lock().remove(&pid) {
                // A dropped receiver means that the supervisor no longer waits for this process.
                let _ = expected.send(status);
            }
        }
        reaped
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Pid, oneshot::Sender<WaitStatus>>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
