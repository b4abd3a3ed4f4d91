//! The address of the client of a request, for the layers below.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::Extensions;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use listen::client_address;

use super::server::Peer;
use crate::model::limits;
use crate::model::rates::RateSettings;

/// The protocol that the proxy's client has used.
const FORWARDED_PROTO: &str = "x-forwarded-proto";

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

/// Whether a trusted proxy says that its client has used TLS.
pub(super) fn is_secure(head: &Parts, rates: &RateSettings) -> bool {
    let is_from_proxy = head.extensions.get::<Peer>().is_some_and(|peer| rates.is_proxy(peer.0));
    let last = head.headers.get_all(FORWARDED_PROTO).iter().next_back();
    let last = last.and_then(|value| value.to_str().ok()?.rsplit(',').next());
    is_from_proxy && last.is_some_and(|proto| proto.trim().eq_ignore_ascii_case("https"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trusted_proxies_say_that_a_client_uses_tls() {
        let trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()];
        let rates = RateSettings { trusted_proxies, ..RateSettings::default() };
        for (peer, proto, expected) in [
            ("10.0.0.1", "https", true),
            ("10.0.0.1", "http, HTTPS", true),
            ("10.0.0.1", "https,http", false),
            ("10.0.0.1", "", false),
            ("192.0.2.1", "https", false),
        ] {
            let request = Request::builder().header(FORWARDED_PROTO, proto).body(axum::body::Body::empty());
            let (mut head, _) = request.unwrap().into_parts();
            head.extensions.insert(Peer(peer.parse().unwrap()));
            assert_eq!(is_secure(&head, &rates), expected, "{peer} {proto}");
        }
    }
}
