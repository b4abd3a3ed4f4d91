//! A process between two stages of a pipeline. It passes on what the first one writes, and keeps the beginning.
//!
//! The two stages must not notice it: it ends when the first stage has closed its output or when the second one has closed
//! its input, always with exit code 0. It takes new data only when the second stage has taken the earlier ones, and it
//! never waits for anything else.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read, retry_on_intr, write};
use rustix::pipe::{SpliceFlags, splice};
use rustix::stdio::{stdin, stdout};

use crate::limits::STAGE_OUTPUT_BYTES;
use crate::signals;
use crate::stage_memory::StageMemory;

/// First argument of the agent's program that makes it a relay. The number of the memory's descriptor and the relay's own
/// number follow.
pub(crate) const SUBCOMMAND: &str = "stage-relay";

/// Maximum amount of data that is read at once.
const READ_BYTES: usize = 64 * 1024;

/// Maximum amount of data that the kernel moves at once.
const SPLICE_BYTES: usize = 1024 * 1024;

struct Relay {
    memory: StageMemory,
    number: usize,
    bytes: u64,
    buffer: Vec<u8>,
    /// Whether the kernel can move data between the two pipes.
    can_splice: bool,
}

/// Relays until one of the stages closes its end.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    // A signal for all processes of the command ends the stages, and then the relay.
    let _ = signals::ignore_all();
    if let Ok(mut relay) = Relay::new(arguments) {
        // Both errors and the end of the data are the end of a stage.
        while matches!(relay.step(), Ok(true)) {}
    }
    ExitCode::SUCCESS
}

impl Relay {
    fn new(mut arguments: impl Iterator<Item = OsString>) -> io::Result<Self> {
        let mut number = || arguments.next()?.to_str()?.parse::<u16>().ok();
        let (Some(descriptor), Some(number)) = (number(), number()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let memory = StageMemory::inherited(descriptor.into())?;
        let number = usize::from(number);
        memory.set_started(number)?;
        Ok(Self { memory, number, bytes: 0, buffer: vec![0; READ_BYTES], can_splice: true })
    }

    /// Passes on what is there. Returns whether more may follow.
    fn step(&mut self) -> Result<bool, Errno> {
        if !wait()? {
            return Ok(false);
        }
        let moved = match self.bytes >= STAGE_OUTPUT_BYTES as u64 && self.can_splice {
            false => self.copy()?,
            true => match splice_once() {
                Err(Errno::INVAL | Errno::NOSYS) => {
                    self.can_splice = false;
                    self.copy()?
                }
                moved => moved?,
            },
        };
        self.bytes += moved as u64;
        // The relay works without the memory too.
        let _ = self.memory.set_bytes(self.number, self.bytes);
        Ok(moved > 0)
    }

    fn copy(&mut self) -> Result<usize, Errno> {
        let length = retry_on_intr(|| read(stdin(), &mut self.buffer))?;
        let data = &self.buffer[..length];
        let _ = self.memory.keep(self.number, self.bytes, data);
        write_all(stdout(), data)?;
        Ok(length)
    }
}

/// Waits for data or for the end of the stage before. Returns false if the stage after has closed its input.
fn wait() -> Result<bool, Errno> {
    let (stdin, stdout) = (stdin(), stdout());
    // Without any requested event, the kernel reports that the other end is closed.
    let mut polled = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(&stdout, PollFlags::empty())];
    retry_on_intr(|| poll(&mut polled, None))?;
    Ok(!polled[1].revents().contains(PollFlags::ERR))
}

fn splice_once() -> Result<usize, Errno> {
    retry_on_intr(|| splice(stdin(), None, stdout(), None, SPLICE_BYTES, SpliceFlags::MOVE))
}

fn write_all(to: BorrowedFd<'_>, mut data: &[u8]) -> Result<(), Errno> {
    while !data.is_empty() {
        let written = retry_on_intr(|| write(to.as_fd(), data))?;
        data = &data[written..];
    }
    Ok(())
}
