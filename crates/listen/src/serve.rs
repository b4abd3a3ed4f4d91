//! Serves one HTTP/1.1 connection, from its first request to its end.
//!
//! A connection is kept open between requests, and a header tells its client for how long (`keep-alive: timeout=…`).
//! It is closed a little later than that, so that a request sent in the last moment is not lost. A response after
//! which the connection closes has `connection: close`.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONNECTION, HeaderName, HeaderValue};
use http::{Request, Response, StatusCode, Version};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::heads::Heads;
use crate::linger::Lingering;
use crate::shape::{self, InvalidHead};
use crate::slot::{BusyBody, ConnectionSlot};
use crate::timeouts::TimedStream;
pub use crate::timeouts::Timeouts;

/// How long a connection is kept open between two requests. Longer than common clients keep theirs (90 seconds), so
/// that the client closes it.
pub const KEEP_ALIVE: Duration = Duration::from_secs(120);

/// How much longer a connection stays open than the header says.
pub const KEEP_ALIVE_GRACE: Duration = Duration::from_secs(5);

const KEEP_ALIVE_HEADER: HeaderName = HeaderName::from_static("keep-alive");
const KEEP_ALIVE_VALUE: HeaderValue = HeaderValue::from_static("timeout=120");

/// Limits of a request and its connection.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Time for the head of a request.
    pub head: Duration,
    /// Maximum number of headers.
    pub max_headers: usize,
    /// Size of the read buffer in bytes. A head must fit into it.
    pub read_bytes: usize,
}

/// Serves a connection until either end closes it, or `slot` is evicted. If `stop` is cancelled, it ends after the
/// current response. Each request has the slot among its extensions. An upgrade ends it too.
pub async fn serve<F, B>(
    stream: TcpStream,
    slot: Arc<ConnectionSlot>,
    bounds: Bounds,
    stop: CancellationToken,
    respond: impl Fn(Request<Incoming>) -> F,
) -> Result<(), hyper::Error>
where
    F: Future<Output = Response<B>>,
    B: Body + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let service = service_fn(|mut request: Request<Incoming>| {
        let busy = slot.busy();
        slot.expect_body(request.body().size_hint().exact());
        if let Some(problem) = slot.head_problem() {
            request.extensions_mut().insert(InvalidHead(problem));
        }
        request.extensions_mut().insert(Arc::clone(&slot));
        let is_kept = allows_keep_alive(&request);
        let is_invalid = shape::check(&request).is_err();
        let respond = respond(request);
        let (slot, stop) = (&slot, &stop);
        async move {
            let mut response = respond.await;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                slot.upgrade();
            }
            set_connection_headers(
                &mut response,
                is_kept,
                is_invalid || stop.is_cancelled() || slot.is_short_lived(),
            );
            Ok::<_, Infallible>(response.map(|body| BusyBody::new(body, busy)))
        }
    });
    let timeouts = Timeouts { head: bounds.head, idle: KEEP_ALIVE + KEEP_ALIVE_GRACE };
    let stream = Heads::new(Lingering::new(stream, stop.clone()), Arc::clone(&slot));
    let stream = TimedStream::new(stream, Arc::clone(&slot), timeouts);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // `TimedStream` enforces it.
        .header_read_timeout(None)
        .max_headers(bounds.max_headers)
        .max_buf_size(bounds.read_bytes)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => ended,
        () = slot.evicted() => Ok(()),
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    }
}

/// Whether a client may send another request on its connection. HTTP/1.0 clients that ask for that are rare.
fn allows_keep_alive<B>(request: &Request<B>) -> bool {
    let mut options = request
        .headers()
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    request.version() == Version::HTTP_11
        && !options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

/// Sets the headers of a response that say whether its connection stays open.
fn set_connection_headers<B>(response: &mut Response<B>, is_kept: bool, is_last: bool) {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS || !is_kept {
        return;
    }
    let headers = response.headers_mut();
    if is_last {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    } else if !headers.contains_key(CONNECTION) {
        headers.insert(KEEP_ALIVE_HEADER, KEEP_ALIVE_VALUE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keep_alive_header_states_the_timeout() {
        let header = KEEP_ALIVE_VALUE;
        assert_eq!(header.to_str().unwrap(), format!("timeout={}", KEEP_ALIVE.as_secs()));
    }

    #[test]
    fn connection_close_disables_keep_alive() {
        let asks = |version, connection: &'static str| {
            let request = Request::builder().version(version).header(CONNECTION, connection);
            allows_keep_alive(&request.body(()).unwrap())
        };
        assert!(asks(Version::HTTP_11, "keep-alive") && asks(Version::HTTP_11, "upgrade"));
        assert!(!asks(Version::HTTP_11, "Close") && !asks(Version::HTTP_11, "x, close"));
        assert!(!asks(Version::HTTP_10, "x"));
    }

    #[test]
    fn a_response_states_whether_its_connection_stays_open() {
        let headers_of = |status: u16, is_kept, own: Option<&'static str>, is_last| {
            let mut response = Response::builder().status(status).body(()).unwrap();
            let own = own.map(|own| (CONNECTION, HeaderValue::from_static(own)));
            response.headers_mut().extend(own);
            set_connection_headers(&mut response, is_kept, is_last);
            let get =
                |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            (get("connection"), get("keep-alive"))
        };
        let (close, kept) = (Some("close".to_owned()), Some("timeout=120".to_owned()));
        assert_eq!(headers_of(200, true, None, false), (None, kept));
        assert_eq!(headers_of(200, true, None, true), (close.clone(), None));
        assert_eq!(headers_of(200, true, Some("close"), false), (close, None));
        assert_eq!(headers_of(101, true, Some("upgrade"), true), (Some("upgrade".into()), None));
        assert_eq!(headers_of(200, false, None, false), (None, None));
    }
}
