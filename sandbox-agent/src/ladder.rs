//! The kill ladder: from asking a command to end, to nothing of it being left.
//!
//! A first signal to the group and to members that left it; after a grace period KILL, in passes until none
//! is found, between which no process of the sandbox may run if the first pass was not enough or the sandbox is
//! crowded; and where processes fork faster than they are found, KILL to every process of the sandbox at
//! once, which only PID 1 can do and no fork outruns. It reports that last rung, because it ends other
//! commands too. It never reports an end that has not come: where even that rung takes too long, sandboxd ends the
//! container. Everything is polled: processes that are not our children cannot be waited for.

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
use tokio::time::{Instant, sleep};

use crate::members::{self, Owner};

/// From the first signal to KILL.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// Processes that a command may start after the first signal, to clean up. One that starts more is a fork bomb, and
/// its grace period ends.
const MAX_NEWCOMERS: usize = 64;

/// How long KILL is repeated before the whole sandbox is swept.
const KILL_PASSES: Duration = Duration::from_millis(500);

const POLL_FIRST: Duration = Duration::from_millis(1);
const POLL_MAX: Duration = Duration::from_millis(25);

/// Which rung ended the last process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    /// Only the command's own processes were touched.
    Alone,
    /// Every process of the sandbox was killed.
    Swept,
}

/// Something whose processes can be looked up again and again.
pub(crate) trait Target {
    /// How to find its processes now.
    fn owner(&self) -> Owner<'_>;
}

/// Ends `target`, beginning with `first`. Returns when none of its processes is left, however long that takes.
pub(crate) async fn end(target: &impl Target, first: Signal) -> Gone {
    {
        let _frozen = Frozen::if_crowded();
        signal_members(target.owner(), first);
    }
    let grace = if first == Signal::KILL { Duration::ZERO } else { GRACE };
    if ends_in_grace(target, grace).await {
        return Gone::Alone;
    }
    let mut passes = 0;
    let killed = holds_within(KILL_PASSES, || {
        passes += 1;
        // What the first pass did not find had forked meanwhile.
        let _frozen = if passes > 1 { Frozen::now() } else { Frozen::if_crowded() };
        signal_members(target.owner(), Signal::KILL) == 0
    });
    if killed.await {
        return Gone::Alone;
    }
    sweep(target).await;
    Gone::Swept
}

/// Whether all processes of `target` end by themselves within `grace`.
async fn ends_in_grace(target: &impl Target, grace: Duration) -> bool {
    let mut known: HashSet<Pid> = HashSet::new();
    let mut newcomers_allowed = None;
    let mut is_over = false;
    holds_within(grace, || {
        if members::is_crowded() {
            // A look at all of them would take a starved agent longer than the grace period.
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

/// Every process of the sandbox but the agent is stopped for as long as this lives. None can fork, so a look at them
/// finds all, and hundreds of busy ones leave the processors to the agent.
#[derive(Debug)]
struct Frozen;

impl Frozen {
    /// Stops them now, atomically against fork; `None` outside a sandbox.
    fn now() -> Option<Self> {
        // As in a sweep, this is kill(-1), and outside a sandbox it would mean every process of the user.
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

/// Signals the group, then the members outside it; the number of members.
pub(crate) fn signal_members(owner: Owner<'_>, signal: Signal) -> usize {
    let members = members::of(owner);
    if members.iter().any(|member| member.in_group) {
        // Atomic against fork, unlike what follows. A group that is gone by now is what we want.
        let _ = kill_process_group(owner.main, signal);
    }
    for member in members.iter().filter(|member| !member.in_group) {
        let _ = kill_process(member.pid, signal);
    }
    members.len()
}

/// Kills `processes` and waits until they are gone, but for no longer than the passes of a kill take.
pub(crate) async fn kill_left(mut find: impl FnMut() -> Vec<Pid>) {
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

/// Kills every process of the sandbox but the agent.
async fn sweep(target: &impl Target) {
    let mut pause = POLL_FIRST;
    loop {
        let is_gone = if getpid() == Pid::INIT {
            // kill(-1), which rustix spells as the group of PID 1. ESRCH says that there was none.
            kill_process_group(Pid::INIT, Signal::KILL).is_err() || !members::any_left()
        } else {
            // Outside a sandbox that call would mean every process of the user.
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
