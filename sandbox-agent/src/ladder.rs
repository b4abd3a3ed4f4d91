//! The kill ladder: from asking a command to end, to nothing of it being left.
//!
//! A first signal to the group and to members that left it; after a grace period KILL, in passes until none
//! is found; and where processes fork faster than they are found, KILL to every process of the sandbox at
//! once, which only PID 1 can do and no fork outruns. It reports that last rung, because it ends other
//! commands too. Everything is polled: processes that are not our children cannot be waited for.

use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
use tokio::time::{Instant, sleep};

use crate::members::{self, Owner};

/// From the first signal to KILL.
pub(crate) const GRACE: Duration = Duration::from_secs(2);

/// How long KILL is repeated before the whole sandbox is swept.
const KILL_PASSES: Duration = Duration::from_secs(1);

/// How long a sweep may take before sandboxd must end the container.
const SWEEP: Duration = Duration::from_secs(3);

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

/// Ends `target`, beginning with `first`.
pub(crate) async fn end(target: &impl Target, first: Signal) -> Gone {
    signal_members(target.owner(), first);
    let grace = if first == Signal::KILL { Duration::ZERO } else { GRACE };
    if holds_within(grace, || members::of(target.owner()).is_empty()).await {
        return Gone::Alone;
    }
    if holds_within(KILL_PASSES, || signal_members(target.owner(), Signal::KILL) == 0).await {
        return Gone::Alone;
    }
    sweep().await;
    Gone::Swept
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

/// Kills every process of the sandbox but the agent.
pub(crate) async fn sweep() {
    if getpid() != Pid::INIT {
        // Outside a sandbox the same call would mean every process of the user.
        return;
    }
    holds_within(SWEEP, || {
        // kill(-1), which rustix spells as the group of PID 1. ESRCH says that there was none.
        let _ = kill_process_group(Pid::INIT, Signal::KILL);
        !members::any_left()
    })
    .await;
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
