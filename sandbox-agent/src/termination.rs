//! Ends the processes of a command.
//!
//! Sends a first signal to the process group and to members outside it. After a grace period it sends SIGKILL
//! repeatedly until no member is found. If the first pass was not enough, or the sandbox is crowded, all processes
//! are stopped during a pass. If processes fork faster than they are found, it sends SIGKILL to every process of the
//! sandbox at once. Only PID 1 can do that, and no fork escapes it. That last step is reported, because it ends other
//! commands too. An end is reported only after it has happened. If even the last step takes too long, sandboxd
//! removes the container. All waiting is polling, because processes that are not children of the agent cannot be
//! waited for.

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
use tokio::time::{Instant, sleep};

use crate::members::{self, Owner};

/// Time from the first signal to SIGKILL.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// Number of processes that a command may start after the first signal, to clean up. One that starts more is a fork
/// bomb, and its grace period ends.
const MAX_NEWCOMERS: usize = 64;

/// How long SIGKILL is repeated before the whole sandbox is swept.
const KILL_PASSES: Duration = Duration::from_millis(500);

const POLL_FIRST: Duration = Duration::from_millis(1);
const POLL_MAX: Duration = Duration::from_millis(25);

/// Which processes were ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Only the command's own processes.
    CommandOnly,
    /// Every process of the sandbox.
    WholeSandbox,
}

/// A command or terminal whose processes can be looked up repeatedly.
pub(crate) trait Target {
    /// Returns what currently identifies its processes.
    fn owner(&self) -> Owner<'_>;
}

/// Ends `target`, with `first` as the first signal. Returns when no process of it is left, however long that takes.
pub(crate) async fn end(target: &impl Target, first: Signal) -> Reach {
    {
        let _frozen = Frozen::if_crowded();
        signal_members(target.owner(), first);
    }
    let grace = if first == Signal::KILL { Duration::ZERO } else { GRACE };
    if ends_in_grace(target, grace).await {
        return Reach::CommandOnly;
    }
    let mut passes = 0;
    let killed = holds_within(KILL_PASSES, || {
        passes += 1;
        // A process that the first pass did not find was forked meanwhile.
        let _frozen = if passes > 1 { Frozen::now() } else { Frozen::if_crowded() };
        signal_members(target.owner(), Signal::KILL) == 0
    });
    if killed.await {
        return Reach::CommandOnly;
    }
    sweep(target).await;
    Reach::WholeSandbox
}

/// Whether all processes of `target` end by themselves within `grace`.
async fn ends_in_grace(target: &impl Target, grace: Duration) -> bool {
    let mut known: HashSet<Pid> = HashSet::new();
    let mut newcomers_allowed = None;
    let mut is_over = false;
    holds_within(grace, || {
        if members::is_crowded() {
            // Reading all of them would take a starved agent longer than the grace period.
            return false;
        }
        let members = members::of(target.owner());
        known.extend(members.iter().map(|member| member.pid));
        let allowed = *newcomers_allowed.get_or_insert(known.len() + MAX_NEWCOMERS);
        is_over = members.is_empty();
        is_over || known.len() > allowed
    })
    .await;
    is_over
}

/// Keeps every process of the sandbox except the agent stopped. A stopped process cannot fork, so a scan finds all of
/// them, and hundreds of busy processes leave the processors to the agent.
#[derive(Debug)]
pub(crate) struct Frozen;

impl Frozen {
    /// Stops all processes, atomically against fork. Returns `None` outside a sandbox.
    pub(crate) fn now() -> Option<Self> {
        // This is kill(-1), as in a sweep. Outside a sandbox it would affect every process of the user.
        let is_sandbox = getpid() == Pid::INIT;
        is_sandbox.then(|| {
            let _ = kill_process_group(Pid::INIT, Signal::STOP);
            Self
        })
    }

    fn if_crowded() -> Option<Self> {
        if members::is_crowded() { Self::now() } else { None }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::INIT, Signal::CONT);
    }
}

/// Signals the group, then the members outside it. Returns the number of members.
pub(crate) fn signal_members(owner: Owner<'_>, signal: Signal) -> usize {
    let members = members::of(owner);
    if members.iter().any(|member| member.in_group) {
        // Atomic against fork, unlike the loop below. It does not matter if the group has ended meanwhile.
        let _ = kill_process_group(owner.main, signal);
    }
    for member in members.iter().filter(|member| !member.in_group) {
        let _ = kill_process(member.pid, signal);
    }
    members.len()
}

/// Kills `processes` and waits until they are gone, for at most [`KILL_PASSES`].
pub(crate) async fn kill_all(mut find: impl FnMut() -> Vec<Pid>) {
    holds_within(KILL_PASSES, || {
        let _frozen = Frozen::if_crowded();
        let processes = find();
        for process in &processes {
            let _ = kill_process(*process, Signal::KILL);
        }
        processes.is_empty()
    })
    .await;
}

/// Kills every process of the sandbox except the agent.
async fn sweep(target: &impl Target) {
    let mut pause = POLL_FIRST;
    loop {
        let is_gone = if getpid() == Pid::INIT {
            // kill(-1), which rustix expresses as the group of PID 1. ESRCH means that there was no process.
            kill_process_group(Pid::INIT, Signal::KILL).is_err() || !members::any_left()
        } else {
            // Outside a sandbox that call would affect every process of the user.
            signal_members(target.owner(), Signal::KILL) == 0
        };
        if is_gone {
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(POLL_MAX);
    }
}

async fn holds_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    let mut pause = POLL_FIRST;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        sleep(pause).await;
        pause = (pause * 2).min(POLL_MAX);
    }
}
