//! What the metrics ask of the service when they are read.

use super::Service;
use crate::metrics::Metrics;
use crate::model::Stage;

impl Service {
    /// The numbers of this daemon.
    pub fn metrics(&self) -> &Metrics {
        self.engine.metrics()
    }

    /// Where each sandbox is in its life. Waits for nobody.
    pub fn stages(&self) -> Vec<Stage> {
        self.registry.all().iter().map(|sandbox| sandbox.stage()).collect()
    }

    /// Commands that the history has no record of.
    pub fn dropped_history(&self) -> u64 {
        self.store.history().dropped()
    }
}
