//! Log messages for a client: the hosts that its sandbox was denied.
//!
//! A client of the revision 2026-07-28 names the level that it wants in each request, others set it for their connection.
//! Without a level, no messages are sent.

#![expect(deprecated, reason = "the revision 2026-07-28 deprecates logging, and clients still use it")]

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    JsonObject, LoggingLevel, LoggingMessageNotificationParam, ServerCapabilities, SetLevelRequestParams,
};
use rmcp::service::{Peer, RequestContext};
use serde_json::Value;
use tokio::time::timeout;
use toolbox::Reply;

/// A request to set the level of a connection.
pub(crate) type SetLevel = SetLevelRequestParams;

/// What the messages are about.
const LOGGER: &str = "network";

/// Maximum time to send a message.
const SEND: Duration = Duration::from_secs(1);

/// Declares that the server sends messages.
pub(crate) fn declared(mut capabilities: ServerCapabilities) -> ServerCapabilities {
    capabilities.logging = Some(JsonObject::new());
    capabilities
}

/// The level that the client of a connection has set.
#[derive(Debug, Default)]
pub(crate) struct LogLevel(Mutex<Option<LoggingLevel>>);

impl LogLevel {
    pub(crate) fn set(&self, request: SetLevel) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.level);
    }

    /// Sends a message about each denied host in the result of a call, if the client wants warnings.
    pub(crate) async fn report(&self, context: &RequestContext<RoleServer>, reply: &Reply) {
        let set = || *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = context.meta.log_level().or_else(set);
        if wanted.is_some_and(|wanted| wanted as u8 <= LoggingLevel::Warning as u8) {
            for host in denied_hosts(reply) {
                warn(&context.peer, host.clone()).await;
            }
        }
    }
}

async fn warn(peer: &Peer<RoleServer>, data: Value) {
    let message = LoggingMessageNotificationParam::new(LoggingLevel::Warning, data).with_logger(LOGGER);
    // A client that has left needs no messages, and one that does not read must not hold up its call.
    let _ = timeout(SEND, peer.notify_logging_message(message)).await;
}

fn denied_hosts(reply: &Reply) -> impl Iterator<Item = &Value> {
    let result = reply.structured.as_ref();
    result.and_then(|result| result.get("deniedHosts")?.as_array()).into_iter().flatten()
}
