//! A connection to a host over which the proxy sends a client's HTTP requests.

use bytes::Bytes;
use http::header::{EXPECT, HOST, TRAILER};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response, Uri, Version};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use crate::limits::{PROXY_HEADERS, PROXY_RESPONSE_HEAD_BYTES};
use crate::tunnels::duplex;
use crate::tunnels::pending::{NearEnd, OpenConnection, OutboundTarget};

/// An HTTP connection to a host. Dropping it closes the connection.
pub(super) struct Upstream(http1::SendRequest<Incoming>);

impl Upstream {
    /// Starts HTTP on an open connection.
    pub(super) async fn open(connection: OpenConnection) -> Option<Self> {
        let (local, remote) = duplex::pair();
        connection.attach(NearEnd::Http(remote));
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(PROXY_RESPONSE_HEAD_BYTES)
            .max_headers(PROXY_HEADERS)
            .handshake(TokioIo::new(local))
            .await
            .ok()?;
        // The task ends with the sender and the last response.
        tokio::spawn(connection);
        Some(Self(sender))
    }

    /// Sends a request. Returns it if the connection was closed before.
    pub(super) async fn send(
        &mut self,
        request: Request<Incoming>,
    ) -> Result<Response<Incoming>, Option<Request<Incoming>>> {
        if self.0.ready().await.is_err() {
            return Err(Some(request));
        }
        match self.0.try_send_request(request).await {
            Ok(mut response) => {
                strip(response.headers_mut());
                Ok(response)
            }
            Err(mut error) => Err(error.take_message()),
        }
    }
}

/// Turns a request to a proxy into a request to the host.
pub(super) fn prepare(request: &mut Request<Incoming>, target: &OutboundTarget) {
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    *request.version_mut() = Version::HTTP_11;
    strip(request.headers_mut());
    let target = target.authority();
    let host = match target.strip_suffix(":80") {
        Some(host) => host.to_owned(),
        None => target,
    };
    // The URL decides, whatever Host header the client has sent (RFC 9112, section 3.2.2).
    if let Ok(host) = HeaderValue::from_maybe_shared(Bytes::from(host)) {
        request.headers_mut().insert(HOST, host);
    }
}

fn strip(headers: &mut HeaderMap) {
    hop_by_hop::strip(headers);
    // The proxy answers Expect before it reads the body, and Trailer announces fields that are not passed on.
    for name in [EXPECT, TRAILER] {
        headers.remove(name);
    }
}
