//! The state of all handlers.

use std::sync::Arc;

use surface_caller::Callers;

use crate::session::Sessions;

/// State of the handlers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) callers: Arc<dyn Callers>,
    pub(crate) sessions: Sessions,
}
