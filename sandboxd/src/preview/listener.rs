//! Accepts visitors' connections and serves HTTP/1.1 on them.

use std::net::IpAddr;
use std::sync::Arc;

use hyper::Request;
use hyper::body::Incoming;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::admission::ListenerScope;
use super::gateway::Gateway;
use super::upgrade::Held;
use crate::model::limits;
use listen::ConnectionLimit;
use listen::serve::Bounds;
use listen::slot::ConnectionSlot;

/// Limits of a request's head.
const BOUNDS: Bounds =
    Bounds { head: limits::REQUEST_HEAD, max_headers: limits::MAX_HEADERS, read_bytes: limits::READ_BYTES };

/// Serves visitors of `listener` until `closed`.
pub(super) async fn serve(
    listener: TcpListener,
    scope: ListenerScope,
    gateway: Arc<Gateway>,
    limit: ConnectionLimit,
    closed: CancellationToken,
) {
    let visitors = TaskTracker::new();
    loop {
        let (stream, peer, permit) = tokio::select! {
            () = closed.cancelled() => break,
            accepted = listen::accept(&listener, &limit, limits::STALLED_READER) => accepted,
        };
        let connection = Connection {
            peer: peer.ip(),
            scope: scope.clone(),
            gateway: Arc::clone(&gateway),
            slot: limit.register(),
            permit: Arc::new(permit),
        };
        visitors.spawn(connection.serve(stream, closed.clone()));
    }
    drop(listener);
    if let ListenerScope::Link(link) = &scope {
        link.mark_port_closed();
    }
    visitors.close();
    // Remaining connections end with their link or with the daemon.
    let _ = timeout(limits::DRAIN, visitors.wait()).await;
}

/// A visitor's connection and its resources.
struct Connection {
    peer: IpAddr,
    scope: ListenerScope,
    gateway: Arc<Gateway>,
    slot: Arc<ConnectionSlot>,
    permit: Arc<OwnedSemaphorePermit>,
}

impl Connection {
    async fn serve(self, stream: TcpStream, closed: CancellationToken) {
        let Self { peer, scope, gateway, slot, permit } = self;
        let answer = |request: Request<Incoming>| {
            let held = Held { _permit: Arc::clone(&permit), stopping: closed.clone() };
            gateway.answer(request, &scope, peer, held)
        };
        if let Err(error) = listen::serve::serve(stream, slot, BOUNDS, closed.clone(), answer).await {
            debug!(error = &error as &dyn std::error::Error, "a visitor's connection ended early");
        }
    }
}
