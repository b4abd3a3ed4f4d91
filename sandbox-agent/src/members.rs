//! Finds the processes that belong to a command.
//!
//! A process is a member if it is in the command's session or group, descends from a member, or carries the command's
//! mark. On a kernel without marks, the command's id in its environment counts. This reads /proc, parts of which the
//! commands themselves control. A process that drops all of these on purpose has no owner, and only a sweep of the
//! whole sandbox ends it.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use rustix::process::Pid;

use crate::limits::{CROWD_PROCESSES, MAX_EXAMINED_THREADS};
use crate::mark::Mark;
use crate::spawn::COMMAND_ID_VARIABLE;

/// A process as shown in /proc/<pid>/stat (proc_pid_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    /// Number of its threads that have not ended.
    threads: u32,
    /// Processor time of the process and of the children that it has waited for, in clock ticks.
    cpu_ticks: u64,
}

/// What the processes of a command use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) processes: u32,
    pub(crate) cpu: Duration,
}

/// Identifies the processes of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) command_id: &'a str,
    pub(crate) main: Pid,
    /// The main process was reaped, so its number may belong to another process by now.
    pub(crate) main_collected: bool,
    pub(crate) mark: Option<Mark>,
}

/// A process of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) pid: Pid,
    /// Whether a signal to the command's group reaches it.
    pub(crate) in_group: bool,
}

/// The processes of a sandbox, grouped by whether they belong to a running command.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// Number of threads of processes that belong to a running command.
    pub(crate) owned_threads: u32,
    /// Number of threads of all other processes.
    pub(crate) left_threads: u32,
    pub(crate) left: Vec<Pid>,
}

/// Returns the living processes of `owner`.
pub(crate) fn of(owner: Owner<'_>) -> Vec<Member> {
    let processes = list();
    let main = main_number(owner, &processes);
    let members = with_descendants(&processes, roots(&processes, &[owner]));
    let member = |process: &Process| {
        Some(Member { pid: Pid::from_raw(process.pid)?, in_group: main == Some(process.group) })
    };
    processes.iter().filter(|p| members.contains(&p.pid)).filter_map(member).collect()
}

/// Returns what the living processes of `owner` use.
pub(crate) fn usage(owner: Owner<'_>) -> Usage {
    let processes = list();
    let members = with_descendants(&processes, roots(&processes, &[owner]));
    let members: Vec<&Process> = processes.iter().filter(|process| members.contains(&process.pid)).collect();
    let ticks = members.iter().fold(0, |sum: u64, process| sum.saturating_add(process.cpu_ticks));
    let cpu = Duration::from_millis(ticks.saturating_mul(1000) / clock_ticks_per_second().max(1));
    Usage { processes: u32::try_from(members.len()).unwrap_or(u32::MAX), cpu }
}

/// Groups the processes of the sandbox, except `others`, by whether they belong to one of `running`.
pub(crate) fn shares(running: &[Owner<'_>], others: &[Pid]) -> Shares {
    let processes = list();
    let owned = with_descendants(&processes, roots(&processes, running));
    let me = rustix::process::getuid().as_raw();
    let mut shares = Shares::default();
    for process in processes {
        if owned.contains(&process.pid) {
            shares.owned_threads += process.threads;
        } else if owner_of(process.pid) == Some(me) && !is_among(process.pid, others) {
            shares.left_threads += process.threads;
            shares.left.extend(Pid::from_raw(process.pid));
        }
    }
    shares
}

fn is_among(number: i32, pids: &[Pid]) -> bool {
    pids.iter().any(|pid| pid.as_raw_nonzero().get() == number)
}

/// Returns the processes that belong to one of `owners` by their own attributes.
fn roots(processes: &[Process], owners: &[Owner<'_>]) -> HashSet<i32> {
    let mains: HashSet<i32> = owners.iter().filter_map(|owner| main_number(*owner, processes)).collect();
    let marks: HashSet<Mark> = owners.iter().filter_map(|owner| owner.mark).collect();
    let entries: HashSet<Vec<u8>> = owners
        .iter()
        .map(|owner| format!("{COMMAND_ID_VARIABLE}={}", owner.command_id).into_bytes())
        .collect();
    let is_root = |process: &&Process| {
        [process.pid, process.group, process.session].iter().any(|number| mains.contains(number))
            || match Mark::of(process.pid) {
                Some(mark) if !marks.is_empty() => marks.contains(&mark),
                _ => has_entry(process.pid, &entries),
            }
    };
    processes.iter().filter(is_root).map(|process| process.pid).collect()
}

/// Returns the number of the command's session and group, if it is still valid. The kernel reuses a number only when
/// no process, group or session has it. So if a living process has the number of a reaped main process, nothing of
/// the old session is left.
fn main_number(owner: Owner<'_>, processes: &[Process]) -> Option<i32> {
    let main = owner.main.as_raw_nonzero().get();
    let is_reused = owner.main_collected && processes.iter().any(|process| process.pid == main);
    (!is_reused).then_some(main)
}

/// Whether the sandbox has so many processes that reading each of them takes long.
pub(crate) fn is_crowded() -> bool {
    let is_process =
        |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit);
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().filter(is_process);
    processes.take(CROWD_PROCESSES).count() == CROWD_PROCESSES
}

/// Whether the sandbox has any process other than the agent and those of the engine.
pub(crate) fn any_left() -> bool {
    let me = rustix::process::getuid();
    list().iter().any(|process| owner_of(process.pid) == Some(me.as_raw()))
}

fn owner_of(pid: i32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(format!("/proc/{pid}")).ok().map(|meta| meta.uid())
}

/// Returns the processes that have a living thread, without the agent.
fn list() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != 1)
        .filter_map(|pid| parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?))
        .filter(|process| process.threads > 0)
        .collect()
}

fn parse(pid: i32, stat: &[u8]) -> Option<Process> {
    // The name is in parentheses and may contain any byte, so the last parenthesis closes it.
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(close + 2..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let mut number = || fields.next()?.parse::<i32>().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    // Fields 14 to 17 are the times of the process and of its children, in user and in kernel mode.
    let first_time = fields.nth(7);
    let times =
        first_time.into_iter().chain(fields.by_ref().take(3)).filter_map(|time| time.parse::<u64>().ok());
    let cpu_ticks = times.fold(0, u64::saturating_add);
    // Field 20 counts the threads that are not reaped yet, including the main thread.
    let counted: u32 = fields.nth(2).and_then(|threads| threads.parse().ok()).unwrap_or(1);
    let threads = match state {
        "X" => 0,
        // This is the state of the main thread only. The process lives on if it has other threads.
        "Z" => counted.saturating_sub(1),
        _ => counted,
    };
    Some(Process { pid, parent, group, session, threads, cpu_ticks })
}

/// Whether the environment of a process has one of `entries`. If the main thread has ended, only the other threads
/// show it.
fn has_entry(pid: i32, entries: &HashSet<Vec<u8>>) -> bool {
    let holds = |environ: &[u8]| environ.split(|byte| *byte == 0).any(|entry| entries.contains(entry));
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    if !environ.is_empty() {
        return holds(&environ);
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut threads = threads.take(MAX_EXAMINED_THREADS);
    threads.any(|thread| fs::read(thread.path().join("environ")).is_ok_and(|environ| holds(&environ)))
}

fn with_descendants(processes: &[Process], roots: HashSet<i32>) -> HashSet<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in processes {
        children.entry(process.parent).or_default().push(process.pid);
    }
    let mut members = HashSet::new();
    let mut open: Vec<i32> = roots.into_iter().collect();
    while let Some(pid) = open.pop() {
        if members.insert(pid) {
            open.extend(children.get(&pid).into_iter().flatten());
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32) -> Process {
        Process { pid, parent, group: pid, session: pid, threads: 1, cpu_ticks: 0 }
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = b"42 (a) S 1 (b) R 7 8 9 0 -1";
        let expected = Process { pid: 42, parent: 7, group: 8, session: 9, threads: 1, cpu_ticks: 0 };
        assert_eq!(parse(42, stat), Some(expected));
        assert_eq!(parse(42, b"42 (a"), None);
    }

    #[test]
    fn the_time_of_a_process_includes_its_children() {
        let stat = b"42 (a) R 1 42 42 0 -1 0 0 0 0 0 1 20 300 4000 20 0 1 0";
        let process = parse(42, stat).unwrap();
        assert_eq!((process.cpu_ticks, process.threads), (4321, 1));
    }

    #[test]
    fn a_process_lives_as_long_as_one_of_its_threads() {
        let threads = |state: &str, counted: u32| {
            let stat = format!("42 (a) {state} 1 42 42 0 -1 0 0 0 0 0 0 0 0 0 20 0 {counted} 0");
            parse(42, stat.as_bytes()).map(|process| process.threads)
        };
        assert_eq!(threads("R", 3), Some(3));
        assert_eq!(threads("Z", 1), Some(0));
        assert_eq!(threads("Z", 2), Some(1));
        assert_eq!(threads("X", 1), Some(0));
    }

    #[test]
    fn descendants_are_members_and_other_processes_are_not() {
        let processes = [process(10, 1), process(11, 10), process(12, 11), process(20, 1)];
        let members = with_descendants(&processes, HashSet::from([10]));
        assert_eq!(members, HashSet::from([10, 11, 12]));
    }
}
