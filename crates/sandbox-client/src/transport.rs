//! How requests reach the daemon.

use std::error::Error as StdError;
use std::fmt::{self, Debug, Display, Formatter};

use futures::future::BoxFuture;
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::body::{Body, BoxError};

/// Why a request did not reach the daemon, or its response did not arrive completely.
#[derive(Debug)]
pub struct TransportError {
    source: BoxError,
    connecting: bool,
}

impl TransportError {
    /// No connection was made, so the daemon has seen nothing of the request.
    pub fn connecting(source: impl Into<BoxError>) -> Self {
        Self { source: source.into(), connecting: true }
    }

    /// The connection broke, or the response is incomplete.
    pub fn broken(source: impl Into<BoxError>) -> Self {
        Self { source: source.into(), connecting: false }
    }

    /// Whether no connection was made. Otherwise the request may have had an effect.
    pub fn is_connect(&self) -> bool {
        self.connecting
    }
}

impl Display for TransportError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.source, f)
    }
}

impl StdError for TransportError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.source()
    }
}

impl From<BoxError> for TransportError {
    fn from(source: BoxError) -> Self {
        Self::broken(source)
    }
}

/// How requests reach the daemon: over a socket ([`Client::new`](crate::Client::new)), or in process.
///
/// A transport has no deadlines apart from those for connecting. The client sets the others, and drops the future or
/// the body when one has passed.
pub trait Transport: Debug + Send + Sync {
    /// Sends a request and returns the head of the response with its body. The URI has only a path and a query.
    /// `host` and the connection are the transport's business. An error means that there was no complete head.
    fn send(&self, request: Request<Body>) -> BoxFuture<'static, Result<Response<Body>, TransportError>>;

    /// The daemon's address as a WebSocket's URL has it, without a path, such as `ws://127.0.0.1:8080`.
    fn websocket_base(&self) -> String;

    /// Opens a connection for a WebSocket (RFC 6455). The client sends the request that upgrades it.
    fn connect(&self) -> BoxFuture<'static, Result<Box<dyn Connection>, TransportError>>;
}

/// A connection that carries bytes both ways.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}
