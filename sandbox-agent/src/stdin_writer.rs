//! Writes to the standard input of a command.
//!
//! There is one writer at a time, so the input of two writers is never mixed. A writer that disconnects does not close
//! the input: only an explicit close or the command's end does. Bytes count as written once they are in the pipe, even
//! if the command never reads them.

use std::sync::Arc;

use agent_protocol::fault::Kind;
use agent_protocol::v1::{self, StdinState};
use bytes::{Buf, Bytes};
use tokio::io::AsyncWriteExt;
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

use crate::command::Command;
use crate::limits::STDIN_STALL;
use crate::stdin::Slot;

/// One caller's exclusive access to the input.
#[derive(Debug)]
pub(crate) struct Writer {
    command: Arc<Command>,
    slot: OwnedMutexGuard<Slot>,
    written_bytes: u64,
}

impl Writer {
    /// Waits until there is no other writer. Fails if the input is not open.
    pub(crate) async fn acquire(command: Arc<Command>) -> Result<Self, Kind> {
        let stdin = command.stdin.clone();
        let slot = tokio::select! {
            biased;
            _ = command.ended() => return Err(not_open(StdinState::Ended, 0)),
            slot = timeout(STDIN_STALL, stdin.lock()) => slot.map_err(|_| stalled(0))?,
        };
        let writer = Self { command, slot, written_bytes: 0 };
        match &*writer.slot {
            Slot::Open(_) => Ok(writer),
            Slot::NeverOpened => Err(not_open(StdinState::NeverOpened, 0)),
            Slot::Closed => Err(not_open(StdinState::Closed, 0)),
        }
    }

    /// Waits until the pipe has room, writes as much of `data` as fits, and removes that from `data`.
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

    /// Returns the number of bytes that this writer wrote.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Closes the input. The command then reads the end of the file.
    pub(crate) fn close(&mut self) {
        *self.slot = Slot::Closed;
    }

    /// Returns the output of `future`, or an error if the command ends first.
    pub(crate) async fn unless_ended<T>(&self, future: impl Future<Output = T>) -> Result<T, Kind> {
        tokio::select! {
            biased;
            _ = self.command.ended() => Err(not_open(StdinState::Ended, self.written_bytes)),
            output = future => Ok(output),
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
            // The command closed its end. It cannot open it again.
            Err(_) => {
                self.close();
                Err(StdinState::Closed)
            }
        }
    }
}

/// Writes the data of a start request whose input stays open, before any other writer. This may take as long as the
/// command runs.
pub(crate) fn write_first(command: &Arc<Command>, mut data: Bytes) {
    let Some(slot) = command.stdin.try_lock() else {
        return;
    };
    let mut writer = Writer { command: Arc::clone(command), slot, written_bytes: 0 };
    tokio::spawn(async move {
        while !data.is_empty() {
            match writer.write_some(&data).await {
                Ok(length) => data.advance(length),
                // A command may end without reading all of its input.
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
