//! The user's terminal, while its input goes to a terminal of a sandbox.

use std::fs::File;
use std::io::{self, IsTerminal, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc;

/// Maximum size of a read from the keyboard.
const READ_BYTES: usize = 4096;

/// Maximum number of queued reads. The kernel buffers further input.
const MAX_QUEUED_READS: usize = 16;

/// Resets modes that a program may have left on: the alternate screen, a hidden cursor, bracketed paste, mouse reports,
/// and colours (xterm's control sequences).
const RESET_SEQUENCES: &[u8] =
    b"\x1b[?1049l\x1b[?25h\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1l\x1b>\x1b[m";

/// A terminal in raw mode, which passes on every key unchanged. The drop restores the previous mode, also after a panic.
#[derive(Debug)]
pub(super) struct RawMode {
    terminal: OwnedFd,
    previous: Termios,
}

impl RawMode {
    /// Sets standard input to raw mode. Fails if it is not a terminal.
    pub(super) fn enter() -> io::Result<Self> {
        let terminal = io::stdin().as_fd().try_clone_to_owned()?;
        let previous = tcgetattr(&terminal)?;
        let mut raw = previous.clone();
        raw.make_raw();
        tcsetattr(&terminal, OptionalActions::Now, &raw)?;
        Ok(Self { terminal, previous })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        if io::stdout().is_terminal() {
            // If standard output is closed, the error cannot be reported.
            let _ = io::stdout().lock().write_all(RESET_SEQUENCES).and_then(|()| io::stdout().lock().flush());
        }
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.previous);
    }
}

/// Columns and rows of the terminal on standard input. `None` if they are unknown.
pub(super) fn window() -> Option<(u32, u32)> {
    let size = tcgetwinsize(io::stdin().as_fd()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}

/// What the user types. A thread reads it until the terminal is closed: a thread of the async runtime would delay the exit
/// until the next key. Dropping this ends the thread, so that later keys are left to other readers.
#[derive(Debug)]
pub(super) struct TypedKeys {
    /// `None` only during the drop.
    keys: Option<mpsc::Receiver<Vec<u8>>>,
    /// The thread ends when this is closed.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl TypedKeys {
    pub(super) fn open() -> io::Result<Self> {
        let terminal = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        let (stopped, stop) = io::pipe()?;
        let (sender, keys) = mpsc::channel(MAX_QUEUED_READS);
        let thread = thread::Builder::new().name("keyboard".into());
        let thread = thread.spawn(move || pass_on(terminal, &stopped, &sender))?;
        Ok(Self { keys: Some(keys), stop: Some(stop), thread: Some(thread) })
    }

    /// What was typed next. `None` if the terminal is closed.
    pub(super) async fn recv(&mut self) -> Option<Vec<u8>> {
        self.keys.as_mut()?.recv().await
    }
}

impl Drop for TypedKeys {
    fn drop(&mut self) {
        // The thread waits for one of these.
        drop((self.keys.take(), self.stop.take()));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn pass_on(mut terminal: File, stopped: &PipeReader, keys: &mpsc::Sender<Vec<u8>>) {
    let mut buffer = [0; READ_BYTES];
    while is_typed(&terminal, stopped) {
        match terminal.read(&mut buffer) {
            Ok(length @ 1..) if keys.blocking_send(buffer[..length].to_vec()).is_ok() => {}
            _ => return,
        }
    }
}

/// Waits until a read of the terminal does not block. False if the reading is to stop.
fn is_typed(terminal: &File, stopped: &PipeReader) -> bool {
    let mut waited = [PollFd::new(terminal, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
    loop {
        match poll(&mut waited, None) {
            Err(Errno::INTR) => {}
            Err(_) => return false,
            Ok(_) => return waited[1].revents().is_empty(),
        }
    }
}
