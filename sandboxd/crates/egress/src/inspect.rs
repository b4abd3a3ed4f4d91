//! Checks that a process sends only what is for its requested host.
//!
//! If only named hosts may be reached, a connection to one of them must not be used for another host of the same
//! server. So the server name of TLS and the Host header of plain HTTP must be the requested host. On ports 80 and
//! 443 only these two protocols pass. On a port that a rule names, other protocols pass too, except what a server
//! could take for one of the two.

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use super::hello::{self, Hello};
use super::request_line::{self, FirstLine};
use sandboxd_model::network::WEB_PORTS;
use sandboxd_model::{Host, limits};

/// The requested host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// A name or an address.
    pub host: Host,
    /// From 1.
    pub port: u16,
}

/// The protocol of a connection, by its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// It passes unread.
    Opaque,
    /// TLS with the right name.
    Tls {
        /// Length of the client's hello in bytes.
        hello: usize,
    },
    /// Another protocol, by its first bytes.
    Other,
    /// HTTP/1. Every request must be checked.
    Http,
}

/// The data is for another host, or names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mismatch;

impl Expected {
    /// Whether the server may speak first.
    pub(super) fn may_be_spoken_to(&self) -> bool {
        !WEB_PORTS.contains(&self.port)
    }

    /// Reads the beginning of what a client sends into `read`, as far as needed. Reads nothing if the client sends
    /// nothing.
    pub(super) async fn look<R: AsyncRead + Unpin>(
        &self,
        from: &mut R,
        read: &mut BytesMut,
    ) -> Result<Protocol, Mismatch> {
        // A client that sends nothing does no harm.
        let mut is_over = from.read_buf(read).await.map_err(|_| Mismatch)? == 0;
        let rest = async {
            loop {
                let is_all = is_over || read.len() >= limits::MAX_INSPECTED_BYTES;
                match self.judge(read) {
                    Some(verdict) => return verdict,
                    // A client that sends only half of it may send the other half to another host.
                    None if is_all => return Err(Mismatch),
                    None => is_over = from.read_buf(read).await.map_err(|_| Mismatch)? == 0,
                }
            }
        };
        timeout(limits::EGRESS_INSPECT, rest).await.unwrap_or(Err(Mismatch))
    }

    /// `None` if more bytes are needed.
    fn judge(&self, read: &[u8]) -> Option<Result<Protocol, Mismatch>> {
        if read.is_empty() {
            return Some(Ok(Protocol::Opaque));
        }
        if hello::is_tls(read) {
            return match hello::read(read) {
                Hello::Incomplete => None,
                Hello::Complete { name, length } if self.is_for(name.as_deref()) => {
                    Some(Ok(Protocol::Tls { hello: length }))
                }
                Hello::Complete { .. } | Hello::Malformed => Some(Err(Mismatch)),
            };
        }
        if hello::is_like_tls(read)? {
            return Some(Err(Mismatch));
        }
        match request_line::read(read) {
            FirstLine::Incomplete => None,
            FirstLine::Http => Some(Ok(Protocol::Http)),
            FirstLine::Malformed => Some(Err(Mismatch)),
            FirstLine::Other => Some(self.otherwise()),
        }
    }

    fn otherwise(&self) -> Result<Protocol, Mismatch> {
        if self.may_be_spoken_to() { Ok(Protocol::Other) } else { Err(Mismatch) }
    }

    /// A client that connects to an address sends no name (RFC 6066, section 3).
    pub(super) fn is_for(&self, server_name: Option<&str>) -> bool {
        match (&self.host, server_name) {
            (Host::Name(_), Some(name)) => Host::parse(name).as_ref() == Ok(&self.host),
            (Host::Address(_), None) => true,
            (Host::Name(_), None) | (Host::Address(_), Some(_)) => false,
        }
    }

    /// Whether the Host header names the host.
    pub(super) fn is_host(&self, header: &str) -> bool {
        let (host, port) = match header.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().ok()),
            _ => (header, Some(self.port)),
        };
        port == Some(self.port) && Host::parse(host).as_ref() == Ok(&self.host)
    }
}

/// Whether the first bytes of a server can be HTTP: the settings that HTTP/2 begins with, or an unsolicited
/// response. If there are only a few bytes, the worst case is assumed.
pub(super) fn is_http_server(first: &[u8]) -> bool {
    let is_settings = matches!(first, [0] | [0, _] | [0, _, _] | [0, _, _, 4, ..]);
    let answer = b"HTTP/";
    let common = first.len().min(answer.len());
    is_settings || (common > 0 && first[..common] == answer[..common])
}

#[cfg(test)]
mod tests {
    use super::super::hello::tests::hello;
    use super::*;

    fn expected(host: &str, port: u16) -> Expected {
        Expected { host: Host::parse(host).unwrap(), port }
    }

    async fn look(expected: &Expected, sent: &[u8]) -> Result<Protocol, Mismatch> {
        let mut read = BytesMut::new();
        let looked = expected.look(&mut &sent[..], &mut read).await;
        assert!(sent.starts_with(&read));
        looked
    }

    #[tokio::test]
    async fn tls_must_have_the_requested_host() {
        let right = expected("example.com", 443);
        let tls = Protocol::Tls { hello: hello("example.com").len() };
        assert_eq!(look(&right, &hello("example.com")).await, Ok(tls));
        assert_eq!(look(&right, &hello("EXAMPLE.com")).await, Ok(tls));
        for other in
            ["evil.org", "example.com.evil.org", "a.example.com", "", "93.184.216.34", "example.com\0"]
        {
            assert_eq!(look(&right, &hello(other)).await, Err(Mismatch), "{other}");
        }
        let cut = hello("example.com");
        assert_eq!(look(&right, &cut[..cut.len() - 1]).await, Err(Mismatch));
        let endless = [&[22, 3, 1, 0x40, 0][..], &[1, 0xff, 0xff, 0xff], &[0; 0x4000 - 4]].concat().repeat(9);
        assert_eq!(look(&right, &endless).await, Err(Mismatch));
        assert_eq!(look(&expected("1.1.1.1", 443), &hello("example.com")).await, Err(Mismatch));
    }

    #[tokio::test]
    async fn only_tls_and_http_pass_on_web_ports() {
        let web = expected("example.com", 80);
        assert_eq!(look(&web, b"GET / HTTP/1.1\r\nHost: evil.org\r\n\r\n").await, Ok(Protocol::Http));
        assert_eq!(look(&web, b"").await, Ok(Protocol::Opaque));
        let git = expected("example.com", 22);
        for other in [&b"SSH-2.0-x\r\n"[..], b"\0\0\x01", b"AMQP\0\0\x09\x01", b"PING\r\n"] {
            assert_eq!(look(&web, other).await, Err(Mismatch), "{other:?}");
            assert_eq!(look(&git, other).await, Ok(Protocol::Other), "{other:?}");
        }
        for http in [&b"\r\n\r\nGET / HTTP/1.1\r\n"[..], b"get / HTTP/1.1\r\n", b"GET / HTTP/1.0\n\n"] {
            assert_eq!(look(&git, http).await, Ok(Protocol::Http), "{http:?}");
        }
        let ambiguous = [
            &b"GET /\r\n"[..],
            b"GET / HTTP/1.1 \r\n",
            b"PRI * HTTP/2.0\r\n\r\n",
            b"\x15\x03\x01\x00\x02\x01\x00",
            b"\x80\x2e\x01\x03\x01",
        ];
        for line in ambiguous {
            assert_eq!(look(&git, line).await, Err(Mismatch), "some server accepts it: {line:?}");
        }
        for half in [
            &b"GET / HTT"[..],
            b"\r\n",
            b"\x15",
            b"\x80\x2e\x01",
            &hello("evil.org")[..9],
            &[b'x'; limits::MAX_INSPECTED_BYTES + 1],
        ] {
            assert_eq!(look(&git, half).await, Err(Mismatch), "incomplete data is rejected: {half:?}");
        }
        assert_eq!(look(&git, &hello("evil.org")).await, Err(Mismatch), "TLS names its server on every port");
    }

    #[test]
    fn http_is_recognized_by_the_first_bytes_of_the_server() {
        for http in [&b"\0\0\x12\x04\0\0\0\0\0"[..], b"\0\0", b"HTTP/1.1 408 ", b"HTT"] {
            assert!(is_http_server(http), "{http:?}");
        }
        // The last one is MySQL.
        for other in [&b""[..], b"SSH-2.0-x", b"220 mail", b"Hello", b"J\0\0\0\x0a8.0.36"] {
            assert!(!is_http_server(other), "{other:?}");
        }
    }

    #[test]
    fn a_host_header_must_match_name_and_port() {
        let web = expected("example.com", 80);
        for right in ["example.com", "Example.com.", "example.com:80"] {
            assert!(web.is_host(right), "{right}");
        }
        for wrong in [
            "evil.org",
            "example.com:81",
            "example.com:",
            "a.example.com",
            "",
            "example.com:80:80",
            "user@example.com",
        ] {
            assert!(!web.is_host(wrong), "{wrong}");
        }
        assert!(expected("2606:4700::1", 8080).is_host("[2606:4700::1]:8080"));
        assert!(expected("2606:4700::1", 80).is_host("[2606:4700:0::1]"));
        assert!(!expected("2606:4700::1", 80).is_host("2606:4700::1"));
    }
}
