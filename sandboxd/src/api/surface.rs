//! Surfaces: other protocols, whose servers are clients of this API.
//!
//! A surface gets requests behind the same layers as every other route, and sends its own requests to the same routes
//! without a socket. They carry the caller's token, address, `Host` and `Origin`, so authentication, limits, log and
//! metrics treat them like the caller's own.

use std::sync::Arc;

use axum::Router;
use axum::body::Body as AxumBody;
use axum::extract::Request;
use axum::http::header::{HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, Response};
use futures::FutureExt;
use futures::future::BoxFuture;
use listen::slot::ConnectionSlot;
use sandbox_client::{Body, Client, Connection, Transport, TransportError};
use surface_caller::{Caller, Callers};
use tower::ServiceExt;

use super::auth::{self, OfSurface, TokenName};
use super::server::{Held, Peer};

/// The way from a surface to the API's routes.
#[derive(Debug, Clone)]
pub(super) struct Routes(Router);

/// The routes, for the caller of one request.
#[derive(Debug, Clone)]
struct InProcess {
    routes: Router,
    extensions: Extensions,
    headers: HeaderMap,
}

impl Routes {
    pub(super) fn new(routes: Router) -> Self {
        Self(routes)
    }
}

impl Callers for Routes {
    fn caller(&self, head: &Parts) -> Caller {
        self.caller_with(head, extensions_of(head))
    }

    fn detached(&self, head: &Parts) -> Caller {
        self.caller_with(head, lasting_extensions_of(head))
    }
}

impl Routes {
    fn caller_with(&self, head: &Parts, extensions: Extensions) -> Caller {
        let transport = InProcess { routes: self.0.clone(), extensions, headers: headers_of(head) };
        let token = auth::token_of(&head.headers).unwrap_or_default();
        // Without a name, which the check of the token has set, every request of the caller is a 401.
        let name = head.extensions.get::<TokenName>().map(|name| name.0.to_string()).unwrap_or_default();
        Caller { client: Client::with_transport(Arc::new(transport), token), token_name: name }
    }
}

/// What the layers know about the client, without its connection.
fn lasting_extensions_of(head: &Parts) -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(OfSurface);
    if let Some(peer) = head.extensions.get::<Peer>() {
        extensions.insert(*peer);
    }
    extensions
}

/// What the layers know about the client and its connection.
fn extensions_of(head: &Parts) -> Extensions {
    let mut extensions = lasting_extensions_of(head);
    if let Some(held) = head.extensions.get::<Held>() {
        extensions.insert(held.clone());
    }
    if let Some(slot) = head.extensions.get::<Arc<ConnectionSlot>>() {
        extensions.insert(Arc::clone(slot));
    }
    extensions
}

fn headers_of(head: &Parts) -> HeaderMap {
    let known = [HOST, ORIGIN].into_iter();
    known.filter_map(|name| Some((name.clone(), head.headers.get(name)?.clone()))).collect()
}

impl Transport for InProcess {
    fn send(
        &self,
        request: axum::http::Request<Body>,
    ) -> BoxFuture<'static, Result<Response<Body>, TransportError>> {
        let (mut parts, body) = request.into_parts();
        parts.extensions = self.extensions.clone();
        parts.headers.extend(self.headers.clone());
        let routes = self.routes.clone();
        async move {
            let request = Request::from_parts(parts, AxumBody::new(body));
            let Ok(response) = routes.oneshot(request).await;
            Ok(response.map(Body::wrap))
        }
        .boxed()
    }

    fn websocket_base(&self) -> String {
        "ws://localhost".to_owned()
    }

    fn connect(&self) -> BoxFuture<'static, Result<Box<dyn Connection>, TransportError>> {
        // A surface uses a terminal by its screen and input, which need no connection.
        async { Err(TransportError::connecting("there is no WebSocket without a socket")) }.boxed()
    }
}
