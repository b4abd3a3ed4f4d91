//! HTTP client for servers in sandboxes. Connections stay open between requests.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use sandbox_api::SandboxId;

use super::body::Upload;
use crate::model::{Refusal, Resource, limits};
use crate::service::{Error, Service, Tunnel};

/// Sends HTTP/1.1 requests to servers in sandboxes.
pub(super) struct Upstream(Client<Connector, Upload>);

impl Upstream {
    pub(super) fn new(service: Arc<Service>) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(limits::IDLE_TUNNEL)
            .pool_max_idle_per_host(limits::MAX_IDLE_TUNNELS)
            .http1_max_headers(limits::MAX_PREVIEW_HEADERS)
            .http1_max_buf_size(limits::MAX_PREVIEW_HEAD_BYTES)
            .set_host(false)
            .build(Connector { service });
        Self(client)
    }

    /// Sends a request and returns the response. The server may close an idle connection just when the request is sent, which
    /// looks the same as closing it instead of a response. Therefore a request that changes nothing is retried once.
    pub(super) async fn send(&self, request: Request<Upload>) -> Result<Response<Incoming>, legacy::Error> {
        let retry = retry_of(&request);
        match (self.0.request(request).await, retry) {
            (Err(error), Some(retry)) if was_closed(&error) => self.0.request(retry).await,
            (answered, _) => answered,
        }
    }
}

/// Copies a request that may be retried: without a body, and with a safe method (RFC 9110, section 9.2.1).
fn retry_of(request: &Request<Upload>) -> Option<Request<Upload>> {
    let mut retry = Request::new(request.body().try_clone()?);
    *retry.method_mut() = request.method().clone();
    *retry.uri_mut() = request.uri().clone();
    *retry.headers_mut() = request.headers().clone();
    request.method().is_safe().then_some(retry)
}

fn was_closed(error: &legacy::Error) -> bool {
    let mut cause = error.source();
    while let Some(error) = cause {
        let is_cut = error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message);
        if is_cut || error.is::<io::Error>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Internal URI of a sandbox's port for [`Upstream`]. Ids are case-sensitive and host names are not, so the id is written in
/// hexadecimal digits.
pub(super) fn uri(sandbox: &SandboxId, port: u16, path: &str) -> Result<Uri, http::Error> {
    let host: String = sandbox.as_str().bytes().map(|byte| format!("{byte:02x}")).collect();
    Uri::builder().scheme("http").authority(format!("{host}:{port}")).path_and_query(path).build()
}

/// Parses an internal URI.
fn target(uri: &Uri) -> Option<(SandboxId, u16)> {
    let digits = uri.host()?.as_bytes().chunks(2);
    let bytes = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let id = String::from_utf8(bytes.collect::<Option<_>>()?).ok()?;
    Some((id.parse().ok()?, uri.port_u16()?))
}

/// Opens tunnels to sandboxes.
#[derive(Clone)]
pub(super) struct Connector {
    service: Arc<Service>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

impl tower::Service<Uri> for Connector {
    type Response = TokioIo<Tunnel>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Self::Response, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let service = Arc::clone(&self.service);
        async move {
            let (sandbox, port) = target(&uri).ok_or(Refusal::NotFound(Resource::Port))?;
            Ok(TokioIo::new(service.previews().connect_port(&sandbox, port).await?))
        }
        .boxed()
    }
}

/// The HTTP client requires it of a connection that it keeps in its pool.
impl Connection for Tunnel {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_parsed_from_its_own_uri() {
        let id: SandboxId = "sbx_0123456789abcdefAB".parse().unwrap();
        let uri = uri(&id, 3000, "/a?b").unwrap();
        assert_eq!((uri.path(), uri.query()), ("/a", Some("b")));
        assert_eq!(target(&uri), Some((id, 3000)));
        assert_eq!(target(&"http://localhost:3000/".parse().unwrap()), None);
    }
}
