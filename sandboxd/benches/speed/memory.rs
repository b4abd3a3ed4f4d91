//! Memory of processes, from proc_pid_status(5), and their processor time.

use std::fs;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;

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

/// The process of the engine's daemon.
pub(crate) fn engine_pid() -> u32 {
    fs::read_to_string("/var/run/docker.pid").unwrap().trim().parse().unwrap()
}

/// Processor time of a process so far, from proc_pid_stat(5).
pub(crate) fn processor_time(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name, in parentheses, may contain spaces. `utime` and `stime` are the 12th and 13th field after it.
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64)
}

fn status(pid: u32, field: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
