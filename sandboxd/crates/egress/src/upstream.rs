//! Connections through a proxy of the operator's network.
//!
//! The gate resolves and checks a name where it can. It never asks a proxy for a host that sandboxes may not reach.
//! But the proxy resolves the name again: the operator decides what the proxy reaches.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{HOST, PROXY_AUTHORIZATION};
use http::{Method, Request};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::dial::failed;
use super::{Error, RemoteEndpoint};
use sandboxd_model::{Host, Upstream, limits};

/// Connects to a host through a proxy, with CONNECT.
pub(super) async fn connect(upstream: &Upstream, host: &Host, port: u16) -> Result<RemoteEndpoint, Error> {
    let connected = timeout(limits::EGRESS_CONNECT, connect_untimed(upstream, host, port)).await;
    connected.map_err(|_| Error::Timeout)?
}

async fn connect_untimed(upstream: &Upstream, host: &Host, port: u16) -> Result<RemoteEndpoint, Error> {
    let stream = TcpStream::connect((upstream.host(), upstream.port())).await.map_err(failed)?;
    let io = |error: hyper::Error| Error::Unreachable { source: std::io::Error::other(error) };
    let mut builder = http1::Builder::new();
    builder.max_buf_size(limits::MAX_HEAD_BYTES);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(io)?;
    let driven = tokio::spawn(connection.with_upgrades());
    let answer = sender.send_request(request(upstream, host, port)?).await.map_err(io)?;
    if !answer.status().is_success() {
        driven.abort();
        return Err(Error::Upstream { status: answer.status().as_u16() });
    }
    let upgraded = hyper::upgrade::on(answer).await.map_err(io)?;
    let parts = upgraded.downcast::<TokioIo<TcpStream>>();
    let parts = parts.map_err(|_| Error::Unreachable { source: std::io::ErrorKind::Other.into() })?;
    Ok(RemoteEndpoint::new(parts.io.into_inner(), parts.read_buf))
}

fn request(upstream: &Upstream, host: &Host, port: u16) -> Result<Request<Empty<Bytes>>, Error> {
    let target = host.with_port(port);
    let request = Request::builder().method(Method::CONNECT).uri(&target).header(HOST, &target);
    let request = match upstream.user() {
        Some(user) => request.header(PROXY_AUTHORIZATION, format!("Basic {}", BASE64_STANDARD.encode(user))),
        None => request,
    };
    let request = request.body(Empty::new());
    request.map_err(|error| Error::Unreachable { source: std::io::Error::other(error) })
}
