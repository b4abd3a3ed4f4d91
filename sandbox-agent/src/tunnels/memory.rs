//! Returns memory that many tunnels used to the sandbox.
//!
//! The C library keeps freed memory between used blocks. After a few hundred tunnels that is more than a
//! hundred megabytes, which commands could not use for the rest of the sandbox's lifetime.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;
use tokio::time::sleep;

use crate::limits::MEMORY_RETURN_DELAY;

static IS_PLANNED: AtomicBool = AtomicBool::new(false);

/// Returns free memory after a delay, once for all tunnels that end meanwhile.
pub(super) fn trim_soon() {
    let Ok(runtime) = Handle::try_current() else {
        return;
    };
    if !IS_PLANNED.swap(true, Ordering::Relaxed) {
        runtime.spawn(async {
            sleep(MEMORY_RETURN_DELAY).await;
            IS_PLANNED.store(false, Ordering::Relaxed);
            trim();
        });
    }
}

#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "no crate wraps malloc_trim(3)")]
fn trim() {
    // SAFETY: it takes the allocator's own locks and does not touch used memory.
    unsafe { libc::malloc_trim(0) };
}

/// Other C libraries keep little.
#[cfg(not(target_env = "gnu"))]
fn trim() {}
