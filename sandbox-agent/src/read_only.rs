//! Commands that may not write to the workspace.
//!
//! A thread can only restrict itself and what it starts (Landlock, landlock(7)), permanently. Each such command is
//! therefore started by a thread of its own, which gives up writing, starts the command and ends. The same thread makes
//! the kernel announce the command's attempts to write ([`crate::write_attempts`]).
//!
//! The domain forbids every way to change the contents of the workspace, links into it and moves out of it. It also
//! forbids tracing or signalling processes outside the domain, which might write on the command's behalf. It does not
//! forbid changing modes, times and extended attributes, because the kernel has no such right. Before Linux 7.1 it
//! does not forbid using a helper that was started earlier and listens on a socket in the file system. Reading and
//! executing are not restricted.

use std::error::Error as StdError;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr,
    Scope,
};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::Pid;

use crate::posix_spawn::Child;
use crate::write_attempts;

/// Directories that a command may write to, besides the directory of caches and temporary files beside the workspace.
/// None of them is on the workspace's file system.
const WRITABLE: [&str; 5] = ["/tmp", "/var/tmp", "/dev", "/run", "/proc"];

/// Name of the directory beside the workspace (`LOCAL_DIR` of sandboxd's layout).
const LOCAL_NAME: &str = ".local";

/// The oldest Landlock version that covers all ways to write. It added truncating (Linux 6.2).
const NEEDED: ABI = ABI::V3;

/// Why a process did not start.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The kernel cannot restrict it, or refused to.
    Restriction(Errno),
    /// What posix_spawn(3) reports, or the creation of the thread.
    Start(io::Error),
}

/// Starts a process that may not write below `workspace`. Returns it with the descriptor that receives the announcements of
/// its attempts, if the kernel can announce them. While that descriptor is open, each attempt waits for its answer.
///
/// The caller waits for the thread, which must not do anything that is announced, because the caller cannot answer meanwhile.
pub(crate) fn spawn(workspace: &Path, child: &Child<'_>) -> Result<(Pid, Option<OwnedFd>), Failure> {
    thread::scope(|scope| {
        let restricted = thread::Builder::new().spawn_scoped(scope, || {
            restrict_writing(workspace).map_err(|error| Failure::Restriction(errno_of(error.as_ref())))?;
            // Without announcements, the command works the same.
            let announcements = write_attempts::install().ok();
            let pid = child.spawn().map_err(Failure::Start)?;
            Ok((pid, announcements))
        });
        let ended = restricted.map_err(Failure::Start)?.join();
        ended.unwrap_or_else(|_| Err(Failure::Start(io::ErrorKind::Other.into())))
    })
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

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::sync::{Arc, OnceLock};

    use rustix::process::{WaitOptions, waitpid};
    use tokio::task::spawn_blocking;

    use super::*;
    use crate::posix_spawn::Stdio;
    use crate::write_attempts::Listener;

    fn run(program: &str, workspace: &Path, script: &str) -> Result<(Pid, Option<OwnedFd>), Failure> {
        let null = open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        // Above the numbers of the standard streams, whatever the test has open.
        let null = rustix::io::fcntl_dupfd_cloexec(null, 3).unwrap();
        let cwd = open(workspace, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let c_string = |text: &str| CString::new(text).unwrap();
        let child = Child {
            program: c_string(program),
            argv: ["sh", "-c", script].map(c_string).to_vec(),
            envp: Vec::new(),
            cwd: cwd.as_fd(),
            stdio: Stdio::Descriptors([null.as_fd(); 3]),
            keep: Vec::new(),
        };
        spawn(workspace, &child)
    }

    #[tokio::test]
    async fn the_process_cannot_write_and_this_one_can() {
        // Not in /tmp, where such a process may write.
        let dir = tempfile::tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let (pid, announcements) = run("/bin/sh", dir.path(), "true </etc/passwd && ! true >new").unwrap();
        let first = Arc::new(OnceLock::new());
        let listener = Listener::new(announcements.unwrap()).unwrap();
        let served = listener.serve(Arc::clone(&first), dir.path().to_owned());
        let ended = spawn_blocking(move || waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap().1);
        let ((), status) = tokio::join!(served, ended);
        assert_eq!(status.unwrap().exit_status(), Some(0));
        assert!(first.get().unwrap().path.ends_with("new"), "{first:?}");
        assert!(fs::read_dir(dir.path()).unwrap().next().is_none());
        fs::write(dir.path().join("new"), "x").unwrap();
    }

    #[test]
    fn a_program_that_cannot_be_executed_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let failure = run("/does/not/exist", dir.path(), "").unwrap_err();
        assert!(matches!(failure, Failure::Start(error) if error.kind() == io::ErrorKind::NotFound));
    }
}
