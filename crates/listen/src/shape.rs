//! Rejects requests that two implementations may interpret differently.
//!
//! A proxy, a cache or a filter in front of the program may interpret such a request differently. It may see another
//! host, another end of the head, or another end of the body. Such requests are rejected even if they are harmless.

use http::header::{HOST, TRANSFER_ENCODING};
use http::{Method, Request, Version};

/// Checks that a request is unambiguous. Returns what is wrong with it otherwise.
pub fn check<B>(request: &Request<B>) -> Result<(), &'static str> {
    let headers = request.headers();
    let mut hosts = headers.get_all(HOST).iter();
    let (host, more) = (hosts.next(), hosts.next());
    let is_of_authority = || {
        let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        let host = host.map(|host| host.as_bytes()).unwrap_or_default();
        authority.is_none_or(|authority| authority.eq_ignore_ascii_case(host))
    };
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let (coding, another) = (codings.next(), codings.next());
    let is_chunked = coding.is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    if let Some(InvalidHead(problem)) = request.extensions().get() {
        Err(problem)
    } else if more.is_some() || (host.is_none() && request.version() == Version::HTTP_11) {
        Err("there must be one Host header")
    } else if request.method() == Method::CONNECT || !is_of_authority() {
        Err("the request line must name no other host than the Host header")
    } else if !is_chunked || another.is_some() {
        Err("the only transfer coding is chunked, named once")
    } else {
        Ok(())
    }
}

/// A problem with the bytes of a request's head that hyper's view of it does not show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InvalidHead(pub(crate) &'static str);

/// The state of a head after some of its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All bytes belong to the head, and more follow.
    Continues,
    /// This many bytes belong to the head, and it ends there.
    End(usize),
    /// The head is invalid for this reason.
    Invalid(&'static str),
}

const LENGTH: &[u8] = b"content-length";
const CODING: &[u8] = b"transfer-encoding";

/// Checks the head of a request while its bytes arrive. Rejects line ends other than CR LF, and a second length of
/// the body, because hyper ignores one of them.
#[derive(Debug, Default)]
pub(crate) struct Head {
    last: u8,
    /// Number of bytes of this line, without its end.
    length: usize,
    /// Its first bytes: as many as the longest header name to find, and one more.
    name: Vec<u8>,
    /// Whether there was a non-empty line. Empty lines before the first are skipped (RFC 9112, section 2.2).
    has_begun: bool,
    has_length: bool,
    has_coding: bool,
}

impl Head {
    /// Reads the next bytes. Must not be called after the end or an error.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Part {
        for (at, byte) in bytes.iter().enumerate() {
            match (std::mem::replace(&mut self.last, *byte), *byte) {
                (b'\r', b'\n') if self.length == 0 && self.has_begun => return Part::End(at + 1),
                (b'\r', b'\n') => {
                    self.length = 0;
                    self.name.clear();
                }
                (b'\r', _) | (_, b'\n') => return Part::Invalid("each line of the head must end with CR LF"),
                (_, b'\r') => {}
                (_, byte) => self.read_byte(byte),
            }
            if self.has_length && self.has_coding {
                return Part::Invalid("there must not be both a Content-Length and a Transfer-Encoding");
            }
        }
        Part::Continues
    }

    fn read_byte(&mut self, byte: u8) {
        self.has_begun = true;
        self.length += 1;
        if byte == b':' {
            self.has_length |= self.name.eq_ignore_ascii_case(LENGTH);
            self.has_coding |= self.name.eq_ignore_ascii_case(CODING);
        }
        if self.name.len() <= CODING.len() {
            self.name.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_rejected(version: Version, uri: &str, headers: &[(&str, &str)]) -> bool {
        let request = Request::builder().version(version).uri(uri);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        check(&request.body(()).unwrap()).is_err()
    }

    #[test]
    fn only_unambiguous_requests_pass() {
        let host = ("host", "localhost:1");
        let chunked = ("transfer-encoding", "Chunked");
        for (version, uri, headers) in [
            (Version::HTTP_11, "/", &[host][..]),
            (Version::HTTP_11, "/", &[host, chunked]),
            (Version::HTTP_11, "http://LOCALHOST:1/", &[host]),
            (Version::HTTP_10, "/", &[]),
        ] {
            assert!(!is_rejected(version, uri, headers), "{uri} {headers:?}");
        }
        for (uri, headers) in [
            ("/", &[][..]),
            ("/", &[host, host]),
            ("http://evil.example/", &[host]),
            ("http://localhost:2/", &[host]),
            ("http://localhost:1/", &[]),
            ("/", &[host, ("transfer-encoding", "gzip, chunked")]),
            ("/", &[host, ("transfer-encoding", "gzip")]),
            ("/", &[host, chunked, chunked]),
        ] {
            assert!(is_rejected(Version::HTTP_11, uri, headers), "{uri} {headers:?}");
        }
    }

    /// Reads a head at once, which must give the same result as byte by byte.
    fn read(head: &[u8]) -> Part {
        let at_once = Head::default().read(head);
        let mut single = Head::default();
        let by_bytes = (0..head.len()).map(|at| match single.read(&head[at..=at]) {
            Part::End(1) => Part::End(at + 1),
            other => other,
        });
        let by_bytes = by_bytes.into_iter().find(|part| *part != Part::Continues).unwrap_or(Part::Continues);
        assert_eq!(at_once, by_bytes, "{}", head.escape_ascii());
        at_once
    }

    #[test]
    fn a_head_ends_with_its_first_empty_line() {
        let head = b"\r\n\r\nGET / HTTP/1.1\r\na: b\r\n\r\n";
        assert_eq!(read(&[&head[..], b"body\nof\rany bytes"].concat()), Part::End(head.len()));
        assert_eq!(read(b"GET / HTTP/1.1\r\na"), Part::Continues);
        assert_eq!(read(b"\r\n\r\n"), Part::Continues);
    }

    #[test]
    fn lines_must_end_with_cr_lf() {
        for head in [
            &b"GET / HTTP/1.1\na: b\r\n\r\n"[..],
            b"GET / HTTP/1.1\r\na: b\n\r\n",
            b"GET / HTTP/1.1\r\na: b\r\n\n",
            b"GET / HTTP/1.1\r\na: b\rc: d\r\n\r\n",
            b"\r\nGET / HTTP/1.1\na: b\r\n\r\n",
            b"\r\r\n",
            b"\n",
        ] {
            assert!(matches!(read(head), Part::Invalid(_)), "{}", head.escape_ascii());
        }
    }

    #[test]
    fn a_body_has_one_length() {
        let of = |headers: &str| read(format!("POST / HTTP/1.1\r\n{headers}\r\n").as_bytes());
        for both in [
            "content-length: 3\r\ntransfer-encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nx: y\r\nContent-Length:3\r\n",
        ] {
            assert!(matches!(of(both), Part::Invalid(_)), "{both}");
        }
        for one in [
            "content-length: 3\r\nx-transfer-encoding: chunked\r\n",
            "transfer-encoding: chunked\r\nx: content-length: 3\r\n",
            "content-length: 3\r\ntransfer-encodings: chunked\r\n",
        ] {
            assert!(matches!(of(one), Part::End(_)), "{one}");
        }
    }
}
