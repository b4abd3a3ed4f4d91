//! A command's standard input: never opened, open to writers, or closed.

use std::sync::Arc;

use tokio::net::unix::pipe;
use tokio::sync::{Mutex, OwnedMutexGuard};

/// The state of a standard input.
#[derive(Debug)]
pub(crate) enum Slot {
    NeverOpened,
    Open(pipe::Sender),
    Closed,
}

/// Standard input of one command. Writers take turns in the order they came.
#[derive(Debug, Clone)]
pub(crate) struct Stdin(Arc<Mutex<Slot>>);

impl Stdin {
    /// Creates an input that is open if there is a pipe.
    pub(crate) fn new(pipe: Option<pipe::Sender>) -> Self {
        Self(Arc::new(Mutex::new(pipe.map_or(Slot::NeverOpened, Slot::Open))))
    }

    /// Waits for the current writer to finish, and locks the input.
    pub(crate) async fn lock(&self) -> OwnedMutexGuard<Slot> {
        Arc::clone(&self.0).lock_owned().await
    }

    /// Locks the input if it has no writer.
    pub(crate) fn try_lock(&self) -> Option<OwnedMutexGuard<Slot>> {
        Arc::clone(&self.0).try_lock_owned().ok()
    }

    /// Closes the input once its current writer has noticed that the command ended.
    pub(crate) async fn close_at_end(&self) {
        *self.0.lock().await = Slot::Closed;
    }
}
