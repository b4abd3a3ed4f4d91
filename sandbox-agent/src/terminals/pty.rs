//! A pseudo-terminal (pty(7)) and the program started on it.
//!
//! Uses rustix and the agent's own posix_spawn instead of a crate for pseudo-terminals. Such crates start processes
//! through std or tokio, which wait for the child and take its status from the reaper of PID 1. The agent keeps the
//! program's side open as well, so that reading does not fail while no program has it open for a moment.
//! [`Pty::close_program_side`] closes it when the agent must see the end.
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use agent_protocol::v1;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use rustix::termios::{InputModes, OptionalActions, Winsize, tcgetattr, tcgetpgrp, tcsetattr, tcsetwinsize};
use tokio::io::unix::AsyncFd;

use super::screen::Size;
use crate::posix_spawn::Stdio;
use crate::spawn::{self, Launch, Started};

/// The controlling side of a terminal.
#[derive(Debug)]
pub(super) struct Pty {
    master: AsyncFd<OwnedFd>,
    slave: Mutex<Option<OwnedFd>>,
}

impl Pty {
    /// Starts a program on a new terminal. The rule of [`spawn::spawn`] applies.
    pub(super) fn start(launch: &Launch<'_>, size: Size) -> Result<(Self, Started), v1::StartFailed> {
        let failed = |errno| spawn::failed("terminal", "/dev/ptmx", errno);
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).map_err(failed)?;
        unlockpt(&master).map_err(failed)?;
        rustix::io::ioctl_fionbio(&master, true).map_err(failed)?;
        tcsetwinsize(&master, winsize(size)).map_err(failed)?;
        let path = ptsname(&master, Vec::new()).map_err(failed)?;
        let slave =
            open(&path, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        enable_utf8(&slave).map_err(failed)?;
        let master = register(master).map_err(failed)?;
        let started = spawn::start(launch, Stdio::Terminal(path), None)?;
        Ok((Self { master, slave: Mutex::new(Some(slave)) }, started))
    }

    pub(super) fn resize(&self, size: Size) -> io::Result<()> {
        Ok(tcsetwinsize(&self.master, winsize(size))?)
    }

    /// Returns the foreground process group. Fails if there is none any more.
    pub(super) fn foreground(&self) -> io::Result<Pid> {
        Ok(tcgetpgrp(&self.master)?)
    }

    /// Waits for output and reads it. Returns 0 if no more can come.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.master.readable().await?;
            match ready.try_io(|master| Ok(rustix::io::read(master, &mut *buffer)?)) {
                // The error of a terminal whose other side is closed.
                Ok(Err(error)) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => return Ok(0),
                Ok(done) => return done,
                Err(_not_ready) => {}
            }
        }
    }

    /// Waits for room and writes some of `data`. Returns the number of bytes.
    pub(super) async fn write(&self, data: &[u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.master.writable().await?;
            if let Ok(done) = ready.try_io(|master| Ok(rustix::io::write(master, data)?)) {
                return done;
            }
        }
    }

    /// Closes the agent's copy of the program's side. The terminal then closes with the last program that uses it.
    pub(super) fn close_program_side(&self) {
        self.slave.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

#[expect(unsafe_code, reason = "tokio has no safe constructor; OwnedFd guarantees what it requires")]
fn register(master: OwnedFd) -> Result<AsyncFd<OwnedFd>, Errno> {
    // SAFETY: an OwnedFd stays open, with the same number, for as long as it lives, and this one is moved in.
    let registered = unsafe { AsyncFd::register(master) };
    registered.map_err(|error| Errno::from_io_error(&error.into_parts().1).unwrap_or(Errno::MFILE))
}

fn winsize(size: Size) -> Winsize {
    Winsize { ws_row: size.rows.get(), ws_col: size.cols.get(), ws_xpixel: 0, ws_ypixel: 0 }
}

/// Enables UTF-8 mode, so that erasing a character erases all of its bytes (termios(3), IUTF8).
fn enable_utf8(terminal: &OwnedFd) -> Result<(), Errno> {
    let mut modes = tcgetattr(terminal)?;
    modes.input_modes |= InputModes::IUTF8;
    tcsetattr(terminal, OptionalActions::Now, &modes)
}
