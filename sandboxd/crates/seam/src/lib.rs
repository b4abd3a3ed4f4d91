//! Points between intent, act and outcome at which a test ends the daemon, like a power cut.
//!
//! Only compiled in with debug assertions, so never into a release build. `SANDBOXD_SEAM=park.act` kills the process the
//! first time it reaches that point, and `SANDBOXD_SEAM=park.act:3` the third time. `SANDBOXD_SEAM_FILE` names a file
//! with the same content, which is read at each point, so that a seam can be set while the daemon runs.

/// All seams in execution order, for tests.
pub const ALL: [&str; 48] = [
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
    "pool.noted",
    "pool.started",
    "claim.note",
    "claim.row",
    "seed.act",
    "seed.values",
    "create.outcome",
    "park.checkpoint",
    "park.intent",
    "park.act",
    "park.outcome",
    "wake.intent",
    "wake.act",
    "wake.outcome",
    "snapshot.chunks",
    "snapshot.manifest",
    "fork.created",
    "fetch.helper",
    "fetch.snapshot",
    "packages.helper",
    "packages.snapshot",
    "restore.checkpoint",
    "restore.intent",
    "restore.act",
    "restore.outcome",
    "discard.manifest",
    "collect.stored",
    "collect.moved",
    "collect.forgotten",
    "quarantine.stored",
    "quarantine.copied",
    "quarantine.forgotten",
    "quarantine.moved",
    "delete.intent",
    "remove.container",
    "remove.volume",
    "delete.act",
    "delete.outcome",
];

/// Reaches the seam of this name.
#[cfg(not(debug_assertions))]
#[inline]
pub fn at(_name: &str) {}

/// Reaches the seam of this name.
#[cfg(debug_assertions)]
pub fn at(name: &str) {
    if armed::ends_here(name) {
        // Not an exit, because nothing may be cleaned up.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

#[cfg(debug_assertions)]
mod armed {
    use std::env;
    use std::sync::{Mutex, PoisonError};

    /// The last requested seam, and how often it was reached since.
    static VISITS: Mutex<(String, u32)> = Mutex::new((String::new(), 0));

    pub(super) fn ends_here(name: &str) -> bool {
        let Some(requested) = requested() else { return false };
        let (seam, visit) = requested.split_once(':').unwrap_or((&requested, "1"));
        if seam != name {
            return false;
        }
        let mut visits = VISITS.lock().unwrap_or_else(PoisonError::into_inner);
        if visits.0 != requested {
            *visits = (requested.clone(), 0);
        }
        visits.1 += 1;
        visits.1 == visit.parse().unwrap_or(1)
    }

    fn requested() -> Option<String> {
        let from_file = || std::fs::read_to_string(env::var_os("SANDBOXD_SEAM_FILE")?).ok();
        let requested = env::var("SANDBOXD_SEAM").ok().or_else(from_file)?;
        Some(requested.trim().to_owned())
    }
}
