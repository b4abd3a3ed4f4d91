//! Turns a start request into a running process.
//!
//! Owns the fork: a command gets its own session and process group, pipes for its output, and the agent's
//! environment without the agent's secrets. Refuses with the step that failed and its errno, because a
//! command that never ran has no exit code. The surprise: a script longer than one argument may be is
//! handed over in memory that only bash reads.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agent_protocol::v1;
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::{Pid, fchdir, setsid};
use tokio::net::unix::pipe;

use crate::environment;

/// Names the command a process belongs to, in the environment of that process.
pub(crate) const COMMAND_ID_VARIABLE: &str = "SANDBOX_COMMAND_ID";

/// Longest script passed as an argument. The kernel's MAX_ARG_STRLEN is 128 KiB with the final NUL.
const MAX_ARGUMENT_BYTES: usize = 128 * 1024 - 1;

/// Output pipe size: above the kernel's 64 KiB to wake up less often, and small enough that 250 commands
/// stay within the 64 MiB of pipes one user may have (pipe(7), pipe-user-pages-soft).
const PIPE_BYTES: usize = 128 * 1024;

/// Makes a command the first to go when the sandbox's memory is full. The agent itself must survive.
const OOM_SCORE_OF_COMMANDS: &[u8] = b"1000";

/// A started command and our ends of its pipes.
#[derive(Debug)]
pub(crate) struct Spawned {
    pub(crate) pid: Pid,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
    pub(crate) stdin: Option<pipe::Sender>,
}

/// What a command is started from.
#[derive(Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) command_id: &'a str,
    pub(crate) argv: &'a [String],
    pub(crate) cwd: &'a Path,
    pub(crate) env: &'a std::collections::HashMap<String, String>,
    pub(crate) with_stdin: bool,
}

/// The argv that runs `script`.
pub(crate) fn argv_of_script(script: &str) -> Vec<String> {
    vec!["bash".into(), "-c".into(), script.into()]
}

/// Starts the command. Must be called on the thread that runs the reaper, which must learn of the
/// process before it next waits.
pub(crate) fn spawn(launch: &Launch<'_>) -> Result<Spawned, v1::StartFailed> {
    let cwd = open_cwd(launch.cwd)?;
    let (argv, script_file) = fit_arguments(launch.argv)?;
    let (program, args) =
        argv.split_first().ok_or_else(|| failed("exec", "", io::Error::from(Errno::INVAL)))?;

    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(environment::for_commands())
        .envs(launch.env)
        .env(COMMAND_ID_VARIABLE, launch.command_id)
        .stdin(if launch.with_stdin { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    enter_own_session(&mut command, cwd);

    let mut child = command.spawn().map_err(|error| {
        let step = if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) { "fork" } else { "exec" };
        failed(step, program, error)
    })?;
    drop(script_file);
    let pid = Pid::from_child(&child);
    prefer_for_oom(pid);
    let stdout = child.stdout.take().map(OwnedFd::from);
    let stderr = child.stderr.take().map(OwnedFd::from);
    let stdin = child.stdin.take().map(OwnedFd::from);
    let pipes = || -> io::Result<Spawned> {
        Ok(Spawned {
            pid,
            stdout: receiver(stdout)?,
            stderr: receiver(stderr)?,
            stdin: stdin.map(pipe::Sender::from_owned_fd).transpose()?,
        })
    };
    pipes().map_err(|error| {
        // Without its pipes nobody could follow it; the reaper collects it as an orphan.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        failed("stdin", program, error)
    })
}

fn open_cwd(cwd: &Path) -> Result<OwnedFd, v1::StartFailed> {
    open(cwd, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| failed("cwd", cwd, errno.into()))
}

#[expect(unsafe_code, reason = "pre_exec is how std lets the child enter its own session")]
fn enter_own_session(command: &mut Command, cwd: OwnedFd) {
    let enter = move || -> io::Result<()> {
        setsid()?;
        fchdir(&cwd)?;
        Ok(())
    };
    // SAFETY: the closure runs between fork and exec and makes two system calls, both async-signal-safe;
    // it neither allocates nor takes a lock.
    unsafe { command.pre_exec(enter) };
}

/// Moves a bash script that is too long for one argument into a file in memory. The caller keeps the
/// file open until the child has its own copy.
fn fit_arguments(argv: &[String]) -> Result<(Vec<OsString>, Option<OwnedFd>), v1::StartFailed> {
    let plain = || argv.iter().map(OsString::from).collect();
    let Some(at) = script_position(argv) else {
        return Ok((plain(), None));
    };
    let spool = || -> io::Result<OwnedFd> {
        let file = memfd_create("script", MemfdFlags::CLOEXEC)?;
        let mut file = std::fs::File::from(file);
        file.write_all(argv[at].as_bytes())?;
        // The child must inherit it. Nothing else is forked before it is closed again.
        fcntl_setfd(&file, FdFlags::empty())?;
        Ok(file.into())
    };
    let file = spool().map_err(|error| failed("script", "memory file", error))?;
    let number = file.as_raw_fd();
    let mut fitted: Vec<OsString> = plain();
    // Both the file and the variable are gone before the first line of the script itself runs.
    fitted[at] = format!(
        "__sandbox_script=$(</proc/self/fd/{number}); exec {number}<&-; \
         eval \"unset __sandbox_script; $__sandbox_script\""
    )
    .into();
    Ok((fitted, Some(file)))
}

/// Where in `argv` the over-long script of a `bash -c` or `bash -lc` is.
fn script_position(argv: &[String]) -> Option<usize> {
    let is_bash = Path::new(argv.first()?).file_name()? == "bash";
    let at = 1 + argv.iter().skip(1).position(|arg| arg == "-c" || arg == "-lc")? + 1;
    (is_bash && argv.get(at)?.len() >= MAX_ARGUMENT_BYTES).then_some(at)
}

fn prefer_for_oom(pid: Pid) {
    // Written from here because the child of a non-dumpable process may not open its own /proc files.
    // A kernel without the file (gVisor) has no such killer to prefer it for.
    let path = PathBuf::from(format!("/proc/{}/oom_score_adj", pid.as_raw_nonzero()));
    let _ = std::fs::write(path, OOM_SCORE_OF_COMMANDS);
}

fn receiver(fd: Option<OwnedFd>) -> io::Result<pipe::Receiver> {
    let fd = fd.ok_or_else(|| io::Error::from(Errno::BADF))?;
    // Past the user's pipe budget the kernel refuses; the standard size works too.
    let _ = fcntl_setpipe_size(&fd, PIPE_BYTES);
    pipe::Receiver::from_owned_fd(fd)
}

fn failed(step: &str, subject: impl AsRef<OsStr>, error: io::Error) -> v1::StartFailed {
    v1::StartFailed {
        step: step.into(),
        errno: error.raw_os_error().unwrap_or(0),
        subject: subject.as_ref().to_string_lossy().into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn only_an_over_long_bash_script_is_moved() {
        let long = "x".repeat(MAX_ARGUMENT_BYTES);
        assert_eq!(script_position(&argv(&["bash", "-c", &long])), Some(2));
        assert_eq!(script_position(&argv(&["/bin/bash", "-lc", &long])), Some(2));
        assert_eq!(script_position(&argv(&["bash", "-c", "true"])), None);
        assert_eq!(script_position(&argv(&["python3", "-c", &long])), None);
        assert_eq!(script_position(&argv(&["bash", "-c"])), None);
    }
}
