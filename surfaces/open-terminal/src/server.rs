//! The state of all handlers.

use std::sync::Arc;

use axum::extract::FromRef;
use axum::response::Response;
use surface_caller::Shared;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::cwds::Cwds;
use crate::edits::Edits;
use crate::failure::Failure;
use crate::unattached::Attachments;
use crate::unauthenticated::Unauthenticated;

/// Maximum number of archives that are packed at once.
const MAX_ARCHIVES: usize = 4;

/// State of the handlers.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) shared: Shared,
    pub(crate) cwds: Cwds,
    pub(crate) attachments: Attachments,
    pub(crate) unauthenticated: Unauthenticated,
    /// Archives that are packed.
    pub(crate) archives: Arc<Semaphore>,
    pub(crate) edits: Edits,
    pub(crate) shutdown: CancellationToken,
}

impl Server {
    pub(crate) fn new(shared: Shared, shutdown: CancellationToken) -> Self {
        Self {
            shared,
            cwds: Cwds::default(),
            attachments: Attachments::new(shutdown.clone()),
            unauthenticated: Unauthenticated::default(),
            archives: Arc::new(Semaphore::new(MAX_ARCHIVES)),
            edits: Edits::default(),
            shutdown,
        }
    }
}

/// Lets extractors that use only the shared state run in these handlers.
impl FromRef<Server> for Shared {
    fn from_ref(server: &Server) -> Self {
        server.shared.clone()
    }
}

/// What a handler returns.
pub(crate) type Answer = Result<Response, Failure>;
