//! Stops the sandbox's processes while their files are read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

use crate::limits::MAX_PAUSE;
use crate::termination::Frozen;

/// All processes of the sandbox are stopped until this is dropped, or until [`MAX_PAUSE`] has passed. Those that their
/// shell had stopped before continue too: the kernel does not record the cause of a stop.
#[derive(Debug)]
pub(crate) struct Pause {
    frozen: Arc<Mutex<Option<Frozen>>>,
    limit: AbortHandle,
}

impl Pause {
    /// Stops the processes. Must be called in the runtime.
    pub(crate) fn begin() -> Self {
        let frozen = Arc::new(Mutex::new(Frozen::now()));
        let limit = tokio::spawn({
            let frozen = Arc::clone(&frozen);
            async move {
                tokio::time::sleep(MAX_PAUSE).await;
                lock(&frozen).take();
            }
        });
        Self { frozen, limit: limit.abort_handle() }
    }

    /// Whether the processes are still stopped.
    pub(super) fn holds(&self) -> bool {
        lock(&self.frozen).is_some()
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.limit.abort();
        lock(&self.frozen).take();
    }
}

fn lock(frozen: &Mutex<Option<Frozen>>) -> MutexGuard<'_, Option<Frozen>> {
    frozen.lock().unwrap_or_else(PoisonError::into_inner)
}
