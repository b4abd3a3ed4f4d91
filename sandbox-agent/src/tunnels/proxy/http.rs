//! HTTP/1 to the proxy: CONNECT, and requests with a whole URL.
//!
//! hyper reads both sides' heads and frames both sides' bodies anew, so what is ambiguous in a request cannot be smuggled
//! through. A client's connection may go on after a request; the connection to a host that served the last one is kept
//! for the next.

use std::convert::Infallible;
use std::sync::Arc;

use agent_protocol::v1::Via;
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::Client;
use super::upstream::{self, Upstream};
use crate::limits::{HAND_OVER, PROXY_HEAD_BYTES, PROXY_HEADERS};
use crate::tunnels::desk::{Desk, Granted, NearEnd, Wish};
use crate::tunnels::refusal::Refusal;

type Answer = Response<Either<Incoming, Full<Bytes>>>;

const HTTP_PORT: u16 = 80;

const NO_PAGES: &str =
    "this is a proxy: use it by HTTP_PROXY and HTTPS_PROXY, or as socks5h; it serves no pages\n";

/// Serves one client until it leaves, or until its connection is a tunnel's.
pub(super) async fn serve(client: Client, desk: Arc<Desk>) {
    let patience = desk.patience.head;
    let session = Arc::new(Session { desk, kept: Mutex::new(None) });
    let service = service_fn(move |request| {
        let session = Arc::clone(&session);
        async move { Ok::<_, Infallible>(session.answer(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(PROXY_HEAD_BYTES)
        .max_headers(PROXY_HEADERS)
        // A client may have said all it has to say and still wait for the answer.
        .half_close(true)
        .serve_connection(TokioIo::new(client), service)
        .with_upgrades();
    // How it ended is the client's business.
    let _ = connection.await;
}

/// What one client's requests share.
struct Session {
    desk: Arc<Desk>,
    /// Locked by one request at a time, as they come one after the other.
    kept: Mutex<Option<(Wish, Upstream)>>,
}

impl Session {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let wish = match Self::wish(&request) {
            Ok(wish) => wish,
            Err(line) => return plain(StatusCode::BAD_REQUEST, line),
        };
        let done = match wish.via {
            Via::Connect => self.connect(&wish, request).await,
            Via::Http | Via::Socks | Via::Unspecified => self.forward(&wish, request).await,
        };
        done.unwrap_or_else(|refusal| refused(&refusal, &wish))
    }

    /// What is asked for, or a line that says why it is nothing for a proxy.
    fn wish(request: &Request<Incoming>) -> Result<Wish, String> {
        let uri = request.uri();
        let host = uri.host().unwrap_or_default();
        let names_port = uri.authority().is_some_and(|authority| !authority.as_str().ends_with(host));
        // One that is no number of a port is none at all.
        let port = |default| uri.port_u16().unwrap_or(if names_port { 0 } else { default });
        let invalid = |_| format!("{uri}: this is not a host and a port\n");
        match uri.scheme_str() {
            _ if request.method() == Method::CONNECT => {
                Wish::new(host, port(0), Via::Connect).map_err(invalid)
            }
            Some("http") => Wish::new(host, port(HTTP_PORT), Via::Http).map_err(invalid),
            Some(scheme) => {
                Err(format!("this proxy carries http, and everything else by CONNECT; not {scheme}\n"))
            }
            None => Err(NO_PAGES.into()),
        }
    }

    /// Opens a tunnel and gives it the client's connection once the client has heard of it.
    async fn connect(&self, wish: &Wish, mut request: Request<Incoming>) -> Result<Answer, Refusal> {
        let granted = self.desk.ask(wish).await?;
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            if let Ok(Ok(upgraded)) = timeout(HAND_OVER, upgrade).await {
                hand_over(granted, upgraded);
            }
        });
        Ok(Response::new(Either::Right(Full::default())))
    }

    async fn forward(&self, wish: &Wish, mut request: Request<Incoming>) -> Result<Answer, Refusal> {
        let mut kept = self.kept.lock().await;
        let kept_for_it = kept.take().filter(|(host, _)| host == wish);
        upstream::prepare(&mut request, wish);
        if let Some((_, mut upstream)) = kept_for_it {
            match upstream.send(request).await {
                Ok(response) => {
                    *kept = Some((wish.clone(), upstream));
                    return Ok(response.map(Either::Left));
                }
                // It had gone before anything was sent.
                Err(Some(unsent)) => request = unsent,
                Err(None) => return Ok(broken(wish)),
            }
        }
        let Some(mut upstream) = Upstream::open(self.desk.ask(wish).await?).await else {
            return Ok(broken(wish));
        };
        let Ok(response) = upstream.send(request).await else {
            return Ok(broken(wish));
        };
        *kept = Some((wish.clone(), upstream));
        Ok(response.map(Either::Left))
    }
}

fn hand_over(granted: Granted, upgraded: hyper::upgrade::Upgraded) {
    if let Ok(parts) = upgraded.downcast::<TokioIo<Client>>() {
        granted.hand_over(NearEnd::Client(parts.io.into_inner(), parts.read_buf));
    }
}

fn refused(refusal: &Refusal, wish: &Wish) -> Answer {
    let mut answer = plain(refusal.status(), refusal.line(wish));
    answer.extensions_mut().insert(refusal.phrase());
    answer
}

fn broken(wish: &Wish) -> Answer {
    plain(StatusCode::BAD_GATEWAY, format!("{}: the host did not answer as HTTP does\n", wish.target()))
}

fn plain(status: StatusCode, line: String) -> Answer {
    let mut answer = Response::new(Either::Right(Full::from(line)));
    *answer.status_mut() = status;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, plain);
    answer
}
