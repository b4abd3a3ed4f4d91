//! Messages of a server about a request before its answer.

use futures::future::BoxFuture;
use serde_json::Value;

/// Requests to the host that a server may make. Everything is off by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// Questions to the user.
    pub(crate) elicitation: bool,
    /// Texts of the host's model.
    pub(crate) sampling: bool,
}

/// A message of a server about a request before its answer.
#[derive(Debug)]
pub(super) enum Event {
    /// The parameters of a progress notification.
    Progress(Value),
    /// A request for the host. `id` is the server's.
    Ask { id: Value, method: String, params: Value },
}

/// Passes on what a server sends about a request.
pub(super) trait Listener: Sync {
    /// Whether the host requested reports of the progress.
    fn wants_progress(&self) -> bool;

    /// Passes on the progress.
    fn progress(&self, params: Value) -> BoxFuture<'_, ()>;

    /// Asks the host. Returns the result, or nothing if it gives none.
    fn ask(&self, method: String, params: Value) -> BoxFuture<'_, Option<Value>>;
}

/// Ignores progress and answers nothing.
pub(super) struct Silent;

impl Listener for Silent {
    fn wants_progress(&self) -> bool {
        false
    }

    fn progress(&self, _: Value) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn ask(&self, _: String, _: Value) -> BoxFuture<'_, Option<Value>> {
        Box::pin(async { None })
    }
}
