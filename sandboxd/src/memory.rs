//! Gives freed memory back to the system.
//!
//! The C library keeps what was freed between blocks that are in use. After many large streams that is hundreds of
//! megabytes, for as long as the daemon runs.

use crate::model::limits;
use tokio::time::{MissedTickBehavior, interval};

/// Gives free memory back from time to time, for ever.
pub(crate) async fn give_back_regularly() {
    let mut ticks = interval(limits::GIVE_BACK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // Takes the allocator's locks, one after the other, for milliseconds at most.
        let _ = tokio::task::spawn_blocking(give_back).await;
    }
}

#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "there is no other way to malloc_trim(3)")]
fn give_back() {
    // SAFETY: it takes the allocator's own locks and touches nothing that is in use.
    unsafe { libc::malloc_trim(0) };
}

/// Other C libraries keep little.
#[cfg(not(target_env = "gnu"))]
fn give_back() {}
