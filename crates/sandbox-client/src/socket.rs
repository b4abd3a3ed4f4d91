//! The transport over a TCP socket.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::uri::Scheme;
use http::{Request, Response, Uri};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::body::{Body, BoxError};
use crate::transport::{Connection, Transport, TransportError};

/// Deadline for connecting.
const CONNECT: Duration = Duration::from_secs(5);

/// How long an unused connection is kept. It is far below the daemon's 120 s, because a request that crosses with the
/// daemon's close is lost.
const IDLE: Duration = Duration::from_secs(5);

/// The port of an address without one (RFC 9110 section 4.2.1).
const HTTP_PORT: u16 = 80;

/// A connection pool for one daemon.
#[derive(Debug, Clone)]
pub(crate) struct Socket {
    http: reqwest::Client,
    base: String,
}

impl Socket {
    pub(crate) fn new(base: String) -> Result<Self, BoxError> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .pool_idle_timeout(IDLE)
            .tcp_nodelay(true)
            // The daemon is on a local network, so a proxy for the internet is not used.
            .no_proxy()
            .build()?;
        Ok(Self { http, base })
    }
}

impl Transport for Socket {
    fn send(&self, request: Request<Body>) -> BoxFuture<'static, Result<Response<Body>, TransportError>> {
        let (head, body) = request.into_parts();
        let body = match body.into_whole() {
            Ok(whole) => reqwest::Body::from(whole),
            Err(pieces) => reqwest::Body::wrap_stream(pieces.into_pieces()),
        };
        let request =
            self.http.request(head.method, format!("{}{}", self.base, head.uri)).headers(head.headers);
        let sending = request.body(body).send();
        async move {
            match sending.await {
                Ok(response) => Ok(Response::<reqwest::Body>::from(response).map(Body::wrap)),
                Err(error) if error.is_connect() => Err(TransportError::connecting(error)),
                Err(error) => Err(TransportError::broken(error)),
            }
        }
        .boxed()
    }

    fn websocket_base(&self) -> String {
        self.base.replacen("http", "ws", 1)
    }

    fn connect(&self) -> BoxFuture<'static, Result<Box<dyn Connection>, TransportError>> {
        let base = self.base.clone();
        async move { connect(&base).await.map_err(TransportError::connecting) }.boxed()
    }
}

async fn connect(base: &str) -> Result<Box<dyn Connection>, BoxError> {
    let uri: Uri = base.parse()?;
    if uri.scheme() != Some(&Scheme::HTTP) {
        return Err("a WebSocket needs an address that begins with http://".into());
    }
    let host = uri.host().ok_or("the address has no host")?;
    let address = (host.trim_matches(['[', ']']), uri.port_u16().unwrap_or(HTTP_PORT));
    let socket = timeout(CONNECT, TcpStream::connect(address)).await??;
    socket.set_nodelay(true)?;
    Ok(Box::new(socket))
}
