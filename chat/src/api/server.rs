//! Accepts connections and serves HTTP/1.1 on them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use futures::future::BoxFuture;
use hyper::Request;
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use listen::serve::Bounds;
use listen::slot::ConnectionSlot;
use listen::{ConnectionLimit, unread};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Api;

/// Maximum number of connections. An idle one is closed for a new one.
const MAX_CONNECTIONS: usize = 512;

/// Time limit for a request's head.
const REQUEST_HEAD: Duration = Duration::from_secs(30);

/// Maximum number of headers of a request.
const MAX_HEADERS: usize = 100;

/// Size of the read buffer in bytes. A head must fit into it.
const READ_BYTES: usize = 64 * 1024;

/// Limits of a request.
const BOUNDS: Bounds = Bounds { head: REQUEST_HEAD, max_headers: MAX_HEADERS, read_bytes: READ_BYTES };

/// How long a page may leave a response unread before its connection is closed.
const STALLED_READER: Duration = Duration::from_secs(60);

/// How long requests may continue after the server received the request to stop and the turns have ended.
const DRAIN: Duration = Duration::from_secs(5);

impl Api {
    /// Continues the interrupted turns, serves until `stop`, then ends the turns and waits a limited time for requests to finish.
    ///
    /// Boxed, because the code of an async function is generated in the crate that polls it, and the program's own is small.
    pub fn serve(self, listener: TcpListener, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(self.accept(listener, stop))
    }

    async fn accept(self, listener: TcpListener, stop: CancellationToken) {
        let (connections, limit) = (TaskTracker::new(), ConnectionLimit::new(MAX_CONNECTIONS));
        let router = self.clone().router();
        self.resume_turns().await;
        loop {
            let (stream, peer, permit) = tokio::select! {
                () = stop.cancelled() => break,
                accepted = listen::accept(&listener, &limit, STALLED_READER) => accepted,
            };
            let slot = limit.register();
            let (router, stop) = (router.clone(), stop.clone());
            connections.spawn(async move {
                serve_connection(stream, peer, router, slot, stop).await;
                drop(permit);
            });
        }
        drop(listener);
        // Streams end with their turns, and their connections after them.
        self.changes.end();
        self.turns.end_all().await;
        connections.close();
        let _ = timeout(DRAIN, async { tokio::join!(connections.wait(), self.viewers.end()) }).await;
    }
}

async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    slot: Arc<ConnectionSlot>,
    stop: CancellationToken,
) {
    let router = TowerToHyperService::new(router);
    let answer = |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        let (request, body_state) = unread::track(request);
        let answer = router.call(request);
        async move {
            let Ok(mut response) = answer.await;
            body_state.announce_close(&mut response);
            response
        }
    };
    if let Err(error) = listen::serve::serve(stream, slot, BOUNDS, stop, answer).await {
        // The page disconnected.
        tracing::debug!(error = &error as &dyn std::error::Error, "a connection ended early");
    }
}
