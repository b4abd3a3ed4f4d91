//! A connection to a host, on which the proxy speaks HTTP for a client.

use bytes::Bytes;
use http::header::{EXPECT, HOST, TRAILER};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response, Uri, Version};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use crate::limits::{PROXY_ANSWER_HEAD_BYTES, PROXY_HEADERS};
use crate::tunnels::desk::{Granted, NearEnd, Wish};
use crate::tunnels::inner;

/// See the module. Its drop hangs up.
pub(super) struct Upstream(http1::SendRequest<Incoming>);

impl Upstream {
    /// Begins to speak HTTP on a connection that is open.
    pub(super) async fn open(granted: Granted) -> Option<Self> {
        let (ours, far) = inner::pair();
        granted.hand_over(NearEnd::Inner(far));
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(PROXY_ANSWER_HEAD_BYTES)
            .max_headers(PROXY_HEADERS)
            .handshake(TokioIo::new(ours))
            .await
            .ok()?;
        // It ends with the sender and the last answer.
        tokio::spawn(connection);
        Some(Self(sender))
    }

    /// Sends a request; gives it back where the connection had gone before.
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

/// Makes a request to a proxy one to the host.
pub(super) fn prepare(request: &mut Request<Incoming>, wish: &Wish) {
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    *request.version_mut() = Version::HTTP_11;
    strip(request.headers_mut());
    let target = wish.target();
    let host = match target.strip_suffix(":80") {
        Some(host) => host.to_owned(),
        None => target,
    };
    // The URL is what counts, whatever the client has put beside it (RFC 9112, section 3.2.2).
    if let Ok(host) = HeaderValue::from_maybe_shared(Bytes::from(host)) {
        request.headers_mut().insert(HOST, host);
    }
}

fn strip(headers: &mut HeaderMap) {
    hop_by_hop::strip(headers);
    // The one is answered here, before the body is read, and the other tells of what is not passed on.
    for name in [EXPECT, TRAILER] {
        headers.remove(name);
    }
}
