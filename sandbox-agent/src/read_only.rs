//! Commands that may not write to the workspace.
//!
//! A process can only restrict itself (Landlock, landlock(7)). The agent therefore starts its own program again. That
//! process gives up writing, permanently and for all its descendants, and then becomes the command. It reports
//! failures over a pipe that closes when it becomes the command.
//!
//! The domain forbids every way to change the contents of the workspace, links into it and moves out of it. It also
//! forbids tracing or signalling processes outside the domain, which might write on the command's behalf. It does not
//! forbid changing modes, times and extended attributes, because the kernel has no such right. Before Linux 7.1 it
//! does not forbid using a helper that was started earlier and listens on a socket in the file system. Reading and
//! executing are not restricted.

use std::error::Error as StdError;
use std::ffi::{CString, OsString};
use std::io::{self, Write};
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
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::timeout;

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

/// A report: what failed, and the errno in little-endian order. An empty report means success.
const REPORT_BYTES: usize = 5;
const FAILED_TO_RESTRICT: u8 = 1;
const FAILED_TO_EXEC: u8 = 2;

/// The pipe over which a process reports before it becomes a command.
#[derive(Debug)]
pub(crate) struct Report {
    ours: OwnedFd,
    child_end: OwnedFd,
}

impl Report {
    pub(crate) fn new() -> Result<Self, Errno> {
        let (ours, child_end) = pipe_with(PipeFlags::CLOEXEC)?;
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
    pub(crate) fn into_receiver(self) -> io::Result<pipe::Receiver> {
        pipe::Receiver::from_owned_fd(self.ours)
    }
}

/// Waits until the process has become the command. `program` is the name that the caller knows.
pub(crate) async fn wait_until_started(
    mut report: pipe::Receiver,
    pid: Pid,
    program: &str,
) -> Result<(), Kind> {
    let mut encoded = Vec::with_capacity(REPORT_BYTES);
    let mut report = (&mut report).take(REPORT_BYTES as u64);
    if !matches!(timeout(START, report.read_to_end(&mut encoded)).await, Ok(Ok(_))) {
        // Another process of the sandbox has stopped it. It must not become the command after the caller got an
        // error.
        let _ = kill_process(pid, Signal::KILL);
        return Err(start_failed(SUBCOMMAND, Errno::TIMEDOUT, program));
    }
    match encoded[..] {
        [step, a, b, c, d] => {
            let errno = i32::from_le_bytes([a, b, c, d]);
            match step {
                FAILED_TO_RESTRICT => Err(Kind::ReadOnlyUnavailable(v1::ReadOnlyUnavailable { errno })),
                _ => Err(start_failed("exec", Errno::from_raw_os_error(errno), program)),
            }
        }
        // It became the command, or it was killed before. The supervisor reports that end.
        _ => Ok(()),
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
        Ok(()) => (FAILED_TO_EXEC, exec(program, arguments)),
    };
    let mut encoded = vec![step];
    encoded.extend(errno.raw_os_error().to_le_bytes());
    // If the agent does not read the report, it does not wait for it.
    let _ = std::fs::File::from(report).write_all(&encoded);
    ExitCode::FAILURE
}

/// Takes ownership of the pipe's end with this number. The command will not inherit it.
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
    async fn a_report_is_read_and_a_closed_pipe_is_success() {
        for (encoded, wanted) in [
            (&[][..], Ok(())),
            (&[FAILED_TO_EXEC, 2, 0, 0, 0], Err(start_failed("exec", Errno::NOENT, "program"))),
            (
                &[FAILED_TO_RESTRICT, 38, 0, 0, 0],
                Err(Kind::ReadOnlyUnavailable(v1::ReadOnlyUnavailable { errno: 38 })),
            ),
        ] {
            let Report { ours, child_end } = Report::new().unwrap();
            std::fs::File::from(child_end).write_all(encoded).unwrap();
            let receiver = pipe::Receiver::from_owned_fd(ours).unwrap();
            assert_eq!(wait_until_started(receiver, Pid::INIT, "program").await, wanted);
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
