//! The file with the whole output of one command, if its caller asked for one.
//!
//! A short output gets no file. Blocking threads write in pieces, so a slow disk does not stop other commands. The
//! command waits while too much is waiting to be written. If the disk does not respond in time, or is full, the file
//! stays incomplete and the command continues.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_protocol::v1;
use bytes::Bytes;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::directory::{OutputDirectory, OutputWriter};
use crate::limits::{MAX_SHORT_OUTPUT_BYTES, MAX_UNWRITTEN_OUTPUT_BYTES, OUTPUT_FILE_STALL};

/// Cost of a piece beside its bytes, so that single bytes are bounded too.
const PIECE_COST_BYTES: usize = 64;

/// The output file of a command.
#[derive(Debug)]
pub(crate) struct OutputFile {
    directory: Arc<OutputDirectory>,
    command_id: String,
    /// An output of at most this many bytes gets no file.
    threshold: u64,
    state: Mutex<State>,
    /// Notified when the state changes, except by new output.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    unwritten: Vec<Bytes>,
    /// Size of these in memory.
    unwritten_cost: usize,
    pushed_bytes: u64,
    written_bytes: u64,
    /// Set between two writes, from the first one to the end of the output.
    writer: Option<OutputWriter>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The output is short so far.
    #[default]
    Short,
    /// Everything so far is in the file.
    Idle,
    Writing,
    /// The output has ended.
    Closed,
    /// The rest of the output is not written.
    Stopped,
}

impl State {
    fn stop(&mut self) {
        self.phase = Phase::Stopped;
        self.unwritten = Vec::new();
        self.unwritten_cost = 0;
    }

    fn has_room(&self) -> bool {
        self.phase != Phase::Writing || self.unwritten_cost < MAX_UNWRITTEN_OUTPUT_BYTES
    }
}

impl OutputFile {
    pub(crate) fn new(directory: Arc<OutputDirectory>, command_id: &str, threshold: u64) -> Arc<Self> {
        let command_id = command_id.to_owned();
        // A short output is held in memory, in case it becomes longer.
        let threshold = threshold.min(MAX_SHORT_OUTPUT_BYTES);
        Arc::new(Self { directory, command_id, threshold, state: Mutex::default(), changed: Notify::new() })
    }

    /// Adds output. Must run within the runtime.
    pub(crate) fn push(self: &Arc<Self>, data: &Bytes) {
        let mut state = self.lock();
        if state.phase == Phase::Stopped {
            return;
        }
        state.unwritten.push(data.clone());
        state.unwritten_cost += data.len() + PIECE_COST_BYTES;
        state.pushed_bytes += data.len() as u64;
        let is_short = state.phase == Phase::Short && state.pushed_bytes <= self.threshold;
        if !is_short && state.phase != Phase::Writing {
            state.phase = Phase::Writing;
            drop(state);
            drop(tokio::spawn(Arc::clone(self).write()));
        }
    }

    /// Writes until nothing is waiting.
    async fn write(self: Arc<Self>) {
        loop {
            let (pieces, writer) = {
                let mut state = self.lock();
                if state.phase != Phase::Writing {
                    return;
                }
                if state.unwritten.is_empty() {
                    state.phase = Phase::Idle;
                    drop(state);
                    self.changed.notify_waiters();
                    return;
                }
                state.unwritten_cost = 0;
                (std::mem::take(&mut state.unwritten), state.writer.take())
            };
            self.changed.notify_waiters();
            // Never closed.
            let _turn = self.directory.turns().acquire().await;
            let file = Arc::clone(&self);
            if spawn_blocking(move || file.append(&pieces, writer)).await.is_err() {
                self.stop();
            }
        }
    }

    fn append(&self, pieces: &[Bytes], writer: Option<OutputWriter>) {
        let Some(mut writer) = writer.or_else(|| self.directory.create(&self.command_id).ok()) else {
            return self.stop();
        };
        let appended = writer.append(&joined(pieces));
        let mut state = self.lock();
        state.written_bytes = writer.written();
        match appended {
            Ok(()) if state.phase == Phase::Writing => state.writer = Some(writer),
            // It was given up meanwhile.
            Ok(()) => {}
            Err(_) => {
                state.stop();
                drop(state);
                self.changed.notify_waiters();
            }
        }
    }

    /// Waits until more output may be added.
    pub(crate) async fn wait_for_room(&self) {
        self.wait_until(State::has_room).await;
    }

    /// Waits until everything so far is written. Returns nothing if the output has no file.
    pub(crate) async fn result(&self) -> Option<v1::OutputFile> {
        let pushed_bytes = self.lock().pushed_bytes;
        self.wait_until(|state| state.phase != Phase::Writing || state.written_bytes >= pushed_bytes).await;
        let state = self.lock();
        let (bytes, complete) = (state.written_bytes, state.phase != Phase::Stopped);
        (bytes > 0).then_some(v1::OutputFile { bytes, complete })
    }

    /// Closes the file when the output has ended. It may be removed from then on.
    pub(crate) async fn close(&self) {
        self.wait_until(|state| state.phase != Phase::Writing).await;
        let mut state = self.lock();
        state.writer = None;
        if state.phase != Phase::Stopped {
            state.phase = Phase::Closed;
            state.unwritten = Vec::new();
        }
    }

    /// Gives up the file if it takes too long.
    async fn wait_until(&self, is_met: impl Fn(&State) -> bool) {
        let met = async {
            loop {
                let changed = self.changed.notified();
                if is_met(&self.lock()) {
                    return;
                }
                changed.await;
            }
        };
        if timeout(OUTPUT_FILE_STALL, met).await.is_err() {
            self.stop();
        }
    }

    fn stop(&self) {
        self.lock().stop();
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Joins pieces, so that one write takes many of them.
fn joined(pieces: &[Bytes]) -> Bytes {
    match pieces {
        [only] => only.clone(),
        pieces => pieces.concat().into(),
    }
}
