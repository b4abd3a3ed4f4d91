//! Visitors' connections.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::admission::Entrance;
use super::body::PreviewBody;
use super::gateway::{Gateway, Held};
use crate::model::limits;
use listen::Places;
use listen::linger::Lingering;
use listen::waiting::{BusyBody, Seat};

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
            seat: places.waiting.sit_down(),
            place: Arc::new(place),
        };
        visitors.spawn(connection.serve(stream, closed.clone()));
    }
    drop(listener);
    if let Entrance::Own(link) = &entrance {
        link.door_is_free();
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
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits::REQUEST_HEAD)
            .max_headers(limits::MAX_HEADERS)
            .max_buf_size(limits::READ_BYTES)
            .serve_connection(
                TokioIo::new(Lingering::new(stream, closed.clone())),
                service_fn(|request| self.answer(request, closed.clone())),
            )
            .with_upgrades();
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.seat.hung_up() => return,
            () = closed.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            debug!(error = &error as &dyn std::error::Error, "a visitor's connection ended early");
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        stopping: CancellationToken,
    ) -> Result<Response<BusyBody<PreviewBody>>, Infallible> {
        let busy = self.seat.busy();
        let held = Held { _place: Arc::clone(&self.place), stopping };
        let response = self.gateway.answer(request, &self.entrance, self.visitor, held).await;
        Ok(response.map(|body| BusyBody::new(body, busy)))
    }
}
