//! How many sandboxes there are, for the metrics.

use sandbox_api::sandbox::SandboxState;

use super::Service;
use super::order::State;
use crate::metrics::Metrics;

impl Service {
    /// The numbers of this daemon.
    pub fn metrics(&self) -> &Metrics {
        self.engine.metrics()
    }

    /// The state of every sandbox there is. Waits for nobody: one that is being changed counts as being made.
    pub fn states(&self) -> Vec<SandboxState> {
        let state = |state: &State| match state {
            State::Creating => SandboxState::Creating,
            State::Running(_) => SandboxState::Running,
            State::Failed(_) | State::Stuck => SandboxState::Failed,
            State::Deleted => SandboxState::Deleted,
        };
        let all = self.registry.all();
        all.iter().map(|sandbox| sandbox.order.peek(state).unwrap_or(SandboxState::Creating)).collect()
    }
}
