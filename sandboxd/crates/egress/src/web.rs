//! Plain HTTP/1 to a host that may be reached by name. Every request of a connection is checked.
//!
//! hyper reads the heads of both sides and re-frames the bodies. So no ambiguous bytes pass, and a connection may
//! be kept for more requests. Upgrades of a connection (WebSockets, HTTP/2) are removed from requests; they are
//! possible over TLS.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{EXPECT, HOST};
use http::{Method, Request, Response, Version};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self as client, SendRequest};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use listen::linger::Lingering;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, split};
use tokio::net::TcpStream;
use tokio_util::io::{InspectReader, InspectWriter};
use tokio_util::sync::CancellationToken;

use super::{Broken, Expected, Meter, RemoteEndpoint};
use sandboxd_metrics::Direction;
use sandboxd_model::limits;

type Boxed = Box<dyn Error + Send + Sync>;

/// The error of a request for another host.
#[derive(Debug, thiserror::Error)]
#[error("a request is for another host")]
struct ForAnotherHost;

/// Serves one connection until either end closes it.
pub(super) async fn serve<N: AsyncRead + AsyncWrite + Unpin>(
    near: N,
    head: Bytes,
    far: &mut RemoteEndpoint,
    expected: &Expected,
    meter: &Meter,
) -> Result<(), Broken> {
    let (near_reads, near_writes) = split(near);
    let near = tokio::io::join(AsyncReadExt::chain(&head[..], near_reads), near_writes);
    // If a server closes the connection after its response, the client must still be able to read the response. A
    // tunnel that is dropped before its client has closed it is cut off.
    let has_answered = Arc::new(AtomicBool::new(false));
    let answered = Arc::clone(&has_answered);
    let linger =
        move || if answered.load(Ordering::Relaxed) { limits::EGRESS_SILENCE } else { Duration::ZERO };
    let near = Lingering::within(linger, near, CancellationToken::new());
    let early = std::mem::take(&mut far.early);
    let (far_reads, far_writes) = TcpStream::split(&mut far.stream);
    let far_reads = AsyncReadExt::chain(&early[..], far_reads);
    let far_reads = InspectReader::new(far_reads, |bytes: &[u8]| meter.moved(Direction::In, bytes.len()));
    let far_writes = InspectWriter::new(far_writes, |bytes: &[u8]| meter.moved(Direction::Out, bytes.len()));
    let far = TokioIo::new(tokio::io::join(far_reads, far_writes));

    let mut builder = client::Builder::new();
    builder.max_buf_size(limits::MAX_EGRESS_HEAD_BYTES).max_headers(limits::MAX_HEADERS);
    let (sender, far) = builder.handshake(far).await.map_err(reset)?;
    // Taken while a request is running. Requests run one after the other.
    let sender = Mutex::new(Some(sender));
    let service = service_fn(|request| forward(request, expected, &sender, &has_answered));
    let mut builder = server::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits::EGRESS_SILENCE)
        .max_buf_size(limits::MAX_EGRESS_HEAD_BYTES)
        .max_headers(limits::MAX_HEADERS)
        .half_close(true);
    let near = builder.serve_connection(TokioIo::new(near), service);
    let (mut near, mut far) = (std::pin::pin!(near), std::pin::pin!(far));
    tokio::select! {
        served = &mut near => served.map_err(broken),
        // A client that waits for a response receives it. No further request may begin.
        ended = &mut far => {
            near.as_mut().graceful_shutdown();
            near.await.map_err(broken).and(ended.map_err(reset))
        }
    }
}

async fn forward(
    mut request: Request<Incoming>,
    expected: &Expected,
    sender: &Mutex<Option<SendRequest<Incoming>>>,
    has_answered: &AtomicBool,
) -> Result<Response<Incoming>, Boxed> {
    if !is_for(&request, expected) {
        return Err(ForAnotherHost.into());
    }
    hop_by_hop::strip(request.headers_mut());
    // hyper itself answers `Expect: 100-continue` when the body is read.
    request.headers_mut().remove(EXPECT);
    *request.version_mut() = Version::HTTP_11;
    let slot = || sender.lock().unwrap_or_else(PoisonError::into_inner);
    let mut sender = slot().take().ok_or("two requests at once")?;
    sender.ready().await?;
    let mut answer = sender.send_request(request).await?;
    *slot() = Some(sender);
    has_answered.store(true, Ordering::Relaxed);
    hop_by_hop::strip(answer.headers_mut());
    Ok(answer)
}

/// Requires one Host header, and no other host in the request line.
fn is_for(request: &Request<Incoming>, expected: &Expected) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (only, more) = (hosts.next(), hosts.next());
    let is_host = only.and_then(|host| host.to_str().ok()).is_some_and(|host| expected.is_host(host));
    is_host && more.is_none() && request.uri().authority().is_none() && request.method() != Method::CONNECT
}

fn broken(error: hyper::Error) -> Broken {
    let mut cause = error.source();
    while let Some(source) = cause {
        if source.is::<ForAnotherHost>() {
            return Broken::Mismatch;
        }
        cause = source.source();
    }
    reset(error)
}

fn reset(error: hyper::Error) -> Broken {
    Broken::Reset { source: std::io::Error::other(error) }
}
