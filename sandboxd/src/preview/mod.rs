//! The preview gateway: a reverse proxy from visitors to ports of sandboxes, and downloads of files for visitors with a
//! link to one. It leads to nothing else.
//!
//! It listens separately from the API and has none of its routes. It knows the admin token only to keep it from
//! sandboxes. A visitor has a link. It is either a host name that contains the link's token, or a port of its own with
//! the token in a cookie. Everything from a sandbox may be hostile to the visitor's other pages. Therefore each preview
//! is an origin of its own, and cookies of the gateway never reach a sandbox. Bytes pass in both directions without
//! being stored.

mod address;
mod admission;
mod body;
mod cookies;
mod credentials;
mod download;
mod gateway;
mod headers;
mod listener;
mod location;
mod pages;
mod upgrade;
mod upstream;

use std::sync::Arc;

use listen::ConnectionLimit;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::admission::ListenerScope;
pub(crate) use self::admission::{KEY_PARAMETER, WRONG_TOKENS};
use self::gateway::Gateway;
use crate::model::rates::RateSettings;
use crate::model::{AdminToken, limits};
use crate::service::{LinkListener, Service};

/// Serves previews until `shutdown`: by host name on `listener`, and on the ports of links that have their own.
pub async fn serve(
    listener: TcpListener,
    service: Arc<Service>,
    token: AdminToken,
    rates: Arc<RateSettings>,
    shutdown: CancellationToken,
) {
    let Some(mut link_listeners) = service.previews().listeners() else { return };
    let gateway = Arc::new(Gateway::new(Arc::clone(&service), token, rates));
    let limit = ConnectionLimit::new(limits::MAX_VISITORS);
    let tasks = TaskTracker::new();
    let spawn_listener = |listener, scope, shutdown| {
        tasks.spawn(listener::serve(listener, scope, Arc::clone(&gateway), limit.clone(), shutdown));
    };
    spawn_listener(listener, ListenerScope::ByHostName, shutdown.clone());
    loop {
        let received = tokio::select! {
            () = shutdown.cancelled() => break,
            received = link_listeners.recv() => received,
        };
        let Some(LinkListener { link, listener }) = received else { break };
        let closed = shutdown.child_token();
        let (closing, close) = (link.closing(), closed.clone());
        tasks.spawn(async move {
            tokio::select! {
                () = closing => close.cancel(),
                () = close.cancelled() => {}
            }
        });
        spawn_listener(listener, ListenerScope::Link(link), closed);
    }
    tasks.close();
    tasks.wait().await;
}
