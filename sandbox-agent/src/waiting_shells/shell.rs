//! One waiting shell: awaited, looked at, and handed a command.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::fs::{Access, AtFlags, accessat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitId, WaitIdOptions, WaitStatus, pidfd_open, waitid};
use tokio::sync::oneshot;

use super::message::{Message, receive_pid};
use crate::mark::Mark;
use crate::reaper::Reaper;

/// A bash that waits for a command, or will in a moment. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct WaitingShell {
    /// The other end is closed when it ends or becomes a command.
    socket: OwnedFd,
    mark: Mark,
    state: State,
}

/// What is known of a waiting shell.
#[derive(Debug)]
pub(super) enum State {
    /// It does not wait yet.
    Starting,
    /// It waits, as this process.
    Waiting(Pid, OwnedFd),
    /// It was stopped or ended, or there was no room for it.
    Unusable,
    /// It ended before it waited.
    Ended,
}

/// A command that can be handed to a waiting shell.
#[derive(Debug)]
pub(crate) struct Handover<'a> {
    pub(crate) program: &'a CStr,
    pub(crate) argv: &'a [CString],
    pub(crate) envp: &'a [CString],
    pub(crate) stdio: [BorrowedFd<'a>; 3],
    pub(crate) cwd: BorrowedFd<'a>,
}

/// A shell that has become a command.
#[derive(Debug)]
pub(crate) struct HandedOver {
    pub(crate) pid: Pid,
    pub(crate) mark: Mark,
    pub(crate) status: oneshot::Receiver<WaitStatus>,
}

impl WaitingShell {
    pub(super) fn new(socket: OwnedFd, mark: Mark) -> Self {
        Self { socket, mark, state: State::Starting }
    }

    /// Gives the shell up to `limit` to say that it waits, and looks whether it still runs.
    pub(super) fn wait(&mut self, limit: Duration, reaper: &Reaper) -> &State {
        if let State::Starting = self.state {
            self.state = match receive_pid(self.socket.as_fd(), limit).and_then(|pid| opened(pid, reaper)) {
                Ok((pid, process)) => State::Waiting(pid, process),
                Err(Errno::TIMEDOUT) => State::Starting,
                Err(Errno::AGAIN) => State::Unusable,
                Err(_) => State::Ended,
            };
        }
        if let State::Waiting(_, process) = &self.state
            && !runs(process.as_fd())
        {
            self.state = State::Unusable;
        }
        &self.state
    }

    /// Its process, if it waits or has waited.
    pub(super) fn pid(&self) -> Option<Pid> {
        if let State::Waiting(pid, _) = self.state { Some(pid) } else { None }
    }

    /// Makes it a command. From here on, the command has started, whatever becomes of the shell. Returns `None` if it has
    /// not.
    pub(super) fn hand_over(
        self,
        handover: &Handover<'_>,
        message: &Message,
        reaper: &Reaper,
    ) -> Option<HandedOver> {
        let pid = self.pid()?;
        // Otherwise the start of the command fails, and says so.
        accessat(handover.cwd, ".", Access::EXEC_OK, AtFlags::empty()).ok()?;
        // A process closes its descriptors before it can be reaped. So if this succeeds, it has not been reaped.
        message.send(self.socket.as_fd(), handover.stdio, handover.cwd).ok()?;
        Some(HandedOver { pid, mark: self.mark, status: reaper.expect(pid) })
    }
}

/// Opens a process that says that it is a waiting shell. It cannot be a command.
fn opened(pid: Pid, reaper: &Reaper) -> Result<(Pid, OwnedFd), Errno> {
    if reaper.expects(pid) {
        return Err(Errno::PIPE);
    }
    Ok((pid, pidfd_open(pid, PidfdFlags::empty())?))
}

/// Whether a child has neither ended nor been stopped. Commands have the same user, so they can do both to it.
fn runs(process: BorrowedFd<'_>) -> bool {
    let looked =
        WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::PidFd(process), looked), Ok(None))
}
