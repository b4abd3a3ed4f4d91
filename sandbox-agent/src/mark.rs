//! Marks the processes of a command with a number that they inherit.
//!
//! The number is the soft limit of RLIMIT_LOCKS, which the kernel has not enforced since 2.4.25 (getrlimit(2)). The
//! agent sets its own limit before each start. The new process inherits it from its first moment, and keeps it across
//! fork, exec, setsid and a cleared environment. The kernel shows the limit in /proc/<pid>/limits to every process,
//! even for a process that is not dumpable. A process loses its mark only if it changes this limit on purpose. On a
//! kernel without the limit (gVisor) processes have no mark.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The last mark that was given.
static LAST: AtomicU64 = AtomicU64::new(0);

/// The mark of one command or terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Mark(u64);

impl Mark {
    /// Sets a new mark for the next process that this program starts. Returns `None` if the system does not support
    /// marks. Must be called on the thread that starts processes.
    pub(crate) fn next() -> Option<Self> {
        let mark = Self::reserve();
        let maximum = getrlimit(Resource::Locks).maximum;
        setrlimit(Resource::Locks, Rlimit { current: Some(mark.0), maximum }).ok()?;
        Some(mark)
    }

    /// Returns a new mark for a process that sets it itself.
    pub(crate) fn reserve() -> Self {
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The value of the limit.
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// Returns the mark of the process `pid`.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        parse(&fs::read(format!("/proc/{pid}/limits")).ok()?)
    }
}

/// Parses the soft limit from the line `Max file locks` (proc_pid_limits(5)).
fn parse(limits: &[u8]) -> Option<Mark> {
    let line = limits.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Max file locks"))?;
    let soft = std::str::from_utf8(line).ok()?.split_ascii_whitespace().next()?;
    soft.parse().ok().map(Mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_the_soft_limit() {
        let limits = |soft: &str| {
            format!(
                "Limit  Soft Limit  Hard Limit  Units\nMax file locks            {soft}   unlimited   locks\n"
            )
        };
        assert_eq!(parse(limits("17").as_bytes()), Some(Mark(17)));
        assert_eq!(parse(limits("unlimited").as_bytes()), None);
        assert_eq!(parse(b"Max cpu time 1 2 seconds\n"), None);
    }

    #[test]
    fn a_child_inherits_the_mark() {
        let mark = Mark::next().unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(Mark::of(child.id().cast_signed()), Some(mark));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
