//! The bash that all waiting shells of a sandbox are copies of.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags, fcntl_add_seals, memfd_create, open};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};

use super::message::{ARGUMENTS, request_shell};
use super::shell::{Handover, WaitingShell};
use crate::mark::Mark;
use crate::oom;
use crate::posix_spawn::{Child, Stdio};

/// The library that makes a template of bash.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));

/// Its own name, an option, and what it would run without the library. ps(1) shows it.
const ARGV: [&str; ARGUMENTS] = ["bash", "-c", "# waits for the next command"];

/// Variable with the libraries that are loaded before all others (ld.so(8)).
const PRELOAD: &str = "LD_PRELOAD";

/// Beginnings of the names of variables that have an effect before a shell waits: those of the dynamic linker, of memory
/// allocation and of locales (ld.so(8), mallopt(3), locale(7)).
const EARLY: [&str; 9] =
    ["LD_", "GLIBC_", "MALLOC_", "LC_", "LANG", "LOCPATH", "NLSPATH", "OUTPUT_CHARSET", "TEXTDOMAIN"];

/// A bash that forks waiting shells.
#[derive(Debug)]
pub(super) struct Template {
    program: PathBuf,
    early: BTreeMap<OsString, OsString>,
    pid: Pid,
    process: OwnedFd,
    /// The template ends when it is closed.
    socket: OwnedFd,
}

impl Template {
    /// Starts `program`, a bash, with what matters of this environment.
    pub(super) fn start(
        program: PathBuf,
        environment: impl Iterator<Item = (OsString, OsString)>,
    ) -> io::Result<Self> {
        let library = library()?;
        // The kernel names a process after the file that it was started from. Nothing is to find a bash here, and the library
        // can change the name only after a moment.
        let bash = open(&program, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let (socket, of_template) = pair()?;
        let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let root = open("/", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let early: BTreeMap<_, _> = environment.filter(|(name, _)| is_early(name)).collect();
        if early.contains_key(OsStr::new(PRELOAD)) {
            return Err(io::Error::other("commands have a library of their own"));
        }
        let own = [
            (PRELOAD, path_of(&library)),
            ("SANDBOX_AGENT_SHELL_SOCKET", of_template.as_raw_fd().to_string()),
            ("SANDBOX_AGENT_SHELL_LIBRARY", library.as_raw_fd().to_string()),
        ];
        let score = oom::raised_score().map(|score| ("SANDBOX_AGENT_SHELL_SCORE", score.to_owned()));
        let own = own.into_iter().chain(score);
        let own = own.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let entries = early.clone().into_iter().chain(own);
        let child = Child {
            program: CString::new(path_of(&bash))?,
            argv: ARGV.map(|argument| CString::new(argument).expect("has no NUL")).into(),
            envp: entries.map(|entry| CString::new(entry_of(entry))).collect::<Result<_, _>>()?,
            cwd: root.as_fd(),
            stdio: Stdio::Descriptors([null.as_fd(); 3]),
            keep: vec![of_template.as_fd(), library.as_fd()],
        };
        // Of its own, so that it is not taken for a process of the last command. A kernel without marks needs none.
        let _ = Mark::next();
        let pid = oom::start_as_oom_candidate(|| child.spawn())?;
        // It cannot be reaped before this returns.
        let process = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| {
            let _ = kill_process(pid, Signal::KILL);
        })?;
        Ok(Self { program, early, pid, process, socket })
    }

    /// Asks for a waiting shell.
    pub(super) fn fork(&self) -> Result<WaitingShell, Errno> {
        let (socket, of_shell) = pair()?;
        set_socket_passcred(&socket, true)?;
        let mark = Mark::reserve();
        request_shell(self.socket.as_fd(), mark.number(), of_shell.as_fd())?;
        Ok(WaitingShell::new(socket, mark))
    }

    /// Its process.
    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// Whether a command would be the same in a shell that was started with it.
    pub(super) fn suits(&self, handover: &Handover<'_>) -> bool {
        let entries = handover.envp.iter().map(|entry| entry.to_bytes());
        let early = entries.filter(|entry| is_early(OsStr::from_bytes(entry)));
        let own = self.early.clone().into_iter().map(entry_of);
        handover.program.to_bytes() == self.program.as_os_str().as_bytes() && early.eq(own)
    }
}

impl Drop for Template {
    /// It ends by itself, unless it is stopped.
    fn drop(&mut self) {
        let _ = pidfd_send_signal(&self.process, Signal::KILL);
    }
}

/// The library in a file in memory. So it is always that of this agent, and the sandbox needs no further file.
fn library() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = std::fs::File::from(memfd_create("waiting-shell", flags)?);
    file.write_all(LIBRARY)?;
    // Commands could write to it otherwise, because the template has their user.
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.into())
}

/// The path at which a process finds the file of one of its descriptors.
fn path_of(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

fn entry_of((mut name, value): (OsString, OsString)) -> Vec<u8> {
    name.push("=");
    name.push(value);
    name.into_vec()
}

/// Whether an entry of the environment, or the name of one, has an effect before a shell waits.
fn is_early(entry: &OsStr) -> bool {
    EARLY.iter().any(|name| entry.as_bytes().starts_with(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that only some versions of the C library have would keep the library from being loaded in others.
    #[test]
    fn the_library_needs_no_version_of_the_c_library() {
        for name in ["__isoc23", "_chk", "GLIBC_", "libc.so"] {
            let has = LIBRARY.windows(name.len()).any(|part| part == name.as_bytes());
            assert!(!has, "{name}");
        }
    }
}
