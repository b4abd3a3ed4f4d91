//! Tells whether the kernel's out-of-memory killer struck while a command ran.
//!
//! The engine does not report it for processes other than PID 1, and the cgroup's own files are masked in a
//! sandbox. What remains is the kernel's count of all such kills on the machine, so the answer is a
//! suspicion that needs the command's own end (SIGKILL that nobody here sent) beside it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::LazyLock;

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
