//! The kernel's out-of-memory killer: whom it takes first, and whether it struck while a command ran.
//!
//! Commands go before the agent. A command inherits its score with its first moment, so the agent takes a higher
//! score on while it starts one; it may go back to the score its container was given, and no lower. That score is
//! still below the one of commands that run, or the agent would go first where each of them is smaller than it is.
//! The new command is raised to theirs at once, by a thread that may write below /proc (see [`crate::own_domain`]) and
//! that no start waits for.
//! A process that is forked before that keeps the score between.
//!
//! The cgroup's own files are masked in a sandbox. What remains is the kernel's count of all such kills on the
//! machine, so the answer is a suspicion that needs the command's own end (SIGKILL that nobody here sent)
//! beside it, and which sandboxd confirms or drops by what the engine tells of this sandbox.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{LazyLock, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::{Errno, write};
use rustix::process::Pid;

/// Score of a command (proc_pid_oom_score_adj(5)): the first to go.
const COMMAND_SCORE: &str = "1000";

/// Score of the agent while it starts one. Each step of it weighs as much as a thousandth of the sandbox's memory, and
/// the difference to the score of commands far more than the agent's own memory.
const STARTING_SCORE: &str = "900";

/// How often, and after how long, a command's score is tried to be set again: the kernel lets the agent go on a moment
/// before the file is the command's, and that of a process that has ended and is not collected belongs to root. Each
/// pause is twice the one before, and all of them about 50 ms.
const TRIES: u32 = 10;
/// See [`TRIES`].
const RETRY: Duration = Duration::from_micros(50);

/// The agent's own score and the file to change it with.
#[derive(Debug)]
struct OwnScore {
    file: File,
    usual: String,
}

static OWN_SCORE: OnceLock<OwnScore> = OnceLock::new();

/// What the thread that raises scores is given: the directories of processes below /proc. One that is open never means
/// another process, also after its number is given to one.
static TO_RAISE: OnceLock<SyncSender<OwnedFd>> = OnceLock::new();

/// Most processes that wait for their score. Where there are more, the newest keeps the score between.
const MAX_TO_RAISE: usize = 64;

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

/// Starts the thread that raises scores. Must come before the agent enters its domain, which would hold for it too.
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

/// A process whose score could not be raised yet.
struct Waiting {
    process: OwnedFd,
    tries: u32,
    next: Instant,
}

/// Raises the score of each process that comes, and again of those for which it was too early: no process waits for
/// another. Returns when no more can come.
fn raise_all(to_raise: &Receiver<OwnedFd>) {
    let mut waiting: Vec<Waiting> = Vec::new();
    loop {
        let next = waiting.iter().map(|waiting| waiting.next).min();
        let come = match next {
            Some(next) => to_raise.recv_timeout(next.saturating_duration_since(Instant::now())),
            None => to_raise.recv().map_err(RecvTimeoutError::from),
        };
        match come {
            Ok(process) if waiting.len() < MAX_TO_RAISE => {
                waiting.push(Waiting { process, tries: 0, next: Instant::now() });
            }
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        waiting.retain_mut(|waiting| {
            if waiting.next > now {
                return true;
            }
            waiting.next = now + RETRY * 2_u32.pow(waiting.tries);
            waiting.tries += 1;
            !raise(&waiting.process) && waiting.tries < TRIES
        });
    }
}

/// Gives a process the commands' score; false where its file is not its user's, now or for good. One that has ended needs
/// no score.
fn raise(process: &OwnedFd) -> bool {
    match openat(process, "oom_score_adj", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(score) => {
            // It may end meanwhile.
            let _ = write(score, COMMAND_SCORE.as_bytes());
            true
        }
        Err(error) => error != Errno::ACCESS,
    }
}

/// Starts a process that gets the commands' score soon. A program that hides from its own user (one that it may not read),
/// and one that is started without a free descriptor, keeps the score between. The process must not be waited for before
/// this returns, so that its number is its own.
pub(crate) fn as_first_to_go(start: impl FnOnce() -> io::Result<Pid>) -> io::Result<Pid> {
    let Some(own) = OWN_SCORE.get() else {
        return start();
    };
    let to_raise = TO_RAISE.get();
    let score = if to_raise.is_some() { STARTING_SCORE } else { COMMAND_SCORE };
    // Raising needs no right. Going back is granted down to what root set, which the usual score is.
    let _ = own.file.write_at(score.as_bytes(), 0);
    let started = start();
    let _ = own.file.write_at(own.usual.as_bytes(), 0);
    if let (Some(to_raise), Ok(process)) = (to_raise, &started) {
        let path = format!("/proc/{}", process.as_raw_nonzero());
        if let Ok(dir) = open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            let _ = to_raise.try_send(dir);
        }
    }
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
