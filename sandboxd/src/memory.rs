//! Returns freed memory to the system.
//!
//! The C library keeps freed memory between used blocks. After many large streams, that is hundreds of megabytes for
//! as long as the daemon runs.

use crate::model::limits;
use tokio::time::{MissedTickBehavior, interval};

/// Returns free memory to the system in regular intervals. Never ends.
pub(crate) async fn trim_regularly() {
    let mut ticks = interval(limits::MEMORY_TRIM_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Locks each of the allocator's arenas in turn, for a few milliseconds at most.
        let _ = tokio::task::spawn_blocking(trim).await;
    }
}

#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "malloc_trim(3) has no safe interface")]
fn trim() {
    // SAFETY: it takes the allocator's own locks and touches nothing that is in use.
    unsafe { libc::malloc_trim(0) };
}

/// Other C libraries keep little freed memory.
#[cfg(not(target_env = "gnu"))]
fn trim() {}
