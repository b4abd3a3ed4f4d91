//! The kernel's out-of-memory killer: it should choose commands before the agent, and the agent detects its kills.
//!
//! A command inherits its score from its first moment, so the agent raises its own score while it starts a command.
//! The agent can lower its score again to the score that its container was given, and no further. The raised score is
//! still below that of running commands. Otherwise the agent would be killed first if each of them is smaller than
//! the agent. A thread that may write below /proc raises the score of the new command at once (see
//! [`crate::proc_protection`]). No start waits for it. A command can therefore fork children that have the lower
//! score. The thread looks for them and raises theirs too. Otherwise the killer would choose a small shell before
//! its large children.
//!
//! The cgroup's own files are masked in a sandbox. Only the kernel's count of such kills on the whole machine is
//! available. An increase is therefore only a suspicion. It counts if the command also died of a SIGKILL that the agent
//! did not send. sandboxd confirms or drops the suspicion according to the engine's report about this sandbox.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{LazyLock, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::{Errno, read, write};
use rustix::process::Pid;

/// Score of a command (proc_pid_oom_score_adj(5)). Commands are killed first.
const COMMAND_SCORE: &str = "1000";

/// Score of the agent while it starts a command. Each point weighs as much as a thousandth of the sandbox's memory.
/// The difference to the score of commands therefore outweighs the agent's own memory.
const STARTING_SCORE: &str = "900";

/// Number of attempts to set a command's score, and the first pause. The kernel lets the agent continue a moment
/// before the file belongs to the command's user. The file of a process that has ended but is not reaped belongs to
/// root. Each pause is twice the one before, about 800 ms in total, because a busy machine makes the moment long.
const TRIES: u32 = 14;
/// See [`TRIES`].
const RETRY: Duration = Duration::from_micros(50);

/// The agent's own score, and the file that changes it.
#[derive(Debug)]
struct OwnScore {
    file: File,
    usual: String,
}

static OWN_SCORE: OnceLock<OwnScore> = OnceLock::new();

/// Pauses between the looks for the children of a process, after it got its score. A fork that began before may show
/// its child only later, on a busy machine much later.
const LOOKS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(200)];

/// Maximum length of a list of children. Each takes a decimal number and a space.
const CHILDREN_BYTES: usize = 4 * 1024;

/// Channel to the thread that raises scores.
static TO_RAISE: OnceLock<SyncSender<Process>> = OnceLock::new();

/// Maximum number of processes that wait for their score. Beyond that, the newest keeps the agent's raised score.
const MAX_TO_RAISE: usize = 256;

/// A process's number and its directory below /proc. An open directory never refers to another process, even after
/// the number is reused.
#[derive(Debug)]
struct Process {
    pid: i32,
    dir: OwnedFd,
}

impl Process {
    /// Opens a process. Returns `None` if it has ended or there is no free descriptor.
    fn open(pid: i32) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = open(format!("/proc/{pid}"), flags, Mode::empty()).ok()?;
        Some(Self { pid, dir })
    }

    /// Sets its score to that of commands.
    fn raise(&self) -> Raised {
        match openat(&self.dir, "oom_score_adj", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
            Ok(score) => {
                let mut now = [0; 16];
                let length = read(&score, &mut now).unwrap_or_default();
                if now[..length].trim_ascii() == COMMAND_SCORE.as_bytes() {
                    return Raised::Before;
                }
                // The process may end meanwhile.
                let _ = write(score, COMMAND_SCORE.as_bytes());
                Raised::Now
            }
            Err(Errno::ACCESS) => Raised::NotYet,
            Err(_) => Raised::Ended,
        }
    }

    /// The children that its first thread has forked (proc_tid_children(5)). Empty if the kernel does not list them.
    fn children(&self) -> Vec<i32> {
        let list = format!("task/{0}/children", self.pid);
        let Ok(list) = openat(&self.dir, list, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
            return Vec::new();
        };
        let mut text = [0; CHILDREN_BYTES];
        let length = read(list, &mut text).unwrap_or_default();
        // The last number of a full buffer may be cut off.
        let whole = text[..length].iter().rposition(|byte| *byte == b' ').unwrap_or_default();
        let numbers = str::from_utf8(&text[..whole]).unwrap_or_default();
        numbers.split(' ').filter_map(|pid| pid.parse().ok()).collect()
    }
}

/// What an attempt to raise a score found.
enum Raised {
    /// The score was lower. The process may have forked children with the lower score.
    Now,
    /// The process was forked with the score of commands, and so were its children.
    Before,
    /// The file does not belong to the process's user, now or permanently.
    NotYet,
    /// A process that has ended needs no score.
    Ended,
}

/// Opens the agent's own score. Must come before the agent becomes undumpable, which makes its /proc files
/// inaccessible to itself. A kernel without the file (gVisor) has no OOM killer.
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

/// Starts the thread that raises scores. Must come before the agent enters its Landlock domain, which would apply to
/// the thread too.
pub(crate) fn start_raising() -> io::Result<()> {
    if OWN_SCORE.get().is_none() {
        return Ok(());
    }
    let (sender, to_raise) = sync_channel(MAX_TO_RAISE);
    thread::Builder::new()
        .name("scores".into())
        .stack_size(RAISER_STACK_BYTES)
        .spawn(move || raise_all(&to_raise))?;
    // Set once, because the agent starts once.
    let _ = TO_RAISE.set(sender);
    Ok(())
}

/// More than enough for writing a file.
const RAISER_STACK_BYTES: usize = 64 * 1024;

/// A process that is checked again.
struct Waiting {
    process: Process,
    tries: u32,
    /// Number of looks for its children, once it has its score.
    looks: Option<usize>,
    next: Instant,
}

impl Waiting {
    fn new(process: Process) -> Self {
        Self { process, tries: 0, looks: None, next: Instant::now() }
    }

    /// Raises the process's score, then looks for its children. Returns when to look again.
    fn look(&mut self, found: &mut Vec<i32>) -> Option<Duration> {
        if let Some(looks) = &mut self.looks {
            found.extend(self.process.children());
            *looks += 1;
            return LOOKS.get(*looks).copied();
        }
        let pause = RETRY * 2_u32.pow(self.tries);
        self.tries += 1;
        match self.process.raise() {
            Raised::Now => {
                self.looks = Some(0);
                found.extend(self.process.children());
                Some(LOOKS[0])
            }
            Raised::NotYet => (self.tries < TRIES).then_some(pause),
            Raised::Before | Raised::Ended => None,
        }
    }
}

/// Raises the score of each received process and of the children it has forked meanwhile, and retries those for which
/// it was too early. No process waits for another. Returns when the channel is closed.
fn raise_all(to_raise: &Receiver<Process>) {
    let mut waiting: Vec<Waiting> = Vec::new();
    let mut found = Vec::new();
    loop {
        let next = waiting.iter().map(|waiting| waiting.next).min();
        let received = match next {
            Some(next) => to_raise.recv_timeout(next.saturating_duration_since(Instant::now())),
            None => to_raise.recv().map_err(RecvTimeoutError::from),
        };
        match received {
            Ok(process) if waiting.len() < MAX_TO_RAISE => waiting.push(Waiting::new(process)),
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        waiting.retain_mut(|waiting| {
            if waiting.next > now {
                return true;
            }
            let pause = waiting.look(&mut found);
            waiting.next = now + pause.unwrap_or_default();
            pause.is_some()
        });
        let free = MAX_TO_RAISE - waiting.len();
        waiting.extend(found.drain(..).filter_map(Process::open).take(free).map(Waiting::new));
    }
}

/// Starts a process and queues it for the score of commands. A process keeps the agent's raised score if its own user
/// may not read its program, or if there is no free descriptor. The process must not be reaped before this returns,
/// so that its number stays valid.
pub(crate) fn start_as_oom_candidate<E>(start: impl FnOnce() -> Result<Pid, E>) -> Result<Pid, E> {
    let Some(own) = OWN_SCORE.get() else {
        return start();
    };
    let score = if TO_RAISE.get().is_some() { STARTING_SCORE } else { COMMAND_SCORE };
    // Raising needs no privilege. Lowering is allowed down to what root set, which is the usual score.
    let _ = own.file.write_at(score.as_bytes(), 0);
    let started = start();
    let _ = own.file.write_at(own.usual.as_bytes(), 0);
    if let Ok(pid) = started {
        raise(pid);
    }
    started
}

/// The score that a started process will have soon, if there is a thread that raises it.
pub(crate) fn raised_score() -> Option<&'static str> {
    TO_RAISE.get().map(|_| COMMAND_SCORE)
}

/// Queues a process for the score of commands. It must not be reaped before this returns.
fn raise(pid: Pid) {
    if let Some(to_raise) = TO_RAISE.get()
        && let Some(process) = Process::open(pid.as_raw_nonzero().get())
    {
        let _ = to_raise.try_send(process);
    }
}

/// More than /proc/vmstat has on any kernel, so that one read returns all of it.
const VMSTAT_BYTES: usize = 16 * 1024;

/// Returns the kernel's count of out-of-memory kills: `oom_kill` in /proc/vmstat (proc_vmstat(5)). `None` if the
/// kernel does not count them.
pub(crate) fn kills_so_far() -> Option<u64> {
    // Kept open because every command reads it.
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
    fn the_count_is_found_among_other_lines() {
        assert_eq!(parse("pgfault 9\noom_kill 3\noom_kill_other 7\n"), Some(3));
        assert_eq!(parse("pgfault 9\n"), None);
    }
}
