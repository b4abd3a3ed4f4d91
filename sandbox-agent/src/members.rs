//! Finds the processes that belong to a command.
//!
//! Reads /proc, which is the commands' own word in places: a process is a member when it is in the
//! command's session or group, descends from a member, or carries the command's id in its environment. A
//! process that sheds all of these has no owner; only a sweep of the whole sandbox ends it.

use std::collections::{HashMap, HashSet};
use std::fs;

use rustix::process::Pid;

use crate::spawn::COMMAND_ID_VARIABLE;

/// One process as /proc/<pid>/stat shows it (proc_pid_stat(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    ended: bool,
}

/// What identifies a command among processes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner<'a> {
    pub(crate) command_id: &'a str,
    pub(crate) main: Pid,
    /// The main process has been waited for, so its number may belong to another by now.
    pub(crate) main_collected: bool,
}

/// A process of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) pid: Pid,
    /// Whether a signal to the command's group reaches it.
    pub(crate) in_group: bool,
}

/// The living processes of `owner`.
pub(crate) fn of(owner: Owner<'_>) -> Vec<Member> {
    let processes = list();
    let main = main_number(owner, &processes);
    let mark = format!("{COMMAND_ID_VARIABLE}={}", owner.command_id);
    let is_root = |process: &Process| {
        main.is_some_and(|main| [process.pid, process.group, process.session].contains(&main))
            || has_mark(process.pid, mark.as_bytes())
    };
    let roots = processes.iter().filter(|p| is_root(p)).map(|p| p.pid).collect();
    let members = with_descendants(&processes, roots);
    let member = |process: &Process| {
        Some(Member { pid: Pid::from_raw(process.pid)?, in_group: main == Some(process.group) })
    };
    processes.iter().filter(|p| members.contains(&p.pid)).filter_map(member).collect()
}

/// The number that still means the command's session and group. The kernel gives a number away again
/// only when no process, group or session has it, so a living process with the number of a collected
/// main process says that nothing of the old session is left.
fn main_number(owner: Owner<'_>, processes: &[Process]) -> Option<i32> {
    let main = owner.main.as_raw_nonzero().get();
    let given_away = owner.main_collected && processes.iter().any(|process| process.pid == main);
    (!given_away).then_some(main)
}

/// Whether any process but the agent and the engine's own lives in the sandbox.
pub(crate) fn any_left() -> bool {
    let me = rustix::process::getuid();
    list().iter().any(|process| process.pid != 1 && owner_of(process.pid) == Some(me.as_raw()))
}

fn owner_of(pid: i32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(format!("/proc/{pid}")).ok().map(|meta| meta.uid())
}

fn list() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != 1)
        .filter_map(|pid| parse(pid, &fs::read(format!("/proc/{pid}/stat")).ok()?))
        .filter(|process| !process.ended)
        .collect()
}

fn parse(pid: i32, stat: &[u8]) -> Option<Process> {
    // The name stands in parentheses and may itself hold any byte, so the last one closes it.
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(close + 2..)?).ok()?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    let mut number = || fields.next()?.parse::<i32>().ok();
    Some(Process {
        pid,
        parent: number()?,
        group: number()?,
        session: number()?,
        ended: matches!(state, "Z" | "X"),
    })
}

fn has_mark(pid: i32, mark: &[u8]) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry == mark))
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
        Process { pid, parent, group: pid, session: pid, ended: false }
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = b"42 (a) S 1 (b) R 7 8 9 0 -1";
        assert_eq!(parse(42, stat), Some(Process { pid: 42, parent: 7, group: 8, session: 9, ended: false }));
        assert_eq!(parse(42, b"42 (a"), None);
        assert!(parse(42, b"42 (a) Z 1 42 42 0").is_some_and(|p| p.ended));
    }

    #[test]
    fn descendants_belong_and_strangers_do_not() {
        let processes = [process(10, 1), process(11, 10), process(12, 11), process(20, 1)];
        let members = with_descendants(&processes, HashSet::from([10]));
        assert_eq!(members, HashSet::from([10, 11, 12]));
    }
}
