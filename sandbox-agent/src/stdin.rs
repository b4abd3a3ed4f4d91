//! A command's standard input while it is open to writers.
//!
//! Owns the turn: one writer at a time, so that what two of them send is never mixed. The surprise: a writer that
//! goes away in the middle closes nothing, because only the word to close does, or the command's end. What the
//! pipe has taken counts as written, whether or not the command will ever read it.

use std::sync::Arc;

use agent_protocol::fault::Kind;
use agent_protocol::v1::{self, StdinState};
use bytes::{Buf, Bytes};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;

use crate::command::Command;
use crate::limits::STDIN_STALL;

#[derive(Debug)]
enum Slot {
    NeverOpened,
    Open(pipe::Sender),
    Closed,
}

/// Standard input of one command. Writers queue for it in the order they came.
#[derive(Debug, Clone)]
pub(crate) struct Stdin(Arc<Mutex<Slot>>);

impl Stdin {
    /// Open where there is a pipe.
    pub(crate) fn new(pipe: Option<pipe::Sender>) -> Self {
        Self(Arc::new(Mutex::new(pipe.map_or(Slot::NeverOpened, Slot::Open))))
    }

    /// Closes it once its writer has seen that the command has ended.
    pub(crate) async fn close_at_end(&self) {
        *self.0.lock().await = Slot::Closed;
    }
}

/// One caller's turn.
#[derive(Debug)]
pub(crate) struct Writer {
    command: Arc<Command>,
    slot: OwnedMutexGuard<Slot>,
    written_bytes: u64,
}

impl Writer {
    /// Waits until nobody else writes, and fails where there is nothing to write to.
    pub(crate) async fn take_turn(command: Arc<Command>) -> Result<Self, Kind> {
        let turn = Arc::clone(&command.stdin.0).lock_owned();
        let slot = tokio::select! {
            biased;
            _ = command.ended() => return Err(not_open(StdinState::Ended, 0)),
            slot = timeout(STDIN_STALL, turn) => slot.map_err(|_| stalled(0))?,
        };
        let writer = Self { command, slot, written_bytes: 0 };
        match &*writer.slot {
            Slot::Open(_) => Ok(writer),
            Slot::NeverOpened => Err(not_open(StdinState::NeverOpened, 0)),
            Slot::Closed => Err(not_open(StdinState::Closed, 0)),
        }
    }

    /// Writes as much of `data` as there is room for once there is some, and takes it off.
    pub(crate) async fn write(&mut self, data: &mut Bytes) -> Result<(), Kind> {
        if data.is_empty() {
            return Ok(());
        }
        match timeout(STDIN_STALL, self.write_some(data)).await {
            Ok(Ok(length)) => data.advance(length),
            Ok(Err(state)) => return Err(not_open(state, self.written_bytes)),
            Err(_) => return Err(stalled(self.written_bytes)),
        }
        Ok(())
    }

    /// How much was written in this turn.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// The end of input for the command.
    pub(crate) fn close(&mut self) {
        *self.slot = Slot::Closed;
    }

    /// What `wanted` brings, unless the command ends before.
    pub(crate) async fn unless_ended<T>(&self, wanted: impl Future<Output = T>) -> Result<T, Kind> {
        tokio::select! {
            biased;
            _ = self.command.ended() => Err(not_open(StdinState::Ended, self.written_bytes)),
            wanted = wanted => Ok(wanted),
        }
    }

    async fn write_some(&mut self, data: &[u8]) -> Result<usize, StdinState> {
        let Slot::Open(pipe) = &mut *self.slot else {
            return Err(StdinState::Closed);
        };
        let written = tokio::select! {
            biased;
            _ = self.command.ended() => return Err(StdinState::Ended),
            written = pipe.write(data) => written,
        };
        match written {
            Ok(length) => {
                self.written_bytes += length as u64;
                Ok(length)
            }
            // The command closed its end, and opens it never again.
            Err(_) => {
                self.close();
                Err(StdinState::Closed)
            }
        }
    }
}

/// Writes what came with the start of a command whose input stays open, before anybody else gets a turn. It may
/// take as long as the command.
pub(crate) fn write_first(command: &Arc<Command>, mut data: Bytes) {
    let Ok(slot) = Arc::clone(&command.stdin.0).try_lock_owned() else {
        return;
    };
    let mut writer = Writer { command: Arc::clone(command), slot, written_bytes: 0 };
    tokio::spawn(async move {
        while !data.is_empty() {
            match writer.write_some(&data).await {
                Ok(length) => data.advance(length),
                // A command that does not read its input to the end is in its right.
                Err(_) => return,
            }
        }
    });
}

fn not_open(state: StdinState, written_bytes: u64) -> Kind {
    Kind::StdinNotOpen(v1::StdinNotOpen { state: state.into(), written_bytes })
}

fn stalled(written_bytes: u64) -> Kind {
    let waited_ms = STDIN_STALL.as_millis() as u64;
    Kind::StdinStalled(v1::StdinStalled { written_bytes, waited_ms })
}
