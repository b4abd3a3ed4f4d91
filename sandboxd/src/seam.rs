//! Places between intent, act and outcome where a test ends the daemon as a power cut would.
//!
//! Compiled in with the feature `seams` and otherwise nothing: `SANDBOXD_SEAM=park.act` kills the process the
//! first time it comes to that place, `SANDBOXD_SEAM=park.act:3` the third time.

/// Every seam there is, for tests to go through.
pub const ALL: [&str; 12] = [
    "create.intent",
    "create.act",
    "create.outcome",
    "park.intent",
    "park.act",
    "park.outcome",
    "wake.intent",
    "wake.act",
    "wake.outcome",
    "delete.intent",
    "delete.act",
    "delete.outcome",
];

/// Comes to the seam of this name.
#[cfg(not(feature = "seams"))]
#[inline]
pub(crate) fn at(_name: &str) {}

/// Comes to the seam of this name.
#[cfg(feature = "seams")]
pub(crate) fn at(name: &str) {
    use std::sync::atomic::{AtomicU32, Ordering};

    static VISITS: AtomicU32 = AtomicU32::new(0);
    let Ok(wanted) = std::env::var("SANDBOXD_SEAM") else { return };
    let (seam, visit) = wanted.split_once(':').unwrap_or((&wanted, "1"));
    if seam == name && VISITS.fetch_add(1, Ordering::SeqCst) + 1 == visit.parse().unwrap_or(1) {
        // Not an exit: nothing may be tidied up.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}
