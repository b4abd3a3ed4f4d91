//! The daemon's background tasks.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Error;

/// Spawns tasks and knows when the daemon stops. Cheap to clone.
#[derive(Debug, Clone)]
pub(in crate::service) struct Tasks {
    tracker: TaskTracker,
    stopping: CancellationToken,
    closing: CancellationToken,
}

impl Tasks {
    pub(in crate::service) fn new(tracker: TaskTracker) -> Self {
        Self { tracker, stopping: CancellationToken::new(), closing: CancellationToken::new() }
    }

    /// Spawns a task that a stop waits for.
    pub(in crate::service) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.tracker.spawn(work)
    }

    /// Runs `work` to its end, even if the caller stops waiting for it.
    pub(in crate::service) async fn run_detached<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        self.spawn(work).await.map_err(|source| Error::Task { source })?
    }

    /// Waits for `work` for at most `limit`. After that it continues in the background.
    pub(in crate::service) async fn wait_up_to(
        &self,
        limit: Duration,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let _ = timeout(limit, self.spawn(work)).await;
    }

    /// Marks the daemon as stopping. No new requests are served from now on.
    pub(in crate::service) fn stop(&self) {
        self.tracker.close();
        self.stopping.cancel();
    }

    /// Whether the daemon is stopping.
    pub(in crate::service) fn is_stopping(&self) -> bool {
        self.tracker.is_closed()
    }

    /// Cancelled when the daemon begins to stop.
    pub(in crate::service) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Ends the tasks that a stop does not wait for.
    pub(in crate::service) fn close(&self) {
        self.closing.cancel();
    }

    /// Cancelled when the service closes.
    pub(in crate::service) fn closing(&self) -> &CancellationToken {
        &self.closing
    }
}
