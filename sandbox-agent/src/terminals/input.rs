//! Input to a terminal.
//!
//! Inputs are written one after the other, so that two clients' inputs do not mix. Each waits a limited time. If the
//! program does not read, input is rejected instead of buffered.

use std::sync::atomic::{AtomicUsize, Ordering};

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::terminal::Terminal;
use crate::limits::{INPUT_WAIT, MAX_WAITING_INPUT_BYTES};

/// Serializes inputs, and counts the bytes that wait.
#[derive(Debug, Default)]
pub(super) struct InputQueue {
    /// Held while an input is written.
    order: Mutex<()>,
    waiting_bytes: AtomicUsize,
}

impl InputQueue {
    fn reserve(&self, bytes: usize) -> Result<Reservation<'_>, Kind> {
        let waiting = Reservation { taken: &self.waiting_bytes, bytes };
        if waiting.taken.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_WAITING_INPUT_BYTES {
            return Err(Kind::InputNotTaken(v1::InputNotTaken { taken_bytes: 0 }));
        }
        Ok(waiting)
    }
}

impl Terminal {
    /// Writes `data` after the inputs of others. If the program reads too little, the error says how much was
    /// written.
    pub(crate) async fn input(&self, data: &[u8]) -> Result<(), Kind> {
        let deadline = Instant::now() + INPUT_WAIT;
        let _waiting = self.input_queue.reserve(data.len())?;
        let not_taken = |taken: usize| Kind::InputNotTaken(v1::InputNotTaken { taken_bytes: taken as u64 });
        let _typing = timeout_at(deadline, self.input_queue.order.lock()).await.map_err(|_| not_taken(0))?;
        let mut taken = 0;
        while taken < data.len() {
            let changed = self.changed.notified();
            let pty = self.pty().ok_or_else(|| self.has_ended())?;
            let written = tokio::select! {
                written = timeout_at(deadline, pty.write(&data[taken..])) => written,
                // The next iteration checks whether the change was the end.
                () = changed => continue,
            };
            match written {
                Ok(Ok(bytes)) => taken += bytes,
                Ok(Err(_)) => return Err(self.has_ended()),
                Err(_) => return Err(not_taken(taken)),
            }
        }
        Ok(())
    }
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
