//! Typing into a terminal.
//!
//! One input after the other, so that two people's words do not mix, and each for a bounded time: a program need not
//! read, and then what is typed is refused instead of kept.

use std::sync::atomic::{AtomicUsize, Ordering};

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::terminal::Terminal;
use crate::limits::{INPUT_WAIT, MAX_WAITING_INPUT_BYTES};

/// Who types, and how much waits to be typed.
#[derive(Debug, Default)]
pub(super) struct Typing {
    /// Held by the one whose input is being typed.
    turn: Mutex<()>,
    waiting_bytes: AtomicUsize,
}

impl Typing {
    fn room_for(&self, bytes: usize) -> Result<Waiting<'_>, Kind> {
        let waiting = Waiting { taken: &self.waiting_bytes, bytes };
        if waiting.taken.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_WAITING_INPUT_BYTES {
            return Err(Kind::InputNotTaken(v1::InputNotTaken { taken_bytes: 0 }));
        }
        Ok(waiting)
    }
}

impl Terminal {
    /// Types `data`, after what others are typing. Says how much of it was taken where the program reads too
    /// little.
    pub(crate) async fn input(&self, data: &[u8]) -> Result<(), Kind> {
        let deadline = Instant::now() + INPUT_WAIT;
        let _waiting = self.typing.room_for(data.len())?;
        let not_taken = |taken: usize| Kind::InputNotTaken(v1::InputNotTaken { taken_bytes: taken as u64 });
        let _typing = timeout_at(deadline, self.typing.turn.lock()).await.map_err(|_| not_taken(0))?;
        let mut taken = 0;
        while taken < data.len() {
            let changed = self.changed.notified();
            let pty = self.pty().ok_or_else(|| self.has_ended())?;
            let written = tokio::select! {
                written = timeout_at(deadline, pty.write(&data[taken..])) => written,
                // Whatever it was: the next turn sees whether it was the end.
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

/// Room for input that waits to be typed.
struct Waiting<'a> {
    taken: &'a AtomicUsize,
    bytes: usize,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
