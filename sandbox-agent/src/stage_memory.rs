//! The memory in which the stages of a pipeline are recorded.
//!
//! A memory file of fixed size that bash, its commands and the relays between the stages share. So keeping output never
//! makes a stage wait, what is kept is bounded, and it survives the end of every process. All of them can write anything
//! to it, so nothing in it is trusted.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd, pread, pwrite};

use crate::limits::STAGE_OUTPUT_BYTES;

/// The beginning of the memory, where bash writes the exit codes.
const CODES_BYTES: usize = 1024;

/// Before the output of a stage: whether its relay has started, and the number of all bytes, each as a number of 8 bytes.
const HEADER_BYTES: usize = 16;

const SLOT_BYTES: usize = HEADER_BYTES + STAGE_OUTPUT_BYTES;

/// The descriptor has at least this number in commands, because scripts choose small numbers for their own.
const MIN_NUMBER: RawFd = 200;

/// The memory of one pipeline.
#[derive(Debug)]
pub(crate) struct StageMemory(OwnedFd);

/// What was kept of the output of a stage.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeptOutput {
    /// The beginning.
    pub(crate) data: Vec<u8>,
    /// Number of all bytes.
    pub(crate) bytes: u64,
}

impl KeptOutput {
    pub(crate) fn is_cut(&self) -> bool {
        self.bytes > self.data.len() as u64
    }
}

impl StageMemory {
    /// Creates the memory for a number of relays.
    pub(crate) fn new(relays: usize) -> Result<Self, Errno> {
        let file = memfd_create("stages", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, (CODES_BYTES + relays * SLOT_BYTES) as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Ok(Self(fcntl_dupfd_cloexec(file, MIN_NUMBER)?))
    }

    /// Takes over the memory that this process has inherited.
    pub(crate) fn inherited(number: RawFd) -> io::Result<Self> {
        Ok(Self(take(number)?))
    }

    pub(crate) fn number(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Notes that a relay has started.
    pub(crate) fn set_started(&self, relay: usize) -> Result<(), Errno> {
        self.write(slot_of(relay), &1_u64.to_le_bytes())
    }

    /// Notes how many bytes a stage has written.
    pub(crate) fn set_bytes(&self, relay: usize, bytes: u64) -> Result<(), Errno> {
        self.write(slot_of(relay) + 8, &bytes.to_le_bytes())
    }

    /// Keeps data that a stage has written after `before` other bytes, as far as there is room.
    pub(crate) fn keep(&self, relay: usize, before: u64, data: &[u8]) -> Result<(), Errno> {
        let Some(at) = usize::try_from(before).ok().filter(|at| *at < STAGE_OUTPUT_BYTES) else {
            return Ok(());
        };
        self.write(slot_of(relay) + HEADER_BYTES + at, &data[..data.len().min(STAGE_OUTPUT_BYTES - at)])
    }

    /// The output of a stage. `None` if its relay has not started.
    pub(crate) fn output(&self, relay: usize) -> Option<KeptOutput> {
        let mut header = [0; HEADER_BYTES];
        self.read(slot_of(relay), &mut header)?;
        let (started, bytes) = header.split_at(8);
        if started == [0; 8] {
            return None;
        }
        let bytes = u64::from_le_bytes(bytes.try_into().ok()?);
        let kept = usize::try_from(bytes).map_or(STAGE_OUTPUT_BYTES, |bytes| bytes.min(STAGE_OUTPUT_BYTES));
        let mut data = vec![0; kept];
        self.read(slot_of(relay) + HEADER_BYTES, &mut data)?;
        Some(KeptOutput { data, bytes })
    }

    /// The exit codes that bash has written, of stages and relays in turn. `None` if they are not as many as expected.
    pub(crate) fn exit_codes(&self, expected: usize) -> Option<Vec<i32>> {
        let mut text = [0; CODES_BYTES];
        self.read(0, &mut text)?;
        let length = text.iter().position(|byte| *byte == 0)?;
        let words = std::str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace();
        let codes: Option<Vec<i32>> = words.map(|word| Some(i32::from(word.parse::<u8>().ok()?))).collect();
        codes.filter(|codes| codes.len() == expected)
    }

    fn write(&self, mut at: usize, mut data: &[u8]) -> Result<(), Errno> {
        while !data.is_empty() {
            let written = pwrite(&self.0, data, at as u64)?;
            data = &data[written..];
            at += written;
        }
        Ok(())
    }

    fn read(&self, at: usize, into: &mut [u8]) -> Option<()> {
        let mut filled = 0;
        while filled < into.len() {
            match pread(&self.0, &mut into[filled..], (at + filled) as u64) {
                Ok(0) | Err(_) => return None,
                Ok(length) => filled += length,
            }
        }
        Some(())
    }
}

/// Takes ownership of the descriptor with this number. No program that this process starts will inherit it.
#[expect(unsafe_code, reason = "a descriptor that was handed over as a number")]
fn take(number: RawFd) -> io::Result<OwnedFd> {
    if number <= libc::STDERR_FILENO {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the process that started this one passed the descriptor with its number, and nothing else in this
    // process has opened or used it. If the descriptor is not open, the next call fails and closes nothing.
    let memory = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(&memory, FdFlags::CLOEXEC)?;
    Ok(memory)
}

impl AsFd for StageMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn slot_of(relay: usize) -> usize {
    CODES_BYTES + relay * SLOT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_beginning_of_an_output_is_kept() {
        let memory = StageMemory::new(2).unwrap();
        memory.set_started(1).unwrap();
        let half = vec![b'x'; STAGE_OUTPUT_BYTES / 2 + 1];
        for round in 0..4 {
            memory.keep(1, round * half.len() as u64, &half).unwrap();
        }
        memory.set_bytes(1, u64::MAX).unwrap();
        assert_eq!(memory.output(0), None);
        let kept = memory.output(1).unwrap();
        assert_eq!((kept.data, kept.bytes), (vec![b'x'; STAGE_OUTPUT_BYTES], u64::MAX));
        assert_eq!(memory.output(2), None);
    }

    #[test]
    fn exit_codes_count_only_if_there_are_as_many_as_expected() {
        let memory = StageMemory::new(1).unwrap();
        assert_eq!(memory.exit_codes(3), None);
        memory.write(0, b"141 0 3 ").unwrap();
        assert_eq!(memory.exit_codes(3), Some(vec![141, 0, 3]));
        assert_eq!(memory.exit_codes(1), None);
        memory.write(0, b"999 0 3 ").unwrap();
        assert_eq!(memory.exit_codes(3), None);
    }

    #[test]
    fn the_memory_does_not_grow() {
        let memory = StageMemory::new(1).unwrap();
        assert_eq!(memory.write(CODES_BYTES + SLOT_BYTES, b"x"), Err(Errno::PERM));
    }
}
