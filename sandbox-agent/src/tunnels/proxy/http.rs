//! HTTP/1 to the proxy: CONNECT, and requests with a whole URL.
//!
//! hyper parses the heads and re-frames the bodies of both sides, so an ambiguous request cannot be smuggled through.
//! A client's connection may stay open after a request. The connection to the host of the last request is kept for
//! the next one.

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

use super::upstream::{self, Upstream};
use crate::limits::{PROXY_HEAD_BYTES, PROXY_HEADERS, PROXY_REPLY};
use crate::tunnels::client::Client;
use crate::tunnels::pending::{NearEnd, OpenConnection, OutboundTarget, PendingConnections};
use crate::tunnels::refusal::Refusal;

type ProxyResponse = Response<Either<Incoming, Full<Bytes>>>;

const HTTP_PORT: u16 = 80;

const NO_PAGES: &str =
    "this is a proxy: set HTTP_PROXY and HTTPS_PROXY to it, or use it as socks5h; it serves no pages\n";

/// Serves one client until it disconnects or its connection becomes a tunnel.
pub(super) async fn serve(client: Client, pending: Arc<PendingConnections>) {
    let head_timeout = pending.timeouts.head;
    let session = Arc::new(Session { pending, last_upstream: Mutex::new(None) });
    let service = service_fn(move |request| {
        let session = Arc::clone(&session);
        async move { Ok::<_, Infallible>(session.respond(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .max_buf_size(PROXY_HEAD_BYTES)
        .max_headers(PROXY_HEADERS)
        // A client may have sent everything and still wait for the response.
        .half_close(true)
        .serve_connection(TokioIo::new(client), service)
        .with_upgrades();
    // An error here concerns only the client.
    let _ = connection.await;
}

/// State that one client's requests share.
struct Session {
    pending: Arc<PendingConnections>,
    /// Locked by one request at a time, because requests arrive one after the other.
    last_upstream: Mutex<Option<(OutboundTarget, Upstream)>>,
}

impl Session {
    async fn respond(&self, request: Request<Incoming>) -> ProxyResponse {
        let target = match Self::target(&request) {
            Ok(target) => target,
            Err(line) => return plain(StatusCode::BAD_REQUEST, line),
        };
        let done = match target.via {
            Via::Connect => self.connect(&target, request).await,
            Via::Http | Via::Socks | Via::Unspecified => self.forward(&target, request).await,
        };
        done.unwrap_or_else(|refusal| refused(&refusal, &target))
    }

    /// Returns the target of a request, or an error line if the request is not for a proxy.
    fn target(request: &Request<Incoming>) -> Result<OutboundTarget, String> {
        let uri = request.uri();
        let host = uri.host().unwrap_or_default();
        let names_port = uri.authority().is_some_and(|authority| !authority.as_str().ends_with(host));
        // A port that is not a number is invalid.
        let port = |default| uri.port_u16().unwrap_or(if names_port { 0 } else { default });
        let invalid = |_| format!("{uri}: this is not a valid host and port\n");
        match uri.scheme_str() {
            _ if request.method() == Method::CONNECT => {
                OutboundTarget::new(host, port(0), Via::Connect).map_err(invalid)
            }
            Some("http") => OutboundTarget::new(host, port(HTTP_PORT), Via::Http).map_err(invalid),
            Some(scheme) => {
                Err(format!("this proxy supports http URLs, and CONNECT for everything else; not {scheme}\n"))
            }
            None => Err(NO_PAGES.into()),
        }
    }

    /// Opens a tunnel, and attaches the client's connection once the client has received the response.
    async fn connect(
        &self,
        target: &OutboundTarget,
        mut request: Request<Incoming>,
    ) -> Result<ProxyResponse, Refusal> {
        let connection = self.pending.request(target).await?;
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            if let Ok(Ok(upgraded)) = timeout(PROXY_REPLY, upgrade).await {
                attach(connection, upgraded);
            }
        });
        Ok(Response::new(Either::Right(Full::default())))
    }

    async fn forward(
        &self,
        target: &OutboundTarget,
        mut request: Request<Incoming>,
    ) -> Result<ProxyResponse, Refusal> {
        let mut last_upstream = self.last_upstream.lock().await;
        let reusable = last_upstream.take().filter(|(host, _)| host == target);
        upstream::prepare(&mut request, target);
        if let Some((_, mut upstream)) = reusable {
            match upstream.send(request).await {
                Ok(response) => {
                    *last_upstream = Some((target.clone(), upstream));
                    return Ok(response.map(Either::Left));
                }
                // The kept connection was closed before anything was sent.
                Err(Some(unsent)) => request = unsent,
                Err(None) => return Ok(broken(target)),
            }
        }
        let Some(mut upstream) = Upstream::open(self.pending.request(target).await?).await else {
            return Ok(broken(target));
        };
        let Ok(response) = upstream.send(request).await else {
            return Ok(broken(target));
        };
        *last_upstream = Some((target.clone(), upstream));
        Ok(response.map(Either::Left))
    }
}

fn attach(connection: OpenConnection, upgraded: hyper::upgrade::Upgraded) {
    if let Ok(parts) = upgraded.downcast::<TokioIo<Client>>() {
        connection.attach(NearEnd::Client(parts.io.into_inner(), parts.read_buf));
    }
}

fn refused(refusal: &Refusal, target: &OutboundTarget) -> ProxyResponse {
    let mut respond = plain(refusal.status(), refusal.line(&target.authority()));
    respond.extensions_mut().insert(refusal.phrase());
    respond
}

fn broken(target: &OutboundTarget) -> ProxyResponse {
    plain(StatusCode::BAD_GATEWAY, format!("{}: the host sent no valid HTTP response\n", target.authority()))
}

fn plain(status: StatusCode, line: String) -> ProxyResponse {
    let mut respond = Response::new(Either::Right(Full::from(line)));
    *respond.status_mut() = status;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    respond.headers_mut().insert(http::header::CONTENT_TYPE, plain);
    respond
}
