//! The gates as a tower layer: a decision for each request, and two headers for each response.

use std::task::{Context, Poll};

use futures::future::{BoxFuture, Either, MapOk};
use futures::{FutureExt, TryFutureExt};
use http::header::{HeaderName, HeaderValue};
use http::{Request, Response};
use tower::{Layer, Service};

use super::{Asked, Decision, Gates, Soon};

/// `1` where the request had tools, `0` where it had none.
pub const ENABLED_HEADER: HeaderName = HeaderName::from_static("x-remcochat-bash-tools-enabled");
/// The tools that it had, with commas; absent where it had none.
pub const TOOLS_HEADER: HeaderName = HeaderName::from_static("x-remcochat-bash-tools");

const TOOLS: HeaderValue = HeaderValue::from_static("readFile,writeFile,bash,sandboxUrl");
/// Without ports there is nothing to show.
const TOOLS_WITHOUT_PORTS: HeaderValue = HeaderValue::from_static("readFile,writeFile,bash");

/// Puts a [`Decision`] into the extensions of each request and sets [`ENABLED_HEADER`] and [`TOOLS_HEADER`] on its response. A
/// handler that had to do without the tools all the same sets the first one to `0` itself, and then both stay as it left them.
///
/// The server must tell of its peers, `into_make_service_with_connect_info::<SocketAddr>()`, or nobody is local.
#[derive(Debug, Clone)]
pub struct BashToolsLayer {
    gates: Gates,
}

/// What [`BashToolsLayer`] makes of a service.
#[derive(Debug, Clone)]
pub struct BashToolsService<S> {
    inner: S,
    gates: Gates,
}

impl BashToolsLayer {
    /// With these gates.
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
    /// Only who waits for sandboxd's health pays for a box.
    type Future = Either<MapOk<S::Future, Stamp<B>>, BoxFuture<'static, Result<Response<B>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<A>) -> Self::Future {
        if let Soon::Decided(decision) = self.gates.soon(Asked::of(&request)) {
            request.extensions_mut().insert(decision);
            return Either::Left(self.inner.call(request).map_ok(stamp(decision, self.gates.has_ports())));
        }
        // The one that was polled ready is the one to be called.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let gates = self.gates.clone();
        let answer = async move {
            let decision = gates.last().await;
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
            // Whatever a handler says: what the gates closed is closed.
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
