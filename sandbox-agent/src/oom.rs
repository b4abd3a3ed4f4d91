//! The kernel's out-of-memory killer: it should choose commands before the agent, and the agent detects its kills.
//!
//! A command inherits its score from its first moment, so the agent raises its own score while it starts a command.
//! The agent can lower its score again to the score that its container was given, and no further. The raised score is
//! still below that of running commands. Otherwise the agent would be killed first if each of them is smaller than
//! the agent. A thread that may write below /proc raises the score of the new command at once (see
//! [`crate::proc_protection`]). No start waits for it. A process that is forked before that keeps the agent's raised
//! score.
//!
//! The cgroup's own files are masked in a sandbox. Only the kernel's count of such kills on the whole machine is
//! available. An increase is therefore only a suspicion. It counts if the command also died of a SIGKILL that the
//! agent did not send. sandboxd confirms or drops it by what the engine reports about this sandbox.

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

/// Score of a command (proc_pid_oom_score_adj(5)). Commands are killed first.
const COMMAND_SCORE: &str = "1000";

/// Score of the agent while it starts a command. Each point weighs as much as a thousandth of the sandbox's memory.
/// The difference to the score of commands therefore outweighs the agent's own memory.
const STARTING_SCORE: &str = "900";

/// Number of attempts to set a command's score, and the first pause. The kernel lets the agent continue a moment
/// before the file belongs to the command's user. The file of a process that has ended but is not reaped belongs to
/// root. Each pause is twice the one before, about 50 ms in total.
const TRIES: u32 = 10;
/// See [`TRIES`].
const RETRY: Duration = Duration::from_micros(50);

/// The agent's own score, and the file that changes it.
#[derive(Debug)]
struct OwnScore {
    file: File,
    usual: String,
}

static OWN_SCORE: OnceLock<OwnScore> = OnceLock::new();

/// Channel to the thread that raises scores. It carries the directories of processes below /proc. An open directory
/// never refers to another process, even after the process number is reused.
static TO_RAISE: OnceLock<SyncSender<OwnedFd>> = OnceLock::new();

/// Maximum number of processes that wait for their score. Beyond that, the newest keeps the agent's raised score.
const MAX_TO_RAISE: usize = 64;

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

/// A process whose score could not be raised yet.
struct Waiting {
    process: OwnedFd,
    tries: u32,
    next: Instant,
}

/// Raises the score of each received process, and retries those for which it was too early. No process waits for
/// another. Returns when the channel is closed.
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

/// Sets a process's score to that of commands. Returns false if the file does not belong to the process's user, now
/// or permanently. A process that has ended needs no score.
fn raise(process: &OwnedFd) -> bool {
    match openat(process, "oom_score_adj", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(score) => {
            // The process may end meanwhile.
            let _ = write(score, COMMAND_SCORE.as_bytes());
            true
        }
        Err(error) => error != Errno::ACCESS,
    }
}

/// Starts a process and queues it for the score of commands. A process keeps the agent's raised score if its own user
/// may not read its program, or if there is no free descriptor. The process must not be reaped before this returns,
/// so that its number stays valid.
pub(crate) fn start_as_oom_candidate(start: impl FnOnce() -> io::Result<Pid>) -> io::Result<Pid> {
    let Some(own) = OWN_SCORE.get() else {
        return start();
    };
    let to_raise = TO_RAISE.get();
    let score = if to_raise.is_some() { STARTING_SCORE } else { COMMAND_SCORE };
    // Raising needs no privilege. Lowering is allowed down to what root set, which is the usual score.
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
