//! Hosts as processes name them: a name or an address, in one spelling.
//!
//! A text that looks like a number in any of the notations of `inet_aton` (decimal, octal, hexadecimal, fewer than
//! four parts) is not a name. It must be an address in the usual notation. So a resolver never receives a number,
//! and nothing is compared in two spellings.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use idna::AsciiDenyList;

/// Maximum length of a name in bytes, without the last dot (RFC 1035, section 2.3.4).
const MAX_NAME_BYTES: usize = 253;
/// Maximum length of a label in bytes.
const MAX_LABEL_BYTES: usize = 63;

/// A host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// In lower case, in IDNA's ASCII form, without a trailing dot.
    Name(String),
    /// An address.
    Address(IpAddr),
}

/// Why a text is not a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAHost {
    /// A number in some notation, but not an address in the usual one.
    #[error("must be an address with four decimal numbers, or a name")]
    Number,
    /// An address with a zone.
    #[error("must be an address without a zone")]
    Zone,
    /// Neither a name nor an address.
    #[error("must be a host name or an address")]
    Name,
}

impl Host {
    /// Reads a host, with or without brackets around an IPv6 address.
    pub fn parse(text: &str) -> Result<Self, NotAHost> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        if let Some(bare) = bare {
            return ipv6(bare);
        }
        if text.contains(':') {
            return ipv6(text);
        }
        // First, because IDNA also turns other characters into digits and dots.
        let name =
            idna::domain_to_ascii_cow(text.as_bytes(), AsciiDenyList::URL).map_err(|_| NotAHost::Name)?;
        let name = name.strip_suffix('.').unwrap_or(&name);
        let last = name.rsplit('.').next().unwrap_or_default();
        if is_number(last) {
            // For an address alone, the standard library accepts only the usual notation.
            return name.parse::<Ipv4Addr>().map(|it| Self::Address(it.into())).map_err(|_| NotAHost::Number);
        }
        if is_name(name) { Ok(Self::Name(name.to_owned())) } else { Err(NotAHost::Name) }
    }

    /// With a port, as in a URL.
    pub fn with_port(&self, port: u16) -> String {
        match self {
            Self::Address(IpAddr::V6(address)) => format!("[{address}]:{port}"),
            other => format!("{other}:{port}"),
        }
    }
}

impl fmt::Display for Host {
    /// Without brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

fn ipv6(text: &str) -> Result<Host, NotAHost> {
    if text.contains('%') {
        return Err(NotAHost::Zone);
    }
    text.parse::<Ipv6Addr>().map(|it| Host::Address(it.into())).map_err(|_| NotAHost::Name)
}

/// Whether a name that ends in it would be read as an address (as URLs have it: digits, or hexadecimal ones).
fn is_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x");
    let is_hexadecimal = hexadecimal.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    is_hexadecimal || (!label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Letters, digits, dashes and underscores between dots.
fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=MAX_LABEL_BYTES).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    text.len() <= MAX_NAME_BYTES && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use std::net::ToSocketAddrs;

    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> Result<Host, NotAHost> {
        Ok(Host::Name(text.into()))
    }

    #[test]
    fn a_name_has_one_spelling() {
        assert_eq!(Host::parse("Example.COM."), name("example.com"));
        assert_eq!(Host::parse("BÜCHER.example"), name("xn--bcher-kva.example"));
        assert_eq!(Host::parse("xn--bcher-kva.example"), name("xn--bcher-kva.example"));
        assert_eq!(Host::parse("a。example．com"), name("a.example.com"));
        assert_eq!(Host::parse("_x.example.com"), name("_x.example.com"));
        for bad in ["", ".", "a..b", "example.com..", ".a", "a b", "a/b", "a@b", "a?b", "a#b", "a%41", "a\\b"]
        {
            assert_eq!(Host::parse(bad), Err(NotAHost::Name), "{bad:?}");
        }
        assert_eq!(Host::parse(&"a".repeat(64)), Err(NotAHost::Name));
        assert_eq!(Host::parse(&"a.".repeat(127)), name(&"a.".repeat(127)[..253]));
        assert_eq!(Host::parse(&"a.".repeat(128)), Err(NotAHost::Name));
    }

    #[test]
    fn an_address_has_one_notation() {
        let address = |text: &str| Ok(Host::Address(text.parse().unwrap()));
        assert_eq!(Host::parse("127.0.0.1"), address("127.0.0.1"));
        assert_eq!(Host::parse("127.0.0.1."), address("127.0.0.1"));
        assert_eq!(Host::parse("１２７.0.0.1"), address("127.0.0.1"));
        assert_eq!(Host::parse("[::1]"), address("::1"));
        assert_eq!(Host::parse("::FFFF:127.0.0.1"), address("::ffff:127.0.0.1"));
        let others = [
            "2130706433",
            "0x7f000001",
            "0X7F.1",
            "017700000001",
            "127.1",
            "127.0.1",
            "0177.0.0.1",
            "0x7f.0.0.1",
            "127.0.0.01",
            "127.0.0.0x1",
            "256.0.0.1",
            "1.2.3.4.5",
            "0",
            "0x",
            "00000000177.1",
            "example.1",
            "4294967296",
            "１２７．１",
            "0x7f.0x0.0x0.0x1",
        ];
        for other in others {
            assert_eq!(Host::parse(other), Err(NotAHost::Number), "{other}");
        }
        for zone in ["fe80::1%eth0", "[fe80::1%1]", "::1%lo"] {
            assert_eq!(Host::parse(zone), Err(NotAHost::Zone), "{zone}");
        }
        for bad in ["[127.0.0.1]", "[example.com]", "[]", ":", "::1]", "1:2", "[::1]:80"] {
            assert_eq!(Host::parse(bad), Err(NotAHost::Name), "{bad}");
        }
    }

    proptest! {
        /// The system's own parser of numbers rejects whatever is accepted as a name.
        #[test]
        fn no_name_is_a_number_to_the_operating_system(text in "(0[xX])?[0-9a-fA-FxX]{0,11}(\\.(0[xX])?[0-9a-fA-F]{0,9}){0,4}\\.?") {
            if let Ok(Host::Name(name)) = Host::parse(&text) {
                // Numbers only: the look-up of a name would query the network.
                let only_digits = name.split('.').all(is_number);
                prop_assert!(!only_digits, "{name}");
                let last = name.rsplit('.').next().unwrap_or_default();
                prop_assert!(!is_number(last), "{name}");
            }
        }

        #[test]
        fn a_host_survives_a_round_trip(text in "\\PC{0,40}") {
            if let Ok(host) = Host::parse(&text) {
                prop_assert_eq!(Host::parse(&host.to_string()), Ok(host));
            }
        }
    }

    #[test]
    fn rejected_numbers_are_addresses_to_the_operating_system() {
        // Shows that the test above is meaningful. These texts reach 127.0.0.1 unless they are rejected.
        for text in ["2130706433", "0x7f000001", "017700000001", "127.1"] {
            let mut found = (text, 80).to_socket_addrs().unwrap();
            assert!(found.any(|address| address.ip().is_loopback()), "{text}");
        }
    }
}
