//! Accepts connections and serves HTTP/1.1 on them.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Response, StatusCode};
use axum::middleware::Next;
use axum::response::IntoResponse;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::{debug, warn};

use super::error::{ApiError, HttpError};
use crate::model::limits;
use listen::serve::Bounds;
use listen::slot::ConnectionSlot;
use listen::{ConnectionLimit, unread};

/// Limits of a request's head.
const BOUNDS: Bounds =
    Bounds { head: limits::REQUEST_HEAD, max_headers: limits::MAX_HEADERS, read_bytes: limits::READ_BYTES };

/// Address of the client, as the socket reports it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

/// Resources of a connection. An upgraded request keeps them, so that its connection still counts and a shutdown
/// waits for it.
#[derive(Debug, Clone)]
pub(super) struct Held {
    _permit: Arc<ConnectionPermit>,
    /// Cancelled when the daemon shuts down.
    pub(super) stopping: CancellationToken,
}

/// A connection's share of the connection limit, and its registration for the shutdown.
#[derive(Debug)]
struct ConnectionPermit {
    _permit: OwnedSemaphorePermit,
    _counted: TaskTrackerToken,
}

/// Serves until `shutdown`, then waits up to [`limits::DRAIN`] for running requests.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) {
    let connections = TaskTracker::new();
    let limit = ConnectionLimit::new(limits::MAX_CONNECTIONS);
    loop {
        let (stream, peer, permit) = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listen::accept(&listener, &limit, limits::STALLED_READER) => accepted,
        };
        let permit = ConnectionPermit { _permit: permit, _counted: connections.token() };
        let held = Held { _permit: Arc::new(permit), stopping: shutdown.clone() };
        tokio::spawn(serve_connection(stream, Peer(peer.ip()), router.clone(), limit.register(), held));
    }
    drop(listener);
    connections.close();
    if timeout(limits::DRAIN, connections.wait()).await.is_err() {
        warn!(open = connections.len(), "the grace period ended; running requests were cut off");
    }
}

async fn serve_connection(
    stream: TcpStream,
    peer: Peer,
    router: Router,
    slot: Arc<ConnectionSlot>,
    held: Held,
) {
    let shutdown = held.stopping.clone();
    let router = TowerToHyperService::new(router);
    let answer = move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer);
        request.extensions_mut().insert(held.clone());
        let is_too_large = head_bytes(&request) > limits::MAX_HEAD_BYTES;
        let (request, body_state) = unread::track(request);
        let answer = router.call(request);
        async move {
            if is_too_large {
                return head_too_large();
            }
            let Ok(mut response) = answer.await;
            body_state.announce_close(&mut response);
            response
        }
    };
    if let Err(error) = listen::serve::serve(stream, slot, BOUNDS, shutdown, answer).await {
        // The client disconnected. Its requests are already logged.
        debug!(error = &error as &dyn std::error::Error, "a connection ended early");
    }
}

/// Rejects requests that arrive during a shutdown. A connection closes after its current request, but the next one
/// may already have been read.
pub(super) async fn refuse_when_stopping(request: Request<Body>, next: Next) -> Response<Body> {
    if request.extensions().get::<Held>().is_some_and(|held| held.stopping.is_cancelled()) {
        return ApiError::from(HttpError::Stopping).into_response();
    }
    next.run(request).await
}

/// Size of the request line and headers as received, without whitespace between them.
fn head_bytes(request: &Request<Incoming>) -> usize {
    let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    path + headers.sum::<usize>()
}

/// Same response as hyper sends if the head exceeds its buffer.
fn head_too_large() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use axum::body::Body;
    use axum::middleware::from_fn;
    use axum::routing::get;
    use bytes::Bytes;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::Semaphore;
    use tokio::task::JoinHandle;
    use tokio::time::interval;
    use tower::ServiceExt;

    use super::*;

    /// How long a reader may stall in these tests.
    const STALLED: Duration = Duration::from_secs(1);

    /// A client of an endless response, and the task that serves it.
    async fn served() -> (TcpStream, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, address) = listener.accept().await.unwrap();
        listen::tune(&stream, STALLED).unwrap();
        let endless = || async {
            let part = Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 4096]));
            Body::from_stream(futures::stream::repeat(part))
        };
        let router = Router::new().route("/", get(endless));
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let permit = ConnectionPermit { _permit: permit, _counted: TaskTracker::new().token() };
        let held = Held { _permit: Arc::new(permit), stopping: CancellationToken::new() };
        let slot = ConnectionLimit::new(1).register();
        let served = serve_connection(stream, Peer(address.ip()), router, slot, held);
        client.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        (client, tokio::spawn(served))
    }

    #[tokio::test]
    async fn a_request_during_a_shutdown_is_rejected() {
        let stopping = CancellationToken::new();
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let permit = ConnectionPermit { _permit: permit, _counted: TaskTracker::new().token() };
        let held = Held { _permit: Arc::new(permit), stopping: stopping.clone() };
        let router = Router::new().route("/", get(|| async {})).layer(from_fn(refuse_when_stopping));
        let ask = || {
            let mut request = Request::new(Body::empty());
            request.extensions_mut().insert(held.clone());
            let router = router.clone();
            async move { router.oneshot(request).await.unwrap().status() }
        };
        assert_eq!(ask().await, StatusCode::OK);
        stopping.cancel();
        assert_eq!(ask().await, StatusCode::SERVICE_UNAVAILABLE);
    }

    #[tokio::test]
    async fn the_connection_of_a_client_that_stops_reading_is_closed() {
        let (client, served) = served().await;
        timeout(STALLED * 10, served).await.expect("it is still served").unwrap();
        drop(client);
    }

    #[tokio::test]
    async fn a_client_that_reads_slowly_is_served() {
        let (mut client, served) = served().await;
        let mut part = vec![0; 256 * 1024];
        let mut pace = interval(STALLED / 8);
        for _ in 0..32 {
            pace.tick().await;
            client.read_exact(&mut part).await.unwrap();
        }
        assert!(!served.is_finished());
    }
}
