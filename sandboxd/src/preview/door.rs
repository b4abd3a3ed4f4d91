//! Visitors' connections.

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

use super::admission::Entrance;
use super::gateway::{Gateway, Held};
use crate::model::limits;
use listen::Places;
use listen::serve::Bounds;
use listen::waiting::Seat;

/// Of one request.
const BOUNDS: Bounds =
    Bounds { head: limits::REQUEST_HEAD, max_headers: limits::MAX_HEADERS, read_bytes: limits::READ_BYTES };

/// Serves visitors of `listener` until `closed`.
pub(super) async fn serve(
    listener: TcpListener,
    entrance: Entrance,
    gateway: Arc<Gateway>,
    places: Places,
    closed: CancellationToken,
) {
    let visitors = TaskTracker::new();
    loop {
        let (stream, visitor, place) = tokio::select! {
            () = closed.cancelled() => break,
            accepted = listen::accept(&listener, &places, limits::STALLED_READER) => accepted,
        };
        let connection = Connection {
            visitor: visitor.ip(),
            entrance: entrance.clone(),
            gateway: Arc::clone(&gateway),
            seat: places.sit_down(),
            place: Arc::new(place),
        };
        visitors.spawn(connection.serve(stream, closed.clone()));
    }
    drop(listener);
    if let Entrance::Own(link) = &entrance {
        link.mark_port_closed();
    }
    visitors.close();
    // Those that stay are cut off with their link or with the daemon.
    let _ = timeout(limits::DRAIN, visitors.wait()).await;
}

/// A visitor's connection, and what it holds.
struct Connection {
    visitor: IpAddr,
    entrance: Entrance,
    gateway: Arc<Gateway>,
    seat: Arc<Seat>,
    place: Arc<OwnedSemaphorePermit>,
}

impl Connection {
    async fn serve(self, stream: TcpStream, closed: CancellationToken) {
        let Self { visitor, entrance, gateway, seat, place } = self;
        let answer = |request: Request<Incoming>| {
            let held = Held { _place: Arc::clone(&place), stopping: closed.clone() };
            gateway.answer(request, &entrance, visitor, held)
        };
        if let Err(error) = listen::serve::serve(stream, seat, BOUNDS, closed.clone(), answer).await {
            debug!(error = &error as &dyn std::error::Error, "a visitor's connection ended early");
        }
    }
}
