//! Surfaces: other protocols, whose servers are clients of this API.
//!
//! A surface gets requests behind the same layers as every other route, and sends its own requests to the same routes
//! without a socket. They carry the caller's token, address, `Host` and `Origin`, so authentication, limits, log and
//! metrics treat them like the caller's own.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body as AxumBody;
use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, Response};
use futures::FutureExt;
use futures::future::BoxFuture;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use listen::slot::ConnectionSlot;
use listen::throttle::source_of;
use sandbox_client::{Body, Client, Connection, Transport, TransportError};
use surface_caller::{Caller, Callers, WrongToken};
use tokio::io::DuplexStream;
use tower::ServiceExt;
use tracing::debug;

use super::ApiState;
use super::auth;
use super::client_address::{self, ClientAddress, OfSurface, peer_of};
use super::server::{Held, Peer};
use crate::model::Principal;

/// Bytes of a connection in process that its reader has not read yet, for each direction.
const CONNECTION_BYTES: usize = 64 * 1024;

/// The way from a surface to the API's routes.
#[derive(Debug, Clone)]
pub(super) struct Routes {
    routes: Router,
    state: ApiState,
}

/// The routes, for the caller of one request.
#[derive(Debug, Clone)]
struct InProcess {
    routes: Router,
    extensions: Extensions,
    headers: HeaderMap,
}

impl Routes {
    /// `state` is that of the routes.
    pub(super) fn new(routes: Router, state: ApiState) -> Self {
        Self { routes, state }
    }

    fn client_with(&self, head: &Parts, extensions: Extensions, token: &str) -> Client {
        let transport =
            InProcess { routes: self.routes.clone(), extensions, headers: headers_of(head, &self.state) };
        Client::with_transport(Arc::new(transport), token)
    }

    fn caller_with(&self, head: &Parts, token: &str, of: Option<&Principal>) -> Caller {
        Caller {
            client: self.client_with(head, extensions_of(head), token),
            background: self.client_with(head, lasting_extensions(head), token),
            // Without a name, which the check of the token has set, every request of the caller returns 401.
            token_name: of.map(Principal::client_name).unwrap_or_default(),
            is_for_tools: of.is_some_and(|found| found.is_for_tools),
        }
    }
}

impl Callers for Routes {
    fn caller(&self, head: &Parts) -> Caller {
        let token = auth::token_of(&head.headers).unwrap_or_default();
        self.caller_with(head, &token, head.extensions.get::<Arc<Principal>>().map(AsRef::as_ref))
    }

    fn authenticate(&self, head: &Parts, token: &str) -> Result<Caller, WrongToken> {
        let found = auth::check_late(&self.state, head, token)?;
        Ok(self.caller_with(head, token, Some(&found)))
    }

    fn client(&self, head: &Parts, token: &str) -> Client {
        self.client_with(head, extensions_of(head), token)
    }

    fn is_secure(&self, head: &Parts) -> bool {
        client_address::is_secure(head, self.state.rates.settings())
    }

    fn source(&self, head: &Parts) -> IpAddr {
        source_of(peer_of(&head.extensions))
    }
}

/// What the layers know about the client.
fn lasting_extensions(head: &Parts) -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(OfSurface);
    if let Some(peer) = head.extensions.get::<Peer>() {
        extensions.insert(*peer);
    }
    if let Some(client) = head.extensions.get::<ClientAddress>() {
        extensions.insert(*client);
    }
    extensions
}

/// What the layers know about the client and its connection.
fn extensions_of(head: &Parts) -> Extensions {
    let mut extensions = lasting_extensions(head);
    if let Some(held) = head.extensions.get::<Held>() {
        extensions.insert(held.clone());
    }
    if let Some(slot) = head.extensions.get::<Arc<ConnectionSlot>>() {
        extensions.insert(Arc::clone(slot));
    }
    extensions
}

/// The headers that say how the client reached the daemon, and whom a trusted front has authenticated.
fn headers_of(head: &Parts, state: &ApiState) -> HeaderMap {
    let subject = state.front.as_ref().map(|front| front.settings.header.clone());
    let known = [HOST, ORIGIN].into_iter().chain(subject);
    known.filter_map(|name| Some((name.clone(), head.headers.get(name)?.clone()))).collect()
}

impl InProcess {
    /// Sends a request to the routes as the caller's own.
    async fn route(self, request: axum::http::Request<AxumBody>) -> Response<AxumBody> {
        let (mut parts, body) = request.into_parts();
        // An upgrade is among the request's extensions.
        parts.extensions.extend(self.extensions);
        parts.headers.extend(self.headers);
        let Ok(response) = self.routes.oneshot(Request::from_parts(parts, body)).await;
        response
    }

    /// Serves a connection in process until the other end is dropped.
    async fn serve(self, stream: DuplexStream) {
        let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
            let transport = self.clone();
            async move { Ok::<_, std::convert::Infallible>(transport.route(request.map(AxumBody::new)).await) }
        });
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        if let Err(error) = connection.with_upgrades().await {
            // The surface has dropped it. Its requests are already logged.
            debug!(error = &error as &dyn std::error::Error, "a connection in process ended early");
        }
    }
}

impl Transport for InProcess {
    fn send(
        &self,
        request: axum::http::Request<Body>,
    ) -> BoxFuture<'static, Result<Response<Body>, TransportError>> {
        let transport = self.clone();
        async move { Ok(transport.route(request.map(AxumBody::new)).await.map(Body::wrap)) }.boxed()
    }

    fn websocket_base(&self) -> String {
        "ws://localhost".to_owned()
    }

    fn connect(&self) -> BoxFuture<'static, Result<Box<dyn Connection>, TransportError>> {
        let (near, far) = tokio::io::duplex(CONNECTION_BYTES);
        tokio::spawn(self.clone().serve(far));
        async move { Ok(Box::new(near) as Box<dyn Connection>) }.boxed()
    }
}
