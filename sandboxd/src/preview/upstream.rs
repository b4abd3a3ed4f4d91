//! Connections to servers in sandboxes, kept open between requests.

use std::error::Error as _;
use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
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
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::body::Upload;
use crate::model::{Refusal, Resource, limits};
use crate::service::{Error, Service, Tunnel};

/// Speaks HTTP/1.1 with what listens in sandboxes.
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

    /// What the server answers. It may have closed a connection that was kept just when the request was on its way, and
    /// nobody can tell that from one that it ends instead of an answer. So what does no harm is asked twice.
    pub(super) async fn ask(&self, request: Request<Upload>) -> Result<Response<Incoming>, legacy::Error> {
        let again = again(&request);
        match (self.0.request(request).await, again) {
            (Err(error), Some(again)) if was_closed(&error) => self.0.request(again).await,
            (answered, _) => answered,
        }
    }
}

/// The same request, if it has no body and its method is safe (RFC 9110, section 9.2.1).
fn again(request: &Request<Upload>) -> Option<Request<Upload>> {
    let mut again = Request::new(request.body().again()?);
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.headers_mut() = request.headers().clone();
    request.method().is_safe().then_some(again)
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

/// The URI under which [`Upstream`] knows a port of a sandbox. Hosts have no case and ids do, so an id is written in
/// hexadecimal digits.
pub(super) fn uri(sandbox: &SandboxId, port: u16, path: &str) -> Result<Uri, http::Error> {
    let host: String = sandbox.as_str().bytes().map(|byte| format!("{byte:02x}")).collect();
    Uri::builder().scheme("http").authority(format!("{host}:{port}")).path_and_query(path).build()
}

fn target(uri: &Uri) -> Option<(SandboxId, u16)> {
    let digits = uri.host()?.as_bytes().chunks(2);
    let bytes = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let id = String::from_utf8(bytes.collect::<Option<_>>()?).ok()?;
    Some((id.parse().ok()?, uri.port_u16()?))
}

/// Opens tunnels.
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
    type Response = TokioIo<Inward>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Self::Response, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let service = Arc::clone(&self.service);
        async move {
            let (sandbox, port) = target(&uri).ok_or(Refusal::NotFound(Resource::Port))?;
            Ok(TokioIo::new(Inward(service.previews().connect_port(&sandbox, port).await?)))
        }
        .boxed()
    }
}

/// A tunnel, as something that a client of HTTP can keep.
pub(super) struct Inward(Tunnel);

impl Connection for Inward {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Inward {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Inward {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_a_uri_of_its_own_that_leads_back() {
        let id: SandboxId = "sbx_0123456789abcdefAB".parse().unwrap();
        let uri = uri(&id, 3000, "/a?b").unwrap();
        assert_eq!((uri.path(), uri.query()), ("/a", Some("b")));
        assert_eq!(target(&uri), Some((id, 3000)));
        assert_eq!(target(&"http://localhost:3000/".parse().unwrap()), None);
    }
}
