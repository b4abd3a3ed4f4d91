//! The caller's terminal, while what is typed goes to another one.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc;

/// Most that is read of the keyboard at once.
const READ_BYTES: usize = 4096;

/// Reads that wait to be passed on; the kernel keeps what is typed meanwhile.
const MAX_READS: usize = 16;

/// Ends what a program may have left on: the alternate screen, a hidden cursor, bracketed paste, mouse reports, and
/// colours (xterm's control sequences).
const TIDY: &[u8] =
    b"\x1b[?1049l\x1b[?25h\x1b[?2004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1l\x1b>\x1b[m";

/// A terminal that passes every key on as it is. It becomes what it was when this is dropped, also by a panic.
#[derive(Debug)]
pub(super) struct RawMode {
    terminal: OwnedFd,
    before: Termios,
}

impl RawMode {
    /// Makes standard input raw; an error where that is no terminal.
    pub(super) fn enter() -> io::Result<Self> {
        let terminal = io::stdin().as_fd().try_clone_to_owned()?;
        let before = tcgetattr(&terminal)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&terminal, OptionalActions::Now, &raw)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        if io::stdout().is_terminal() {
            // There is nobody left to tell where it is gone.
            let _ = io::stdout().lock().write_all(TIDY).and_then(|()| io::stdout().lock().flush());
        }
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Columns and rows of the terminal on standard input; `None` where it does not say.
pub(super) fn window() -> Option<(u32, u32)> {
    let size = tcgetwinsize(io::stdin().as_fd()).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then(|| (size.ws_col.into(), size.ws_row.into()))
}

/// What is typed, until the terminal hangs up. A thread of its own and not one of the runtime's, which would wait
/// for another key before it ends.
pub(super) fn keys() -> io::Result<mpsc::Receiver<Vec<u8>>> {
    let mut terminal = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (keys, typed) = mpsc::channel(MAX_READS);
    std::thread::Builder::new().name("keyboard".into()).spawn(move || {
        let mut buffer = [0; READ_BYTES];
        while let Ok(length @ 1..) = terminal.read(&mut buffer) {
            if keys.blocking_send(buffer[..length].to_vec()).is_err() {
                return;
            }
        }
    })?;
    Ok(typed)
}
