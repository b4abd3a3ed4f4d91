//! A pseudo-terminal (pty(7)) and the program started on it.
//!
//! Made of rustix's functions and the agent's own posix_spawn, and not of a crate for it: those start processes
//! through std or tokio, and whoever waits for a child there takes its status from the reaper of PID 1.
//! The agent keeps the program's side open as well, so that reading does not fail while every program on the
//! terminal has closed it for a moment; [`Pty::let_go`] closes it when the end is to be seen.

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

/// The side of a terminal where the person sits.
#[derive(Debug)]
pub(super) struct Pty {
    master: AsyncFd<OwnedFd>,
    slave: Mutex<Option<OwnedFd>>,
}

impl Pty {
    /// Starts a program on a new terminal. The rule of [`spawn::spawn`] holds.
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
        speak_utf8(&slave).map_err(failed)?;
        let master = watched(master).map_err(failed)?;
        let started = spawn::start(launch, Stdio::Terminal(path))?;
        Ok((Self { master, slave: Mutex::new(Some(slave)) }, started))
    }

    pub(super) fn resize(&self, size: Size) -> io::Result<()> {
        Ok(tcsetwinsize(&self.master, winsize(size))?)
    }

    /// The process group that what is typed goes to; an error where there is none any more.
    pub(super) fn foreground(&self) -> io::Result<Pid> {
        Ok(tcgetpgrp(&self.master)?)
    }

    /// Reads what was written, as soon as there is something; 0 where nothing will come any more.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.master.readable().await?;
            match ready.try_io(|master| Ok(rustix::io::read(master, &mut *buffer)?)) {
                // How a terminal says that nobody has its other side open.
                Ok(Err(error)) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => return Ok(0),
                Ok(done) => return done,
                Err(_not_ready) => {}
            }
        }
    }

    /// Types some of `data`, as soon as there is room for any; the number of bytes.
    pub(super) async fn write(&self, data: &[u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.master.writable().await?;
            if let Ok(done) = ready.try_io(|master| Ok(rustix::io::write(master, data)?)) {
                return done;
            }
        }
    }

    /// Closes the program's side here, so that it is closed when the last program closes it.
    pub(super) fn let_go(&self) {
        self.slave.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

#[expect(unsafe_code, reason = "tokio offers no safe way; the promise it asks for is what OwnedFd is")]
fn watched(master: OwnedFd) -> Result<AsyncFd<OwnedFd>, Errno> {
    // SAFETY: an OwnedFd is open, and the same, for as long as it lives, and this one moves in.
    let registered = unsafe { AsyncFd::register(master) };
    registered.map_err(|error| Errno::from_io_error(&error.into_parts().1).unwrap_or(Errno::MFILE))
}

fn winsize(size: Size) -> Winsize {
    Winsize { ws_row: size.rows.get(), ws_col: size.cols.get(), ws_xpixel: 0, ws_ypixel: 0 }
}

/// So that rubbing out a character takes all of its bytes (termios(3), IUTF8).
fn speak_utf8(terminal: &OwnedFd) -> Result<(), Errno> {
    let mut modes = tcgetattr(terminal)?;
    modes.input_modes |= InputModes::IUTF8;
    tcsetattr(terminal, OptionalActions::Now, &modes)
}
