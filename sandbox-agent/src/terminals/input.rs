//! The queue of inputs to a terminal.
//!
//! Inputs are written one after the other, so that two clients' inputs do not mix. Each waits a limited time. If the
//! program does not read, input is rejected instead of buffered.

use std::sync::atomic::{AtomicUsize, Ordering};

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout_at};

use crate::limits::MAX_WAITING_INPUT_BYTES;

/// Serializes inputs, and counts the bytes that wait.
#[derive(Debug, Default)]
pub(super) struct InputQueue {
    /// Held while an input is written.
    order: Mutex<()>,
    waiting_bytes: AtomicUsize,
}

/// The right to write an input. The next input waits until it is dropped.
pub(super) struct Turn<'a> {
    _order: MutexGuard<'a, ()>,
    _waiting: Reservation<'a>,
}

impl InputQueue {
    /// Waits until the earlier inputs are written. `bytes` is the size of the new one.
    pub(super) async fn turn(&self, bytes: usize, deadline: Instant) -> Result<Turn<'_>, Kind> {
        let waiting = self.reserve(bytes)?;
        let order = timeout_at(deadline, self.order.lock()).await.map_err(|_| not_taken(0))?;
        Ok(Turn { _order: order, _waiting: waiting })
    }

    fn reserve(&self, bytes: usize) -> Result<Reservation<'_>, Kind> {
        let waiting = Reservation { taken: &self.waiting_bytes, bytes };
        if waiting.taken.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_WAITING_INPUT_BYTES {
            return Err(not_taken(0));
        }
        Ok(waiting)
    }
}

/// The error for an input of which only `bytes` bytes were written.
pub(super) fn not_taken(bytes: usize) -> Kind {
    Kind::InputNotTaken(v1::InputNotTaken { taken_bytes: bytes as u64 })
}

/// Bytes reserved for an input that waits.
struct Reservation<'a> {
    taken: &'a AtomicUsize,
    bytes: usize,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
