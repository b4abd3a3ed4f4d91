//! Commands that may not write to the workspace.
//!
//! A process can only restrict itself (Landlock, landlock(7)). The agent therefore starts its own program again. That
//! process gives up writing, permanently and for all its descendants, and then becomes the command. It reports
//! failures over a socket that closes when it becomes the command. Over the same socket it passes on what announces
//! attempts to write ([`crate::write_attempts`]).
//!
//! The domain forbids every way to change the contents of the workspace, links into it and moves out of it. It also
//! forbids tracing or signalling processes outside the domain, which might write on the command's behalf. It does not
//! forbid changing modes, times and extended attributes, because the kernel has no such right. Before Linux 7.1 it
//! does not forbid using a helper that was started earlier and listens on a socket in the file system. Reading and
//! executing are not restricted.

use std::error::Error as StdError;
use std::ffi::{CString, OsString};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr,
    Scope,
};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, send, sendmsg, socketpair,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

use crate::write_attempts::{self, Listener};

/// First argument of the agent's program that makes it become a read-only command.
pub(crate) const SUBCOMMAND: &str = "read-only";

/// The agent's program, wherever it is mounted. A process may always follow its own link.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Directories that a command may write to, besides the directory of caches and temporary files beside the workspace.
/// None of them is on the workspace's file system.
const WRITABLE: [&str; 5] = ["/tmp", "/var/tmp", "/dev", "/run", "/proc"];

/// Name of the directory beside the workspace (`LOCAL_DIR` of sandboxd's layout).
const LOCAL_NAME: &str = ".local";

/// The oldest Landlock version that covers all ways to write. It added truncating (Linux 6.2).
const NEEDED: ABI = ABI::V3;

/// Maximum time from the start of a process until it is the command.
const START: Duration = Duration::from_secs(10);

/// A message about a failure: what failed, and the errno in little-endian order. The end of the socket without one means
/// success.
const FAILURE_BYTES: usize = 5;
const FAILED_TO_RESTRICT: u8 = 1;
const FAILED_TO_EXEC: u8 = 2;

/// A message with this byte alone carries the descriptor that receives the announcements of attempts to write.
const ANNOUNCEMENTS: [u8; 1] = [3];

/// The socket over which a process reports before it becomes a command.
#[derive(Debug)]
pub(crate) struct Report {
    ours: OwnedFd,
    child_end: OwnedFd,
}

/// The agent's end of a [`Report`].
#[derive(Debug)]
pub(crate) struct ReportReceiver(AsyncFd<OwnedFd>);

impl Report {
    pub(crate) fn new() -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (ours, child_end) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        Ok(Self { ours, child_end })
    }

    /// Returns the descriptor that the new process must keep open.
    pub(crate) fn child_end(&self) -> &OwnedFd {
        &self.child_end
    }

    /// Returns the program and the arguments that become `program` with `argv`.
    pub(crate) fn self_exec(
        &self,
        workspace: &Path,
        program: PathBuf,
        argv: Vec<String>,
    ) -> (PathBuf, Vec<OsString>) {
        let number = self.child_end.as_raw_fd().to_string();
        let own = ["sandbox-agent", SUBCOMMAND, &number].map(OsString::from);
        let arguments = own.into_iter().chain([workspace.into(), program.into_os_string()]);
        (OWN_PROGRAM.into(), arguments.chain(argv.into_iter().map(Into::into)).collect())
    }

    /// Returns the agent's end, once the process has its own.
    #[expect(unsafe_code, reason = "tokio cannot know that a type keeps its descriptor")]
    pub(crate) fn into_receiver(self) -> io::Result<ReportReceiver> {
        // SAFETY: the descriptor is the same and open as long as the value exists.
        let registered = unsafe { AsyncFd::register_with_interest(self.ours, Interest::READABLE) }?;
        Ok(ReportReceiver(registered))
    }
}

/// A message of a process before it becomes a command.
enum Message {
    Announcements(OwnedFd),
    Failure(u8, Errno),
    End,
}

impl ReportReceiver {
    async fn receive(&self) -> io::Result<Message> {
        self.0.async_io(Interest::READABLE, receive_now).await
    }
}

/// Receives a message. Anything else counts as the end.
fn receive_now(socket: &OwnedFd) -> io::Result<Message> {
    let mut encoded = [0; FAILURE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut encoded)];
    let length = recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let received = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(match (&encoded[..length], received) {
        ([step, a, b, c, d], _) => {
            Message::Failure(*step, Errno::from_raw_os_error(i32::from_le_bytes([*a, *b, *c, *d])))
        }
        (announcements, Some(descriptor)) if announcements == ANNOUNCEMENTS => {
            Message::Announcements(descriptor)
        }
        _ => Message::End,
    })
}

/// Waits until the process has become the command. `program` is the name that the caller knows. Returns what announces its
/// attempts to write, if the kernel can do that.
pub(crate) async fn wait_until_started(
    report: ReportReceiver,
    pid: Pid,
    program: &str,
) -> Result<Option<Listener>, Kind> {
    match timeout(START, read_report(&report)).await {
        Ok(Ok((listener, None))) => Ok(listener),
        Ok(Ok((_, Some((FAILED_TO_RESTRICT, errno))))) => {
            Err(Kind::ReadOnlyUnavailable(v1::ReadOnlyUnavailable { errno: errno.raw_os_error() }))
        }
        Ok(Ok((_, Some((_, errno))))) => Err(start_failed("exec", errno, program)),
        Ok(Err(_)) | Err(_) => {
            // Another process of the sandbox has stopped it. It must not become the command after the caller got an
            // error.
            let _ = kill_process(pid, Signal::KILL);
            Err(start_failed(SUBCOMMAND, Errno::TIMEDOUT, program))
        }
    }
}

/// Reads until the process became the command, or was killed before. The supervisor reports that end.
async fn read_report(report: &ReportReceiver) -> io::Result<(Option<Listener>, Option<(u8, Errno)>)> {
    let mut listener = None;
    loop {
        match report.receive().await? {
            Message::Announcements(descriptor) => listener = Some(Listener::new(descriptor)?),
            Message::Failure(step, errno) => return Ok((listener, Some((step, errno)))),
            Message::End => return Ok((listener, None)),
        }
    }
}

fn start_failed(step: &str, errno: Errno, subject: &str) -> Kind {
    Kind::StartFailed(v1::StartFailed {
        step: step.into(),
        errno: errno.raw_os_error(),
        subject: subject.into(),
    })
}

/// Becomes a command, from the arguments after [`SUBCOMMAND`]. Returns only on failure.
pub(crate) fn become_command(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let number = arguments.next().and_then(|number| number.to_str()?.parse().ok());
    let (Some(number), Some(workspace), Some(program)) = (number, arguments.next(), arguments.next()) else {
        return ExitCode::FAILURE;
    };
    let Ok(report) = take(number) else {
        return ExitCode::FAILURE;
    };
    let (step, errno) = match restrict_writing(Path::new(&workspace)) {
        Err(error) => (FAILED_TO_RESTRICT, errno_of(error.as_ref())),
        Ok(()) => {
            announce_writes(&report);
            (FAILED_TO_EXEC, exec(program, arguments))
        }
    };
    let mut encoded = vec![step];
    encoded.extend(errno.raw_os_error().to_le_bytes());
    // If the agent does not read the report, it does not wait for it.
    let _ = send(&report, &encoded, SendFlags::NOSIGNAL);
    ExitCode::FAILURE
}

/// Makes the kernel announce attempts to write to the agent. Without that, the command works the same.
fn announce_writes(report: &OwnedFd) {
    let Ok(listener) = write_attempts::install() else { return };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [listener.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    // If the agent is gone, the kernel ends this process too.
    let _ = sendmsg(report, &[IoSlice::new(&ANNOUNCEMENTS)], &mut ancillary, SendFlags::NOSIGNAL);
}

/// Takes ownership of the descriptor with this number. The command will not inherit it.
#[expect(unsafe_code, reason = "a descriptor that was handed over as a number")]
pub(crate) fn take(number: RawFd) -> io::Result<OwnedFd> {
    if number <= libc::STDERR_FILENO {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the process that started this one passed the descriptor with its number, and nothing else in this
    // process has opened or used it. If the descriptor is not open, the next call fails and closes nothing.
    let report = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(&report, FdFlags::CLOEXEC)?;
    Ok(report)
}

fn restrict_writing(workspace: &Path) -> Result<(), Box<dyn StdError>> {
    let writing = AccessFs::from_write(NEEDED);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(writing)?
        // Also forbids indirect ways, if the kernel supports it.
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::ResolveUnix)?
        .scope(Scope::from_all(ABI::V6))?
        .create()?;
    let local = workspace.parent().map(|above| above.join(LOCAL_NAME));
    for dir in WRITABLE.iter().map(PathBuf::from).chain(local) {
        // No link is followed, because an earlier command may have created one.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match open(&dir, flags, Mode::empty()) {
            Ok(dir) => ruleset = ruleset.add_rule(PathBeneath::new(dir.as_fd(), writing))?,
            // An image without this directory needs no rule for it.
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => {}
            Err(errno) => return Err(io::Error::from(errno).into()),
        }
    }
    ruleset.restrict_self()?;
    Ok(())
}

/// Returns the system error that caused `error`. Without one the kernel lacks a feature.
fn errno_of(error: &(dyn StdError + 'static)) -> Errno {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(errno) = error.downcast_ref().and_then(Errno::from_io_error) {
            return errno;
        }
        cause = error.source();
    }
    Errno::OPNOTSUPP
}

/// Becomes the program, with this process's environment. Returns the error if that fails. std's own exec would run a
/// file without a magic number in a shell. The agent does not do that for other commands either.
#[expect(
    unsafe_code,
    reason = "std's exec is execvp(3), and no crate wraps the system call for a whole environment"
)]
fn exec(program: OsString, argv: impl Iterator<Item = OsString>) -> Errno {
    let c_string = |text: OsString| CString::new(text.into_vec());
    let (Ok(program), Ok(argv)) = (c_string(program), argv.map(c_string).collect::<Result<Vec<_>, _>>())
    else {
        return Errno::INVAL;
    };
    let mut pointers: Vec<_> = argv.iter().map(|text| text.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: the strings end with NUL and outlive the calls, and the array ends with a null pointer. `environ` belongs
    // to this process, which has one thread and does not change it. The signal is reset because std ignores SIGPIPE
    // before main, and the command must not inherit that.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::execve(program.as_ptr(), pointers.as_ptr(), libc::environ.cast());
    }
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[tokio::test]
    async fn a_report_is_read_and_a_closed_socket_is_success() {
        for (encoded, wanted) in [
            (&[][..], Ok(())),
            (&[FAILED_TO_EXEC, 2, 0, 0, 0], Err(start_failed("exec", Errno::NOENT, "program"))),
            (
                &[FAILED_TO_RESTRICT, 38, 0, 0, 0],
                Err(Kind::ReadOnlyUnavailable(v1::ReadOnlyUnavailable { errno: 38 })),
            ),
        ] {
            let report = Report::new().unwrap();
            if !encoded.is_empty() {
                send(&report.child_end, encoded, SendFlags::empty()).unwrap();
            }
            let receiver = report.into_receiver().unwrap();
            assert_eq!(wait_until_started(receiver, Pid::INIT, "program").await.map(drop), wanted);
        }
    }

    #[test]
    fn self_exec_becomes_the_command() {
        let report = Report::new().unwrap();
        let argv = ["bash", "-c", "true"].map(String::from).to_vec();
        let (_, arguments) = report.self_exec(Path::new("/w"), "/bin/bash".into(), argv);
        let words: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
        assert_eq!(
            (words[1], &words[3..]),
            (OsStr::new(SUBCOMMAND), &["/w", "/bin/bash", "bash", "-c", "true"].map(OsStr::new)[..])
        );
    }
}
