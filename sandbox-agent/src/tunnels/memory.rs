//! Memory that many tunnels took, given back to the sandbox.
//!
//! The C library keeps what was freed between blocks that are in use. After a few hundred tunnels that is more than a
//! hundred megabytes, which would be missing to the commands for as long as the sandbox lives.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::limits::GIVE_BACK;

static IS_PLANNED: AtomicBool = AtomicBool::new(false);

/// Gives back what is free a while from now, once for all tunnels that end meanwhile.
pub(super) fn give_back_soon() {
    let Ok(runtime) = Handle::try_current() else {
        return;
    };
    if !IS_PLANNED.swap(true, Ordering::Relaxed) {
        runtime.spawn(async {
            sleep(GIVE_BACK).await;
            IS_PLANNED.store(false, Ordering::Relaxed);
            give_back();
        });
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
