//! The address of the client of a request.
//!
//! Behind a reverse proxy, the socket's peer is the proxy. `X-Forwarded-For` then names the client, but only if the proxy is
//! one of the operator's: anyone can send the header.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{Extensions, HeaderMap};
use axum::middleware::Next;
use axum::response::Response;

use super::server::Peer;
use crate::model::limits;
use crate::model::rates::RateSettings;

/// Each proxy appends the address of its own client.
const FORWARDED_FOR: &str = "x-forwarded-for";

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
        let client = of(peer.0, request.headers(), &rates);
        request.extensions_mut().insert(ClientAddress(client));
    }
    next.run(request).await
}

/// The last address that is not one of a trusted proxy's: a client can put any addresses before its own. If it cannot be read,
/// the proxy that sent it.
fn of(peer: IpAddr, headers: &HeaderMap, rates: &RateSettings) -> IpAddr {
    let mut client = peer;
    let lines: Vec<&[u8]> = headers.get_all(FORWARDED_FOR).iter().map(|value| value.as_bytes()).collect();
    let entries = lines.iter().rev().flat_map(|line| line.rsplit(|byte| *byte == b','));
    for entry in entries.take(limits::MAX_FORWARDED) {
        if !rates.is_proxy(client) {
            break;
        }
        match address(entry) {
            Some(address) => client = address,
            None => break,
        }
    }
    client
}

/// An address, perhaps with a port.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?.trim();
    let with_port = || text.parse::<std::net::SocketAddr>().map(|address| address.ip());
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    bare.parse().or_else(|_| with_port()).ok()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn client(peer: &str, lines: &[&str]) -> String {
        let trusted_proxies = vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()];
        let rates = RateSettings { trusted_proxies, ..RateSettings::default() };
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED_FOR, HeaderValue::from_str(line).unwrap());
        }
        of(peer.parse().unwrap(), &headers, &rates).to_string()
    }

    #[test]
    fn only_trusted_proxies_name_the_client() {
        for (peer, lines, expected) in [
            ("10.0.0.1", &["192.0.2.7"][..], "192.0.2.7"),
            ("10.0.0.1", &["198.51.100.9, 192.0.2.7"], "192.0.2.7"),
            ("10.0.0.1", &["192.0.2.7, 10.0.0.2"], "192.0.2.7"),
            ("10.0.0.1", &["192.0.2.7", "10.0.0.2,10.0.0.3"], "192.0.2.7"),
            ("10.0.0.1", &["[2001:db8::7]:443"], "2001:db8::7"),
            ("10.0.0.1", &["192.0.2.7:80"], "192.0.2.7"),
            ("fd00::1", &["2001:db8::7"], "2001:db8::7"),
            ("::ffff:10.0.0.1", &["192.0.2.7"], "192.0.2.7"),
            ("10.0.0.1", &["10.0.0.2"], "10.0.0.2"),
            // Not from a proxy, or not an address.
            ("192.0.2.1", &["192.0.2.7"], "192.0.2.1"),
            ("10.0.0.1", &["unknown"], "10.0.0.1"),
            ("10.0.0.1", &["192.0.2.7, unknown, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &[], "10.0.0.1"),
        ] {
            assert_eq!(client(peer, lines), expected, "{peer} {lines:?}");
        }
    }

    #[test]
    fn a_long_header_is_read_to_a_limit() {
        let long = vec!["10.0.0.9"; limits::MAX_FORWARDED + 1].join(",");
        assert_eq!(client("10.0.0.1", &[&format!("192.0.2.7,{long}")]), "10.0.0.9");
    }
}
