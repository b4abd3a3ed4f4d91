//! Connections to ports of sandboxes, for clients with the token.

use axum::Extension;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONNECTION, UPGRADE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use hop_by_hop::is_upgrade;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tracing::debug;

use super::caller::User;
use super::error::{HttpError, Result};
use super::openapi::InPort;
use super::openapi::answers::*;
use super::params::{self, Path};
use super::server::Held;
use crate::service::{self, PreviewUse, Tunnel};

/// Protocol of the connection after the response.
const TCP: HeaderValue = HeaderValue::from_static("tcp");

/// Connect to a port.
///
/// Connects to a port on the sandbox's loopback interface, offered or not, and switches the protocol: after the
/// response, the connection carries the bytes of a TCP connection in both directions. The request needs
/// `connection: upgrade` and `upgrade: tcp`. An open connection keeps the sandbox in use. Wakes the sandbox.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/ports/{port}/tunnel", operation_id = "connectPort", tag = "ports",
    params(InPort), responses((status = 101, description = "The connection is open."), ByName, ByQuery, BySandbox))]
pub(super) async fn connect(
    User(access): User,
    Path((id, port)): Path<(String, String)>,
    Extension(held): Extension<Held>,
    mut request: Request,
) -> Result<Response> {
    let (id, port) = (access.sandbox(params::sandbox(&id)?)?, params::port(&port)?);
    if !is_tunnel(request.headers()) {
        return Err(HttpError::NoTunnel.into());
    }
    let client = hyper::upgrade::on(&mut request);
    // Before the upgrade, so that errors are ordinary responses.
    let (tunnel, used) = access.previews().use_port(&id, port).await?;
    tokio::spawn(carry(client, tunnel, used, held));
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, TCP);
    Ok(response)
}

fn is_tunnel(headers: &HeaderMap) -> bool {
    is_upgrade(headers)
        && headers.get(UPGRADE).is_some_and(|protocol| protocol.as_bytes().eq_ignore_ascii_case(b"tcp"))
}

/// Carries bytes until either end closes the connection or the daemon stops.
async fn carry(client: OnUpgrade, tunnel: Tunnel, used: PreviewUse, held: Held) {
    let carried = async {
        let client = TokioIo::new(client.await.map_err(std::io::Error::other)?);
        service::carry(client, tunnel).await
    };
    tokio::select! {
        carried = carried => {
            if let Err(error) = carried {
                debug!(%error, "a tunnel failed");
            }
        }
        () = held.stopping.cancelled() => {}
    }
    drop(used);
}
