//! Client addresses in headers: `X-Forwarded-For`, `Forwarded` (RFC 7239) and `X-Real-IP`.
//!
//! Each header that is present is a chain of its own, because a proxy that sets one passes the others on unchanged. A
//! header with anything but addresses is malformed, because it may be forged.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName, HeaderValue};

/// Maximum number of hops in a header. Real requests have far fewer.
const MAX_HOPS: usize = 32;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// The header is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// Hops, the client first.
pub(super) type Chain = Result<Vec<IpAddr>, Malformed>;

type Read = fn(&str) -> Result<IpAddr, Malformed>;

/// Returns a chain for each kind of header that is present.
pub(super) fn chains(headers: &HeaderMap) -> impl Iterator<Item = Chain> {
    let kinds: [(HeaderName, Read); 3] = [(FORWARDED_FOR, address), (FORWARDED, element), (REAL_IP, address)];
    kinds.into_iter().filter(|(name, _)| headers.contains_key(name)).map(|(name, read)| {
        // `X-Real-IP` has exactly one address. Several are malformed.
        let is_list = name != REAL_IP;
        chain(headers.get_all(&name).iter(), read, is_list)
    })
}

/// Several headers of one name form one list (RFC 9110 section 5.3).
fn chain<'a>(values: impl Iterator<Item = &'a HeaderValue>, read: Read, is_list: bool) -> Chain {
    let mut hops = Vec::new();
    for value in values {
        let value = value.to_str().map_err(|_| Malformed)?;
        let mut rest = Some(value);
        while let Some(text) = rest {
            let (hop, after) = if is_list { cut(text, b',') } else { (text, None) };
            hops.push(read(hop.trim())?);
            rest = after;
            if hops.len() > if is_list { MAX_HOPS } else { 1 } {
                return Err(Malformed);
            }
        }
    }
    Ok(hops)
}

/// Parses an address with an optional port. An IPv6 address with a port has brackets.
fn address(text: &str) -> Result<IpAddr, Malformed> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let address = match bare {
        Some(bare) => bare.parse().map(IpAddr::V6).ok(),
        None => text.parse().ok().or_else(|| text.parse::<SocketAddr>().map(|socket| socket.ip()).ok()),
    };
    address.map(|address| address.to_canonical()).ok_or(Malformed)
}

/// Parses the `for` of one element: `for=192.0.2.60;proto=http` or `for="[2001:db8::1]:4711"`.
fn element(text: &str) -> Result<IpAddr, Malformed> {
    let mut found = None;
    let mut rest = Some(text);
    while let Some(text) = rest {
        let (pair, after) = cut(text, b';');
        rest = after;
        let (name, value) = pair.trim().split_once('=').ok_or(Malformed)?;
        if name.eq_ignore_ascii_case("for") && found.replace(unquoted(value)?).is_some() {
            return Err(Malformed);
        }
    }
    address(found.ok_or(Malformed)?)
}

/// Removes quotes. An address needs no backslashes.
fn unquoted(text: &str) -> Result<&str, Malformed> {
    let inside = match text.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"').ok_or(Malformed)?,
        None => text,
    };
    if inside.contains(['"', '\\']) { Err(Malformed) } else { Ok(inside) }
}

/// Splits at the first separator outside quotes.
fn cut(text: &str, separator: u8) -> (&str, Option<&str>) {
    let mut is_quoted = false;
    for (at, byte) in text.bytes().enumerate() {
        is_quoted ^= byte == b'"';
        if byte == separator && !is_quoted {
            return (&text[..at], Some(&text[at + 1..]));
        }
    }
    (text, None)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn only(name: &str, values: &[&str]) -> Chain {
        let mut headers = HeaderMap::new();
        for value in values {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            headers.append(name.parse::<HeaderName>().unwrap(), value);
        }
        let mut all = chains(&headers);
        let first = all.next().unwrap();
        assert!(all.next().is_none());
        first
    }

    fn hops(texts: &[&str]) -> Chain {
        Ok(texts.iter().map(|text| text.parse().unwrap()).collect())
    }

    #[test]
    fn hops_are_read_in_every_form() {
        let read = |value: &str| only("x-forwarded-for", &[value]);
        assert_eq!(
            read("10.0.0.1,  ::1 ,[::2],10.0.0.2:80, [::3]:80"),
            hops(&["10.0.0.1", "::1", "::2", "10.0.0.2", "::3"])
        );
        assert_eq!(read("::ffff:10.0.0.1"), hops(&["10.0.0.1"]));
        assert_eq!(only("x-forwarded-for", &["::1, ::2", "::3"]), hops(&["::1", "::2", "::3"]));
        assert_eq!(only("x-real-ip", &["10.0.0.1"]), hops(&["10.0.0.1"]));
        let forwarded =
            ["For=10.0.0.1;proto=http;by=x, for=\"[::1]:80\"; host=\"a,b;c\"", "for=\"10.0.0.2\""];
        assert_eq!(only("forwarded", &forwarded), hops(&["10.0.0.1", "::1", "10.0.0.2"]));
    }

    #[test]
    fn other_values_are_invalid() {
        let long = vec!["::1"; MAX_HOPS + 1].join(",");
        let lists = [
            "",
            ",",
            "::1,",
            "unknown",
            "_x",
            "localhost",
            "10.0.0.256",
            "10.0.0.1 10.0.0.2",
            "fe80::1%eth0",
            "[10.0.0.1]",
            "[::1",
            "127.1",
            "0x7f.0.0.1",
            "127.0.0.1:x",
            "\u{e4}",
            &long,
        ];
        for value in lists {
            assert_eq!(only("x-forwarded-for", &[value]), Err(Malformed), "{value:?}");
        }
        for value in ["::1, ::1", "", "unknown"] {
            assert_eq!(only("x-real-ip", &[value]), Err(Malformed), "{value:?}");
        }
        assert_eq!(only("x-real-ip", &["::1", "::1"]), Err(Malformed));
        let elements = [
            "",
            "for",
            "proto=http",
            "for=",
            "for=::1;for=::2",
            "for=\"::1",
            "for=\"\\::1\"",
            "for=unknown",
            "::1",
            "for=::1;;",
            "for=::1, proto=http",
        ];
        for value in elements {
            assert_eq!(only("forwarded", &[value]), Err(Malformed), "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn any_header_is_parsed(value in "[ -~]{0,60}") {
            for name in ["x-forwarded-for", "forwarded", "x-real-ip"] {
                if let Ok(hops) = only(name, &[&value]) {
                    prop_assert!((1..=MAX_HOPS).contains(&hops.len()));
                }
            }
        }
    }
}
