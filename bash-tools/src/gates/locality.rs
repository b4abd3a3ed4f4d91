//! Whether a request is from this machine.
//!
//! The socket's peer address decides. Nothing in a request can make it local, because a client can send any header.
//! Its content can only show that it is *not* local. A proxy on this machine is itself local and forwards for others.
//! A local browser may act for a page of another site, by DNS rebinding or by a plain request. Only a proxy that the
//! operator trusts may report a client, and then it must.

use std::net::IpAddr;

use http::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use ipnet::IpNet;

use super::decision::Elsewhere;
use super::forwarded;
use super::head::Head;

const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

pub(super) fn check(head: Head<'_>, trusted: &[IpNet]) -> Result<(), Elsewhere> {
    let peer = head.peer().ok_or(Elsewhere::NoPeer)?;
    let is_proxy = contains(trusted, peer);
    if !is_proxy && !peer.is_loopback() {
        return Err(Elsewhere::Peer);
    }
    let believed = if is_proxy { trusted } else { &[] };
    let mut is_named = false;
    for chain in forwarded::chains(head.headers) {
        is_named = true;
        let is_local = chain.is_ok_and(|chain| is_from_here(&chain, believed));
        is_local.then_some(()).ok_or(Elsewhere::Forwarded)?;
    }
    if is_proxy && !is_named {
        return Err(Elsewhere::Unnamed);
    }
    check_host(head)?;
    check_page(head)
}

/// Whether a chain of hops, client first, starts on this machine. The last hop that is not a trusted proxy is the
/// client. Hops before it come from the client and can only count against it, so all of them must be this machine. If
/// every hop is a proxy, the first one is the client.
fn is_from_here(chain: &[IpAddr], believed: &[IpNet]) -> bool {
    let mut others = chain.iter().filter(|hop| !contains(believed, **hop)).peekable();
    match others.peek() {
        Some(_) => others.all(IpAddr::is_loopback),
        None => chain.first().is_some_and(IpAddr::is_loopback),
    }
}

fn contains(ranges: &[IpNet], address: IpAddr) -> bool {
    ranges.iter().any(|range| range.contains(&address))
}

/// A request without a host is not from a browser, so this check does not apply.
fn check_host(head: Head<'_>) -> Result<(), Elsewhere> {
    let named = head.headers.get_all(HOST).iter().chain(head.headers.get_all(FORWARDED_HOST));
    let is_local = head.uri.authority().is_none_or(|authority| is_this_machine(authority.as_str()))
        && named.map(HeaderValue::to_str).all(|host| host.is_ok_and(is_this_machine));
    is_local.then_some(()).ok_or(Elsewhere::Host)
}

/// A page that a sandbox serves is also on this machine, but on another port. Only the app's own pages are accepted.
/// `Sec-Fetch-Site` is trusted if present, because pages cannot set it. Without it, the page must be of the requested
/// host.
fn check_page(head: Head<'_>) -> Result<(), Elsewhere> {
    let mut sites = head.headers.get_all(FETCH_SITE).iter().peekable();
    let mut origins = head.headers.get_all(ORIGIN).iter();
    let is_own = match sites.peek() {
        Some(_) => {
            sites.all(|site| site == "same-origin" || site == "none")
                && origins.all(|origin| of_origin(origin).is_some_and(is_this_machine))
        }
        None => origins.all(|origin| of_origin(origin).is_some_and(|host| is_request_host(head, host))),
    };
    is_own.then_some(()).ok_or(Elsewhere::Page)
}

fn of_origin(origin: &HeaderValue) -> Option<&str> {
    let origin = origin.to_str().ok()?;
    origin.strip_prefix("http://").or(origin.strip_prefix("https://"))
}

/// Whether a host is the requested one, which is on this machine.
fn is_request_host(head: Head<'_>, host: &str) -> bool {
    let named = head.headers.get(HOST).and_then(|named| named.to_str().ok());
    let named = named.or(head.uri.authority().map(|authority| authority.as_str()));
    is_this_machine(host) && named.is_some_and(|named| named.eq_ignore_ascii_case(host))
}

/// A host in a URL, with any port.
fn is_this_machine(host: &str) -> bool {
    let name_ends = if host.starts_with('[') { host.find(']').map(|end| end + 1) } else { host.find(':') };
    let (name, port) = host.split_at(name_ends.unwrap_or(host.len()));
    let is_port = port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    is_port && ["localhost", "127.0.0.1", "[::1]"].iter().any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::extract::ConnectInfo;
    use http::Request;

    use super::*;

    /// A request from an address, with headers. `believed` are the trusted proxies.
    fn verdict(peer: &str, headers: &[(&str, &str)], believed: &[&str]) -> Result<(), Elsewhere> {
        let mut request = Request::new(());
        let peer: IpAddr = peer.parse().unwrap();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::new(peer, 40_000)));
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            request.headers_mut().append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let believed: Vec<IpNet> = believed.iter().map(|range| range.parse().unwrap()).collect();
        check(Head::of(&request), &believed)
    }

    #[test]
    fn the_peer_address_decides() {
        for here in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(verdict(here, &[], &[]), Ok(()), "{here}");
        }
        for elsewhere in ["192.168.1.5", "0.0.0.0", "::ffff:10.0.0.1", "fe80::1", "::127.0.0.1", "::"] {
            assert_eq!(verdict(elsewhere, &[], &[]), Err(Elsewhere::Peer), "{elsewhere}");
        }
        assert_eq!(check(Head::of(&Request::new(())), &[]), Err(Elsewhere::NoPeer));
    }

    #[test]
    fn a_remote_client_is_never_local() {
        let all: &[(&str, &str)] = &[
            ("host", "localhost"),
            ("x-forwarded-for", "127.0.0.1"),
            ("x-real-ip", "::1"),
            ("forwarded", "for=127.0.0.1"),
            ("x-forwarded-host", "localhost"),
            ("origin", "http://localhost"),
        ];
        for header in all {
            assert_eq!(verdict("10.0.0.9", &[*header], &[]), Err(Elsewhere::Peer), "{header:?}");
            assert_eq!(verdict("10.0.0.9", &[*header], &["10.0.0.1/32"]), Err(Elsewhere::Peer), "{header:?}");
        }
        assert_eq!(verdict("10.0.0.9", all, &[]), Err(Elsewhere::Peer));
    }

    #[test]
    fn a_header_can_mark_a_request_as_remote() {
        let local = |name, value| verdict("127.0.0.1", &[(name, value)], &[]);
        for (name, value) in [
            ("x-forwarded-for", "10.0.0.9"),
            ("x-forwarded-for", "127.0.0.1, 10.0.0.9"),
            ("x-forwarded-for", "10.0.0.9, 127.0.0.1"),
            ("x-forwarded-for", ""),
            ("x-forwarded-for", "unknown"),
            ("x-real-ip", "10.0.0.9"),
            ("x-real-ip", "127.0.0.1, ::1"),
            ("forwarded", "for=10.0.0.9"),
            ("forwarded", "proto=http"),
            ("forwarded", "for=_hidden"),
        ] {
            assert_eq!(local(name, value), Err(Elsewhere::Forwarded), "{name}: {value}");
        }
        assert_eq!(local("x-forwarded-for", "127.0.0.1, ::1"), Ok(()));
        assert_eq!(local("x-real-ip", "127.0.0.1"), Ok(()));
        assert_eq!(local("forwarded", "for=\"[::1]:4711\";proto=http"), Ok(()));
        let both = [("x-forwarded-for", "127.0.0.1"), ("forwarded", "for=10.0.0.9")];
        assert_eq!(verdict("::1", &both, &[]), Err(Elsewhere::Forwarded), "one that says so is enough");
        let twice = [("x-forwarded-for", "127.0.0.1"), ("x-forwarded-for", "10.0.0.9")];
        assert_eq!(verdict("::1", &twice, &[]), Err(Elsewhere::Forwarded));
    }

    #[test]
    fn a_trusted_proxy_reports_its_client() {
        let by =
            |peer, chain: &str, believed: &[&str]| verdict(peer, &[("x-forwarded-for", chain)], believed);
        assert_eq!(by("10.0.0.1", "127.0.0.1", &["10.0.0.1/32"]), Ok(()));
        assert_eq!(by("::ffff:10.0.0.1", "::1", &["10.0.0.0/24"]), Ok(()));
        assert_eq!(by("10.0.0.1", "127.0.0.1, 10.0.0.2", &["10.0.0.0/24"]), Ok(()), "by two proxies");
        assert_eq!(by("127.0.0.1", "127.0.0.1", &["127.0.0.1/32"]), Ok(()));
        let refused = Err(Elsewhere::Forwarded);
        assert_eq!(by("10.0.0.1", "192.168.1.5", &["10.0.0.1/32"]), refused);
        assert_eq!(
            by("10.0.0.1", "127.0.0.1, 192.168.1.5", &["10.0.0.1/32"]),
            refused,
            "the client wrote the first"
        );
        assert_eq!(by("10.0.0.1", "192.168.1.5, 127.0.0.1", &["10.0.0.1/32"]), refused);
        assert_eq!(by("10.0.0.1", "10.0.0.2", &["10.0.0.0/24"]), refused, "a proxy by itself");
        assert_eq!(
            by("127.0.0.1", "127.0.0.1, 10.0.0.2", &["10.0.0.2/32"]),
            refused,
            "the peer is not a proxy"
        );
        assert_eq!(verdict("10.0.0.1", &[], &["10.0.0.1/32"]), Err(Elsewhere::Unnamed));
        assert_eq!(verdict("127.0.0.1", &[], &["127.0.0.0/8"]), Err(Elsewhere::Unnamed));
    }

    #[test]
    fn only_names_of_this_machine_are_accepted() {
        let host = |name, value| verdict("127.0.0.1", &[(name, value)], &[]);
        for good in ["localhost", "LOCALHOST:3000", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:65535"] {
            assert_eq!(host("host", good), Ok(()), "{good}");
            assert_eq!(host("x-forwarded-host", good), Ok(()), "{good}");
        }
        for bad in [
            "chat.example",
            "localhost.chat.example",
            "localhost.",
            "127.0.0.2",
            "::1",
            "[::1",
            "[::1]x",
            "[::2]",
            "localhost:",
            "localhost:x",
            "localhost:65536",
            "a@localhost",
            "localhost@evil",
            "localhost, evil",
            "",
            "\u{e4}",
        ] {
            assert_eq!(host("host", bad), Err(Elsewhere::Host), "{bad}");
            assert_eq!(host("x-forwarded-host", bad), Err(Elsewhere::Host), "{bad}");
        }
        let twice = [("host", "localhost"), ("host", "chat.example")];
        assert_eq!(verdict("127.0.0.1", &twice, &[]), Err(Elsewhere::Host));
        let mut absolute = Request::get("http://chat.example/").body(()).unwrap();
        absolute.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 1))));
        assert_eq!(check(Head::of(&absolute), &[]), Err(Elsewhere::Host));
    }

    #[test]
    fn requests_from_other_sites_are_not_local() {
        let page = |headers: &[(&str, &str)]| {
            verdict("127.0.0.1", &[&[("host", "localhost:3000")], headers].concat(), &[])
        };
        for own in [
            &[("origin", "http://localhost:3000")][..],
            &[("origin", "https://LOCALHOST:3000")],
            &[("sec-fetch-site", "same-origin")],
            &[("sec-fetch-site", "none")],
            // The proxy of a development server keeps the page's origin.
            &[("sec-fetch-site", "same-origin"), ("origin", "http://localhost:5173")],
        ] {
            assert_eq!(page(own), Ok(()), "{own:?}");
        }
        for origin in [
            "https://evil.example",
            "null",
            "",
            "http://localhost.evil.example",
            "file://localhost:3000",
            "http://",
            // A page from a sandbox.
            "http://localhost:42000",
            "http://127.0.0.1:42000",
        ] {
            assert_eq!(page(&[("origin", origin)]), Err(Elsewhere::Page), "{origin}");
        }
        for site in ["cross-site", "same-site", "", "same-origin, none"] {
            assert_eq!(page(&[("sec-fetch-site", site)]), Err(Elsewhere::Page), "{site}");
        }
        let both = [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "same-site")];
        assert_eq!(page(&both), Err(Elsewhere::Page));
        let foreign = [("sec-fetch-site", "same-origin"), ("origin", "https://evil.example")];
        assert_eq!(page(&foreign), Err(Elsewhere::Page));
    }
}
