//! Memory of processes, from proc_pid_status(5).

use std::fs;

/// Current resident memory of a process.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    status(pid, "VmRSS:")
}

/// The part of it that is not backed by files.
pub(crate) fn anonymous_kib(pid: u32) -> u64 {
    status(pid, "RssAnon:")
}

/// Peak resident memory of a process.
pub(crate) fn peak_kib(pid: u32) -> u64 {
    status(pid, "VmHWM:")
}

/// The parent process.
pub(crate) fn parent(pid: u32) -> u32 {
    status(pid, "PPid:") as u32
}

fn status(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
