//! Accepts connections and serves HTTP/1.1 on them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::linger::Lingering;
use super::throttle::Peer;
use crate::model::limits;

/// Pause after a failed accept, which most often means that descriptors are short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `shutdown`, then lets requests finish for as long as [`limits::DRAIN`].
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) {
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(limits::MAX_CONNECTIONS));
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = accept(&listener, &places) => accepted,
        };
        match accepted {
            Ok((stream, peer, place)) => {
                let serve = serve_connection(stream, peer, router.clone(), shutdown.clone());
                connections.spawn(async move {
                    serve.await;
                    drop(place);
                });
            }
            Err(error) => {
                warn!(%error, "could not accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    connections.close();
    if timeout(limits::DRAIN, connections.wait()).await.is_err() {
        warn!(open = connections.len(), "requests were cut off at the end of the grace period");
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, Peer, OwnedSemaphorePermit)> {
    // A full house does not refuse: the kernel's queue holds those who come until a place is free.
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, address) = listener.accept().await?;
    // Without it the kernel holds short answers back for 40 ms.
    stream.set_nodelay(true)?;
    Ok((stream, Peer(address.ip()), place))
}

async fn serve_connection(stream: TcpStream, peer: Peer, router: Router, shutdown: CancellationToken) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        router.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::REQUEST_HEAD)
        .max_headers(limits::MAX_HEADERS)
        .max_buf_size(limits::MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(Lingering::new(stream, shutdown.clone())), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // A client that went away; its requests have been logged.
        debug!(%error, "a connection ended early");
    }
}
