//! The kernel's out-of-memory killer: whom it takes first, and whether it struck while a command ran.
//!
//! Commands go before the agent. A command inherits its score with its first moment, so the agent takes the
//! commands' score on while it starts one; it may go back to the score its container was given, and no lower.
//!
//! The cgroup's own files are masked in a sandbox. What remains is the kernel's count of all such kills on the
//! machine, so the answer is a suspicion that needs the command's own end (SIGKILL that nobody here sent)
//! beside it, and which sandboxd confirms or drops by what the engine tells of this sandbox.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{LazyLock, OnceLock};

/// Score of a command (proc_pid_oom_score_adj(5)): the first to go.
const COMMAND_SCORE: &str = "1000";

/// The agent's own score and the file to change it with.
#[derive(Debug)]
struct OwnScore {
    file: File,
    usual: String,
}

static OWN_SCORE: OnceLock<OwnScore> = OnceLock::new();

/// Opens the agent's own score. Must come before the agent hides, which closes its /proc files to itself. A
/// kernel without the file (gVisor) has no such killer.
pub(crate) fn open_own_score() {
    let open = || {
        let file = File::options().read(true).write(true).open("/proc/self/oom_score_adj").ok()?;
        let mut usual = [0; 16];
        let length = file.read_at(&mut usual, 0).ok()?;
        Some(OwnScore { file, usual: String::from_utf8_lossy(&usual[..length]).trim().to_owned() })
    };
    if let Some(score) = open() {
        // Set once, because the agent starts once.
        let _ = OWN_SCORE.set(score);
    }
}

/// Runs `start` with the commands' score.
pub(crate) fn as_first_to_go<T>(start: impl FnOnce() -> T) -> T {
    let Some(own) = OWN_SCORE.get() else {
        return start();
    };
    // Raising needs no right. Going back is granted down to what root set, which the usual score is.
    let _ = own.file.write_at(COMMAND_SCORE.as_bytes(), 0);
    let started = start();
    let _ = own.file.write_at(own.usual.as_bytes(), 0);
    started
}

/// More than /proc/vmstat has on any kernel, so that one read brings all of it.
const VMSTAT_BYTES: usize = 16 * 1024;

/// The kernel's count of out-of-memory kills, `oom_kill` in /proc/vmstat (proc_vmstat(5)); `None` on a
/// kernel that does not count.
pub(crate) fn kills_so_far() -> Option<u64> {
    // Kept open because this is asked for every command.
    static VMSTAT: LazyLock<Option<File>> = LazyLock::new(|| File::open("/proc/vmstat").ok());
    let mut text = [0; VMSTAT_BYTES];
    let length = VMSTAT.as_ref()?.read_at(&mut text, 0).ok()?;
    parse(std::str::from_utf8(&text[..length]).ok()?)
}

fn parse(vmstat: &str) -> Option<u64> {
    let line = vmstat.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_among_its_neighbours() {
        assert_eq!(parse("pgfault 9\noom_kill 3\noom_kill_other 7\n"), Some(3));
        assert_eq!(parse("pgfault 9\n"), None);
    }
}
