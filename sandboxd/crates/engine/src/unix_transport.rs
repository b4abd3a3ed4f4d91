//! HTTP to the engine over its unix socket.
//!
//! bollard's own transport rejects a socket that does not exist yet. This one opens the socket for each request, so
//! that the daemon can start before its engine does.

use std::path::PathBuf;

use bollard::BollardRequest;
use bollard::errors::Error;
use http::header::HOST;
use http::{HeaderValue, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

/// Name of the engine in URIs and in the `host` header. Only the socket determines the peer.
pub(super) const ORIGIN: &str = "http://engine";

/// Sends one request on a connection of its own. Calls to the engine are few, and some take over their connection.
pub(super) async fn send(path: PathBuf, mut request: BollardRequest) -> Result<Response<Incoming>, Error> {
    let stream = UnixStream::connect(path).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The connection ends with its response, or when the caller drops the request.
    tokio::spawn(connection.with_upgrades());
    let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
    *request.uri_mut() = target.parse::<Uri>()?;
    request.headers_mut().insert(HOST, HeaderValue::from_static("engine"));
    Ok(sender.send_request(request).await?)
}
