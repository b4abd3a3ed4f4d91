//! The address of the client of a request, for the layers below.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Extensions;
use axum::middleware::Next;
use axum::response::Response;
use listen::client_address;

use super::server::Peer;
use crate::model::limits;
use crate::model::rates::RateSettings;

/// Address of the client.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientAddress(pub(super) IpAddr);

/// Marks a request that a surface sends for its caller.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfSurface;

/// Address of the client. Requests without one share a single counter.
pub(super) fn peer_of(of: &Extensions) -> IpAddr {
    of.get::<ClientAddress>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |client| client.0)
}

/// Notes the client's address for the layers below. A surface's requests have that of its caller.
pub(super) async fn note(
    State(rates): State<Arc<RateSettings>>,
    mut request: Request,
    next: Next,
) -> Response {
    let extensions = request.extensions();
    if let (Some(peer), None) = (extensions.get::<Peer>(), extensions.get::<ClientAddress>()) {
        let is_proxy = |address| rates.is_proxy(address);
        let client = client_address(peer.0, request.headers(), limits::MAX_FORWARDED, is_proxy);
        request.extensions_mut().insert(ClientAddress(client));
    }
    next.run(request).await
}
