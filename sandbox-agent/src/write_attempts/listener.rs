//! Receives the announcements of one command and its children.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use agent_protocol::v1::ReadOnlyViolation;
use libc::{seccomp_notif, seccomp_notif_resp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::unix::AsyncFd;
use tokio::task::spawn_blocking;

use super::attempt;
use super::refusal::refusal;

/// The agent's end of the announcements. While it exists, announced calls wait until they are allowed to continue. After
/// it is dropped they fail with `ENOSYS`.
#[derive(Debug)]
pub(crate) struct Listener(AsyncFd<Arc<OwnedFd>>);

impl Listener {
    #[expect(unsafe_code, reason = "tokio cannot know that a type keeps its descriptor")]
    pub(crate) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        // SAFETY: the descriptor is the same and open as long as the value exists.
        unsafe { AsyncFd::register(Arc::new(descriptor)) }.map(Self).map_err(io::Error::from)
    }

    /// Serves the announcements until the last process with the filter has ended. Notes the first refused write in
    /// `first`, as long as the command exists, which shares it.
    pub(crate) async fn serve(self, first: Arc<OnceLock<ReadOnlyViolation>>, workspace: PathBuf) {
        let workspace: Arc<Path> = workspace.into();
        while let Ok(mut ready) = self.0.readable().await {
            let descriptor = self.0.get_ref();
            let is_known = first.get().is_some() || Arc::strong_count(&first) == 1;
            let state = match state_of(descriptor) {
                State::Announced if is_known => answer(descriptor, &|_| {}),
                State::Announced => note_first(Arc::clone(descriptor), &first, Arc::clone(&workspace)).await,
                state => state,
            };
            match state {
                State::Idle => ready.clear_ready(),
                State::Announced => {}
                State::Over => return,
            }
        }
    }
}

/// What a listener has to report.
#[derive(Debug)]
enum State {
    Idle,
    Announced,
    Over,
}

/// Receiving would wait if there is no announcement, so this is asked each time.
fn state_of(descriptor: &OwnedFd) -> State {
    let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
    if poll(&mut polled, Some(&Timespec::default())).is_err() {
        return State::Idle;
    }
    match polled[0].revents() {
        events if events.contains(PollFlags::IN) => State::Announced,
        events if events.intersects(PollFlags::HUP | PollFlags::ERR) => State::Over,
        _ => State::Idle,
    }
}

/// Answers one announcement, and notes it if the write will be refused. Paths are resolved on another thread, because the
/// disk may be slow.
async fn note_first(
    descriptor: Arc<OwnedFd>,
    first: &Arc<OnceLock<ReadOnlyViolation>>,
    workspace: Arc<Path>,
) -> State {
    let first = Arc::clone(first);
    let look = move || {
        answer(&descriptor, &|announced| {
            if let Some(violation) = violation_of(announced, &workspace, &descriptor) {
                let _ = first.set(violation);
            }
        })
    };
    spawn_blocking(look).await.unwrap_or(State::Announced)
}

fn violation_of(
    announced: &seccomp_notif,
    workspace: &Path,
    descriptor: &OwnedFd,
) -> Option<ReadOnlyViolation> {
    let memory = File::open(format!("/proc/{}/mem", announced.pid)).ok()?;
    let attempt = attempt::read(announced, &memory)?;
    let violation = refusal(&attempt, announced.pid, workspace)?;
    // Otherwise the number may have become another process's.
    is_waiting(descriptor, announced.id).then_some(violation)
}

/// Receives an announcement, lets `look` see it, and lets the call continue. Returns [`State::Over`] if nothing can be
/// received from this descriptor.
#[expect(unsafe_code, reason = "no crate wraps seccomp's listeners")]
fn answer(descriptor: &OwnedFd, look: &dyn Fn(&seccomp_notif)) -> State {
    let number = descriptor.as_raw_fd();
    // SAFETY: all bytes may be zero, and the kernel requires that they are.
    let mut announced: seccomp_notif = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes at most this structure, whose size is part of the request's number.
    if unsafe { libc::ioctl(number, libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut announced) } != 0 {
        // The process was killed meanwhile (`ENOENT`), or a signal came. Anything else comes only from another kind of file.
        let is_usual = matches!(io::Error::last_os_error().raw_os_error(), Some(libc::ENOENT | libc::EINTR));
        return if is_usual { State::Announced } else { State::Over };
    }
    look(&announced);
    let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
    let mut answer = seccomp_notif_resp { id: announced.id, val: 0, error: 0, flags };
    // SAFETY: the kernel only reads the structure. The call fails if the process was killed meanwhile.
    unsafe { libc::ioctl(number, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer) };
    State::Announced
}

/// Whether the announced call still waits for its answer.
#[expect(unsafe_code, reason = "no crate wraps seccomp's listeners")]
fn is_waiting(descriptor: &OwnedFd, mut id: u64) -> bool {
    // SAFETY: the kernel only reads the number.
    unsafe { libc::ioctl(descriptor.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw mut id) == 0 }
}
