//! The address of the client of a request.
//!
//! Behind a reverse proxy, the socket's peer is the proxy. `X-Forwarded-For` then names the client, but only if the proxy is
//! one of the operator's: anyone can send the header.

use std::net::IpAddr;

use http::HeaderMap;

/// Each proxy appends the address of its own client.
const FORWARDED_FOR: &str = "x-forwarded-for";

/// The last address that is not one of a trusted proxy's: a client can put any addresses before its own. If it cannot be read,
/// the proxy that sent it. At most `max_read` addresses are read, from the end.
pub fn client_address(
    peer: IpAddr,
    headers: &HeaderMap,
    max_read: usize,
    is_proxy: impl Fn(IpAddr) -> bool,
) -> IpAddr {
    let mut client = peer;
    let lines: Vec<&[u8]> = headers.get_all(FORWARDED_FOR).iter().map(|value| value.as_bytes()).collect();
    let entries = lines.iter().rev().flat_map(|line| line.rsplit(|byte| *byte == b','));
    for entry in entries.take(max_read) {
        if !is_proxy(client) {
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
    use http::HeaderValue;

    use super::*;

    const MAX_READ: usize = 32;

    /// `10.0.0.0/8` and `fd00::/8`.
    fn is_proxy(address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => address.octets()[0] == 10,
            IpAddr::V6(address) => address.octets()[0] == 0xfd,
        }
    }

    fn client(peer: &str, lines: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(FORWARDED_FOR, HeaderValue::from_str(line).unwrap());
        }
        client_address(peer.parse().unwrap(), &headers, MAX_READ, is_proxy).to_string()
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
        let long = vec!["10.0.0.9"; MAX_READ + 1].join(",");
        assert_eq!(client("10.0.0.1", &[&format!("192.0.2.7,{long}")]), "10.0.0.9");
    }
}
