//! Commands that may not write to the workspace.
//!
//! A process can only give up its own rights (Landlock, landlock(7)), so the agent does not start the command itself
//! but its own program once more: that gives up writing, for itself and all its descendants and for good, and then
//! becomes the command. How that went it tells over a pipe which the last step closes.
//!
//! What the domain keeps from: every way to change what is in the workspace, links into it and moves out of it, and
//! tracing or signalling processes outside, which might write in the command's stead. What it does not: modes, times
//! and extended attributes, for which the kernel has no such right, and a helper that was there before and listens
//! on a socket of the file system, before Linux 7.1. Reading and executing is not touched.

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

/// First argument of the program where it is to become a command.
pub(crate) const VERB: &str = "read-only";

/// The agent's program, wherever it is mounted. A process may always follow its own link.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Where a command may write besides the directory of caches and temporary files beside the workspace. None of
/// these is in the workspace's file system.
const WRITABLE: [&str; 5] = ["/tmp", "/var/tmp", "/dev", "/run", "/proc"];

/// Name of the directory beside the workspace (`LOCAL_DIR` of sandboxd's layout).
const LOCAL_NAME: &str = ".local";

/// The oldest Landlock that knows all ways to write: with it came truncating (Linux 6.2).
const NEEDED: ABI = ABI::V3;

/// How long a process may take from its start to being the command.
const START: Duration = Duration::from_secs(10);

/// A report: what failed, and the errno, least byte first. Without one everything went well.
const REPORT_BYTES: usize = 5;
const FAILED_TO_RESTRICT: u8 = 1;
const FAILED_TO_EXEC: u8 = 2;

/// The pipe a process on its way to a command reports through.
#[derive(Debug)]
pub(crate) struct Report {
    ours: OwnedFd,
    theirs: OwnedFd,
}

impl Report {
    pub(crate) fn new() -> Result<Self, Errno> {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self { ours, theirs })
    }

    /// What the new process must keep open.
    pub(crate) fn theirs(&self) -> &OwnedFd {
        &self.theirs
    }

    /// The program and the arguments that become `program` with `argv`.
    pub(crate) fn detour(
        &self,
        workspace: &Path,
        program: PathBuf,
        argv: Vec<String>,
    ) -> (PathBuf, Vec<OsString>) {
        let number = self.theirs.as_raw_fd().to_string();
        let own = ["sandbox-agent", VERB, &number].map(OsString::from);
        let arguments = own.into_iter().chain([workspace.into(), program.into_os_string()]);
        (OWN_PROGRAM.into(), arguments.chain(argv.into_iter().map(Into::into)).collect())
    }

    /// Our end, once the process has its own.
    pub(crate) fn into_receiver(self) -> io::Result<pipe::Receiver> {
        pipe::Receiver::from_owned_fd(self.ours)
    }
}

/// Waits until the process is the command. `program` is what the caller knows it by.
pub(crate) async fn has_become(mut report: pipe::Receiver, pid: Pid, program: &str) -> Result<(), Kind> {
    let mut told = Vec::with_capacity(REPORT_BYTES);
    let mut report = (&mut report).take(REPORT_BYTES as u64);
    if !matches!(timeout(START, report.read_to_end(&mut told)).await, Ok(Ok(_))) {
        // Another process of the sandbox has stopped it. It must not become the command after its caller was told
        // that it did not.
        let _ = kill_process(pid, Signal::KILL);
        return Err(start_failed(VERB, Errno::TIMEDOUT, program));
    }
    match told[..] {
        [step, a, b, c, d] => {
            let errno = i32::from_le_bytes([a, b, c, d]);
            match step {
                FAILED_TO_RESTRICT => Err(Kind::ReadOnlyUnavailable(v1::ReadOnlyUnavailable { errno })),
                _ => Err(start_failed("exec", Errno::from_raw_os_error(errno), program)),
            }
        }
        // It became the command, or was killed before, which its end will tell.
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

/// Becomes a command, from the arguments after [`VERB`]. Returns only where it cannot.
pub(crate) fn become_command(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let number = arguments.next().and_then(|number| number.to_str()?.parse().ok());
    let (Some(number), Some(workspace), Some(program)) = (number, arguments.next(), arguments.next()) else {
        return ExitCode::FAILURE;
    };
    let Ok(report) = take(number) else {
        return ExitCode::FAILURE;
    };
    let (step, errno) = match give_up_writing(Path::new(&workspace)) {
        Err(error) => (FAILED_TO_RESTRICT, errno_of(error.as_ref())),
        Ok(()) => (FAILED_TO_EXEC, exec(program, arguments)),
    };
    let mut told = vec![step];
    told.extend(errno.raw_os_error().to_le_bytes());
    // Where nobody hears it, nobody waits for it.
    let _ = std::fs::File::from(report).write_all(&told);
    ExitCode::FAILURE
}

/// The pipe's end under this number, which the command will not inherit.
#[expect(unsafe_code, reason = "a descriptor that was handed over as a number")]
fn take(number: RawFd) -> io::Result<OwnedFd> {
    if number <= libc::STDERR_FILENO {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: whoever started this process with the number handed the descriptor over with it, and nothing else in
    // here has opened or used it. Where there is none, the next call says so, and nothing of ours has the number.
    let report = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(&report, FdFlags::CLOEXEC)?;
    Ok(report)
}

fn give_up_writing(workspace: &Path) -> Result<(), Box<dyn StdError>> {
    let writing = AccessFs::from_write(NEEDED);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(writing)?
        // What closes detours, where the kernel has it.
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::ResolveUnix)?
        .scope(Scope::from_all(ABI::V6))?
        .create()?;
    let local = workspace.parent().map(|above| above.join(LOCAL_NAME));
    for dir in WRITABLE.iter().map(PathBuf::from).chain(local) {
        // No link is followed: a command of before may have put one there.
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match open(&dir, flags, Mode::empty()) {
            Ok(dir) => ruleset = ruleset.add_rule(PathBeneath::new(dir.as_fd(), writing))?,
            // An image without it has nothing to allow.
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => {}
            Err(errno) => return Err(io::Error::from(errno).into()),
        }
    }
    ruleset.restrict_self()?;
    Ok(())
}

/// The system's error beneath `error`; without one the kernel lacks something.
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

/// Becomes the program, with this process's environment; the error that kept it from that. std's own exec would run
/// a file without a magic number by a shell, which a command that may write is not either.
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
    // SAFETY: the strings end with NUL and outlive the calls, the array ends with a null pointer, and `environ` is
    // this process's own, which has one thread and does not change it. std ignores SIGPIPE before main, which the
    // command must not inherit.
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
    async fn a_report_is_heard_and_a_closed_pipe_is_success() {
        for (told, wanted) in [
            (&[][..], Ok(())),
            (&[FAILED_TO_EXEC, 2, 0, 0, 0], Err(start_failed("exec", Errno::NOENT, "program"))),
            (
                &[FAILED_TO_RESTRICT, 38, 0, 0, 0],
                Err(Kind::ReadOnlyUnavailable(v1::ReadOnlyUnavailable { errno: 38 })),
            ),
        ] {
            let Report { ours, theirs } = Report::new().unwrap();
            std::fs::File::from(theirs).write_all(told).unwrap();
            let receiver = pipe::Receiver::from_owned_fd(ours).unwrap();
            assert_eq!(has_become(receiver, Pid::INIT, "program").await, wanted);
        }
    }

    #[test]
    fn the_detour_leads_to_the_command() {
        let report = Report::new().unwrap();
        let argv = ["bash", "-c", "true"].map(String::from).to_vec();
        let (_, arguments) = report.detour(Path::new("/w"), "/bin/bash".into(), argv);
        let words: Vec<&OsStr> = arguments.iter().map(OsString::as_os_str).collect();
        assert_eq!(
            (words[1], &words[3..]),
            (OsStr::new(VERB), &["/w", "/bin/bash", "bash", "-c", "true"].map(OsStr::new)[..])
        );
    }
}
