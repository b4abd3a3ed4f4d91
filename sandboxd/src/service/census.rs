//! How many sandboxes there are, for the metrics.

use sandbox_api::sandbox::SandboxState;

use super::Service;
use crate::metrics::Metrics;

impl Service {
    /// The numbers of this daemon.
    pub fn metrics(&self) -> &Metrics {
        self.engine.metrics()
    }

    /// The same, with what is counted elsewhere brought up to date.
    pub fn fresh_metrics(&self) -> &Metrics {
        self.metrics().set_history_dropped(self.store.history().dropped());
        if let Some(space) = self.room() {
            self.metrics().set_disk_room(space.free_bytes, space.total_bytes);
        }
        self.metrics()
    }

    /// The state of every sandbox there is.
    pub fn states(&self) -> Vec<SandboxState> {
        self.registry.all().iter().map(|sandbox| sandbox.stage().state()).collect()
    }
}
