//! One connection of HTTP/1.1, from its first request to its end.
//!
//! A connection is kept between requests, and its client is told for how long (`keep-alive: timeout=…`). It is closed a
//! little later than said, so that a request which a client sends in the last moment is not lost. An answer after which
//! the connection will not be kept says so (`connection: close`).

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
pub use crate::pace::Pace;
use crate::pace::Paced;
use crate::shape::{self, OddHead};
use crate::waiting::{BusyBody, Seat};

/// How long a connection is kept between two requests: longer than the common clients keep theirs (90 seconds), so that it
/// is the client that closes it.
pub const KEEP_ALIVE: Duration = Duration::from_secs(120);

/// How much longer it stays open than its client is told.
pub const KEEP_ALIVE_GRACE: Duration = Duration::from_secs(5);

const KEEP_ALIVE_HEADER: HeaderName = HeaderName::from_static("keep-alive");
const KEEP_ALIVE_VALUE: HeaderValue = HeaderValue::from_static("timeout=120");

/// What one request and its connection may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Time for the head of a request.
    pub head: Duration,
    /// Headers of a request.
    pub max_headers: usize,
    /// What is read of the connection at once, in bytes; a head must be in it.
    pub read_bytes: usize,
}

/// Answers the requests of a connection until either end leaves, `seat` is needed for another or `stop` is cancelled and
/// the request under way is answered. Each request has the seat among its extensions. An upgrade ends it, too.
pub async fn serve<F, B>(
    stream: TcpStream,
    seat: Arc<Seat>,
    bounds: Bounds,
    stop: CancellationToken,
    answer: impl Fn(Request<Incoming>) -> F,
) -> Result<(), hyper::Error>
where
    F: Future<Output = Response<B>>,
    B: Body + Unpin + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let service = service_fn(|mut request: Request<Incoming>| {
        let busy = seat.busy();
        seat.expect_body(request.body().size_hint().exact());
        if let Some(problem) = seat.problem_of_head() {
            request.extensions_mut().insert(OddHead(problem));
        }
        request.extensions_mut().insert(Arc::clone(&seat));
        let is_kept = asks_to_keep(&request);
        let is_odd = shape::check(&request).is_err();
        let answer = answer(request);
        let (seat, stop) = (&seat, &stop);
        async move {
            let mut response = answer.await;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                seat.upgrade();
            }
            tell(&mut response, is_kept, is_odd || stop.is_cancelled() || seat.is_short_lived());
            Ok::<_, Infallible>(response.map(|body| BusyBody::new(body, busy)))
        }
    });
    let pace = Pace { head: bounds.head, idle: KEEP_ALIVE + KEEP_ALIVE_GRACE };
    let stream = Heads::new(Lingering::new(stream, stop.clone()), Arc::clone(&seat));
    let stream = Paced::new(stream, Arc::clone(&seat), pace);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // The stream sees to it.
        .header_read_timeout(None)
        .max_headers(bounds.max_headers)
        .max_buf_size(bounds.read_bytes)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => ended,
        () = seat.hung_up() => Ok(()),
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    }
}

/// Whether a client may send another request on its connection. Those of HTTP/1.0 that would say so are few.
fn asks_to_keep<B>(request: &Request<B>) -> bool {
    let mut options = request
        .headers()
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    request.version() == Version::HTTP_11
        && !options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"))
}

/// Says in an answer whether its connection is kept.
fn tell<B>(response: &mut Response<B>, is_kept: bool, is_last: bool) {
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
    fn the_header_says_what_is_kept() {
        let said = KEEP_ALIVE_VALUE;
        assert_eq!(said.to_str().unwrap(), format!("timeout={}", KEEP_ALIVE.as_secs()));
    }

    #[test]
    fn who_asks_for_the_connections_end_is_not_told_that_it_is_kept() {
        let asks = |version, connection: &'static str| {
            let request = Request::builder().version(version).header(CONNECTION, connection);
            asks_to_keep(&request.body(()).unwrap())
        };
        assert!(asks(Version::HTTP_11, "keep-alive") && asks(Version::HTTP_11, "upgrade"));
        assert!(!asks(Version::HTTP_11, "Close") && !asks(Version::HTTP_11, "x, close"));
        assert!(!asks(Version::HTTP_10, "x"));
    }

    #[test]
    fn an_answer_says_whether_its_connection_is_kept() {
        let told = |status: u16, is_kept, own: Option<&'static str>, is_last| {
            let mut response = Response::builder().status(status).body(()).unwrap();
            let own = own.map(|own| (CONNECTION, HeaderValue::from_static(own)));
            response.headers_mut().extend(own);
            tell(&mut response, is_kept, is_last);
            let get =
                |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            (get("connection"), get("keep-alive"))
        };
        let (close, kept) = (Some("close".to_owned()), Some("timeout=120".to_owned()));
        assert_eq!(told(200, true, None, false), (None, kept));
        assert_eq!(told(200, true, None, true), (close.clone(), None));
        assert_eq!(told(200, true, Some("close"), false), (close, None));
        assert_eq!(told(101, true, Some("upgrade"), true), (Some("upgrade".into()), None));
        assert_eq!(told(200, false, None, false), (None, None));
    }
}
