//! Visitors' connections.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::admission::Entrance;
use super::gateway::Gateway;
use crate::listen::linger::Lingering;
use crate::listen::{self, Places};
use crate::model::limits;

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
            accepted = listen::accept(&listener, &places) => accepted,
        };
        let connection =
            serve_visitor(stream, visitor, entrance.clone(), Arc::clone(&gateway), closed.clone());
        visitors.spawn(async move {
            let _place = place;
            connection.await;
        });
    }
    drop(listener);
    visitors.close();
    // Those that stay are cut off with their link or with the daemon.
    let _ = timeout(limits::DRAIN, visitors.wait()).await;
}

async fn serve_visitor(
    stream: TcpStream,
    visitor: IpAddr,
    entrance: Entrance,
    gateway: Arc<Gateway>,
    closed: CancellationToken,
) {
    let stopping = closed.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (gateway, entrance, stopping) = (Arc::clone(&gateway), entrance.clone(), stopping.clone());
        async move { Ok::<_, Infallible>(gateway.answer(request, &entrance, visitor, stopping).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::REQUEST_HEAD)
        .max_headers(limits::MAX_HEADERS)
        .max_buf_size(limits::READ_BYTES)
        .serve_connection(TokioIo::new(Lingering::new(stream, closed.clone())), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = closed.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        debug!(error = &error as &dyn std::error::Error, "a visitor's connection ended early");
    }
}
