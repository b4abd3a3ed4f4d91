//! Whether requests can be served, and with what.

use crate::model::Transport;

/// Whether requests can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// Not yet.
    Waiting {
        /// The step that is not complete.
        missing: &'static str,
    },
    /// Yes.
    Ready,
}

/// What the start found or created.
#[derive(Debug, Clone)]
pub(in crate::service) struct Prepared {
    pub(super) image: String,
    pub(super) agent_volume: String,
    pub(super) transport: Transport,
}
