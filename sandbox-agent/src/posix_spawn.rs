//! posix_spawn(3) with a session of its own and a directory by descriptor, which std's Command lacks.
//!
//! This module exists for speed. std uses fork if a session is requested. fork copies the agent's page tables, which
//! the child then discards. The copy takes a tenth of the time of the shortest command.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use libc::{c_char, c_int, c_short};
use rustix::process::Pid;

/// Parameters of a new process. The kernel copies every field before [`Child::spawn`] returns.
#[derive(Debug)]
pub(crate) struct Child<'a> {
    /// Path of the program. There is no search on PATH.
    pub(crate) program: CString,
    pub(crate) argv: Vec<CString>,
    /// Entries of the form `NAME=value`.
    pub(crate) envp: Vec<CString>,
    pub(crate) cwd: BorrowedFd<'a>,
    pub(crate) stdio: Stdio<'a>,
    /// Other descriptors that the child keeps, under the same numbers.
    pub(crate) keep: Vec<BorrowedFd<'a>>,
}

/// Standard streams of a child.
#[derive(Debug)]
pub(crate) enum Stdio<'a> {
    /// These descriptors. Each must be above 2 in this process.
    Descriptors([BorrowedFd<'a>; 3]),
    /// The terminal at this path, for all three. The first terminal that the leader of a new session opens becomes
    /// its controlling terminal (tty_ioctl(4)). posix_spawn creates the session before it opens anything.
    Terminal(CString),
}

impl Child<'_> {
    /// Starts the process with no signal blocked or ignored. Returns when its program is loaded, or the error that
    /// prevented that.
    #[expect(unsafe_code, reason = "posix_spawn is a C interface and no crate wraps its session flag")]
    pub(crate) fn spawn(&self) -> io::Result<Pid> {
        let actions = FileActions::new(self)?;
        let attributes = Attributes::new()?;
        let (argv, envp) = (pointers(&self.argv), pointers(&self.envp));
        let mut pid = 0;
        // SAFETY: all strings end with NUL (CString), and both arrays with a null pointer. They, the actions and the
        // attributes outlive the call, which keeps none of them.
        check(unsafe {
            libc::posix_spawn(
                &raw mut pid,
                self.program.as_ptr(),
                actions.0.as_ptr(),
                attributes.0.as_ptr(),
                argv.as_ptr(),
                envp.as_ptr(),
            )
        })?;
        Pid::from_raw(pid).ok_or_else(|| io::ErrorKind::Other.into())
    }
}

fn pointers(strings: &[CString]) -> Vec<*mut c_char> {
    strings.iter().map(|string| string.as_ptr().cast_mut()).chain([ptr::null_mut()]).collect()
}

/// Converts the result of functions that return the error instead of setting errno.
fn check(result: c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

struct FileActions(MaybeUninit<libc::posix_spawn_file_actions_t>);

#[expect(unsafe_code, reason = "see Child::spawn")]
impl FileActions {
    fn new(child: &Child<'_>) -> io::Result<Self> {
        let mut raw = MaybeUninit::uninit();
        // SAFETY: init fills the value it is given; on failure it is not used.
        check(unsafe { libc::posix_spawn_file_actions_init(raw.as_mut_ptr()) })?;
        let mut actions = Self(raw);
        match &child.stdio {
            Stdio::Descriptors(descriptors) => {
                for (fd, number) in descriptors.iter().zip(0..) {
                    actions.dup2(fd.as_raw_fd(), number)?;
                }
            }
            Stdio::Terminal(path) => {
                // SAFETY: the value was initialised above, and the path, which ends with NUL, is copied.
                check(unsafe {
                    libc::posix_spawn_file_actions_addopen(
                        actions.0.as_mut_ptr(),
                        0,
                        path.as_ptr(),
                        libc::O_RDWR,
                        0,
                    )
                })?;
                actions.dup2(0, 1)?;
                actions.dup2(0, 2)?;
            }
        }
        for fd in &child.keep {
            // POSIX defines that a dup2 onto itself clears close-on-exec.
            actions.dup2(fd.as_raw_fd(), fd.as_raw_fd())?;
        }
        // SAFETY: the value was initialised above; the descriptor is open for as long as the borrow lives.
        check(unsafe {
            libc::posix_spawn_file_actions_addfchdir_np(actions.0.as_mut_ptr(), child.cwd.as_raw_fd())
        })?;
        Ok(actions)
    }

    fn dup2(&mut self, from: c_int, to: c_int) -> io::Result<()> {
        // SAFETY: the value was initialised in `new`.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(self.0.as_mut_ptr(), from, to) })
    }
}

#[expect(unsafe_code, reason = "see Child::spawn")]
impl Drop for FileActions {
    fn drop(&mut self) {
        // SAFETY: the value was initialised in `new` and is not used after this.
        unsafe { libc::posix_spawn_file_actions_destroy(self.0.as_mut_ptr()) };
    }
}

struct Attributes(MaybeUninit<libc::posix_spawnattr_t>);

#[expect(unsafe_code, reason = "see Child::spawn")]
impl Attributes {
    fn new() -> io::Result<Self> {
        let mut raw = MaybeUninit::uninit();
        let mut signals = MaybeUninit::uninit();
        let flags = libc::POSIX_SPAWN_SETSID
            | libc::POSIX_SPAWN_SETSIGDEF as c_short
            | libc::POSIX_SPAWN_SETSIGMASK as c_short;
        // SAFETY: each value is initialised by its own function before another reads it; the sets are
        // copied into the attributes.
        unsafe {
            check(libc::posix_spawnattr_init(raw.as_mut_ptr()))?;
            let mut attributes = Self(raw);
            let raw = attributes.0.as_mut_ptr();
            libc::sigemptyset(signals.as_mut_ptr());
            check(libc::posix_spawnattr_setsigmask(raw, signals.as_ptr()))?;
            // The agent ignores these signals, but the processes that it starts must not.
            libc::sigfillset(signals.as_mut_ptr());
            check(libc::posix_spawnattr_setsigdefault(raw, signals.as_ptr()))?;
            check(libc::posix_spawnattr_setflags(raw, flags))?;
            Ok(attributes)
        }
    }
}

#[expect(unsafe_code, reason = "see Child::spawn")]
impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: the value was initialised in `new` and is not used after this.
        unsafe { libc::posix_spawnattr_destroy(self.0.as_mut_ptr()) };
    }
}
