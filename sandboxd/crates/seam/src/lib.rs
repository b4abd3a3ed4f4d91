//! Places between intent, act and outcome where a test ends the daemon as a power cut would.
//!
//! Compiled in with the feature `seams` and otherwise nothing: `SANDBOXD_SEAM=park.act` kills the process the
//! first time it comes to that place, `SANDBOXD_SEAM=park.act:3` the third time. `SANDBOXD_SEAM_FILE` names a
//! file that says the same and is looked at in each place, so that a daemon that runs can be given a seam.

/// Every seam there is, for tests to go through, in the order in which they are come to.
pub const ALL: [&str; 22] = [
    "marker.made",
    "epoch.intent",
    "epoch.act",
    "epoch.outcome",
    "create.disk",
    "create.intent",
    "start.attached",
    "start.created",
    "start.started",
    "create.act",
    "create.outcome",
    "park.intent",
    "park.act",
    "park.outcome",
    "wake.intent",
    "wake.act",
    "wake.outcome",
    "delete.intent",
    "remove.container",
    "remove.volume",
    "delete.act",
    "delete.outcome",
];

/// Comes to the seam of this name.
#[cfg(not(feature = "seams"))]
#[inline]
pub fn at(_name: &str) {}

/// Comes to the seam of this name.
#[cfg(feature = "seams")]
pub fn at(name: &str) {
    if armed::is_the_end(name) {
        // Not an exit: nothing may be tidied up.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

#[cfg(feature = "seams")]
mod armed {
    use std::env;
    use std::sync::{Mutex, PoisonError};

    /// What was wished for last, and how often that place was come to since.
    static VISITS: Mutex<(String, u32)> = Mutex::new((String::new(), 0));

    pub(super) fn is_the_end(name: &str) -> bool {
        let Some(wish) = wish() else { return false };
        let (seam, visit) = wish.split_once(':').unwrap_or((&wish, "1"));
        if seam != name {
            return false;
        }
        let mut visits = VISITS.lock().unwrap_or_else(PoisonError::into_inner);
        if visits.0 != wish {
            *visits = (wish.clone(), 0);
        }
        visits.1 += 1;
        visits.1 == visit.parse().unwrap_or(1)
    }

    fn wish() -> Option<String> {
        let from_file = || std::fs::read_to_string(env::var_os("SANDBOXD_SEAM_FILE")?).ok();
        let wish = env::var("SANDBOXD_SEAM").ok().or_else(from_file)?;
        Some(wish.trim().to_owned())
    }
}
