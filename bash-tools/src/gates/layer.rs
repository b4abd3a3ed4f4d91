//! The gates as a tower layer: a decision for each request, and two headers for each response.

use std::task::{Context, Poll};

use futures::future::{BoxFuture, Either, MapOk};
use futures::{FutureExt, TryFutureExt};
use http::header::{HeaderName, HeaderValue};
use http::{Request, Response};
use tower::{Layer, Service};

use super::head::Head;
use super::{Decision, Gates, Immediate};

/// `1` if the request had tools, `0` if not.
pub const ENABLED_HEADER: HeaderName = HeaderName::from_static("x-remcochat-bash-tools-enabled");
/// Names of the request's tools, separated by commas. Absent without tools.
pub const TOOLS_HEADER: HeaderName = HeaderName::from_static("x-remcochat-bash-tools");

const TOOLS: HeaderValue = HeaderValue::from_static("readFile,writeFile,bash,sandboxUrl");
/// Without ports there is nothing to expose.
const TOOLS_WITHOUT_PORTS: HeaderValue = HeaderValue::from_static("readFile,writeFile,bash");

/// Puts a [`Decision`] into the extensions of each request, and sets [`ENABLED_HEADER`] and [`TOOLS_HEADER`] on its
/// response. A handler that could not use the tools sets the first header to `0` itself, and then both stay
/// unchanged.
///
/// The server must report peer addresses (`into_make_service_with_connect_info::<SocketAddr>()`). Otherwise no client
/// counts as local.
#[derive(Debug, Clone)]
pub struct BashToolsLayer {
    gates: Gates,
}

/// Service that [`BashToolsLayer`] creates.
#[derive(Debug, Clone)]
pub struct BashToolsService<S> {
    inner: S,
    gates: Gates,
}

impl BashToolsLayer {
    /// Creates a layer with these gates.
    pub fn new(gates: Gates) -> Self {
        Self { gates }
    }
}

impl<S> Layer<S> for BashToolsLayer {
    type Service = BashToolsService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        BashToolsService { inner, gates: self.gates.clone() }
    }
}

type Stamp<B> = fn(Response<B>) -> Response<B>;

impl<S, A, B> Service<Request<A>> for BashToolsService<S>
where
    S: Service<Request<A>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    A: Send + 'static,
    B: Send,
{
    type Response = Response<B>;
    type Error = S::Error;
    /// Only requests that wait for sandboxd's health allocate a box.
    type Future = Either<MapOk<S::Future, Stamp<B>>, BoxFuture<'static, Result<Response<B>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        if let Immediate::Decided(decision) = self.gates.decide_immediately(Head::of(&request)) {
            request.extensions_mut().insert(decision);
            return Either::Left(self.inner.call(request).map_ok(stamp(decision, self.gates.has_ports())));
        }
        // Calls the instance that was polled ready.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let gates = self.gates.clone();
        let answer = async move {
            let decision = gates.decide_by_health().await;
            request.extensions_mut().insert(decision);
            inner.call(request).await.map(stamp(decision, gates.has_ports()))
        };
        Either::Right(answer.boxed())
    }
}

fn stamp<B>(decision: Decision, has_ports: bool) -> Stamp<B> {
    match (decision, has_ports) {
        (Decision::Enabled, true) => |response| enabled(response, TOOLS),
        (Decision::Enabled, false) => |response| enabled(response, TOOLS_WITHOUT_PORTS),
        (Decision::Disabled(_), _) => |mut response| {
            // A handler cannot claim tools that the gates denied.
            response.headers_mut().insert(ENABLED_HEADER, HeaderValue::from_static("0"));
            response.headers_mut().remove(TOOLS_HEADER);
            response
        },
    }
}

fn enabled<B>(mut response: Response<B>, tools: HeaderValue) -> Response<B> {
    if !response.headers().contains_key(ENABLED_HEADER) {
        response.headers_mut().insert(ENABLED_HEADER, HeaderValue::from_static("1"));
        response.headers_mut().insert(TOOLS_HEADER, tools);
    }
    response
}
