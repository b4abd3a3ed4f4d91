//! Requests that two readers would read in two ways.
//!
//! A front, a cache or a filter before a program may take another host, another end of the head or another end of the body
//! from such a request than the program does. So they are refused, however they are meant.

use std::sync::Arc;

use http::header::{HOST, TRANSFER_ENCODING};
use http::{Method, Request, Version};

use crate::waiting::Seat;

/// Whether everybody reads the request in one way; otherwise what is wrong with it.
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
    if request.extensions().get::<Arc<Seat>>().is_some_and(|seat| seat.has_odd_head()) {
        Err("each line of the head must end with CR LF")
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

/// Looks for ends of lines in the head of a request that are not CR LF, as the bytes come.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    last: u8,
    /// Since the last end of a line.
    length: usize,
    is_over: bool,
}

impl Lines {
    /// Whether there is one among the next bytes.
    pub(crate) fn are_odd(&mut self, bytes: &[u8]) -> bool {
        for byte in bytes {
            let last = std::mem::replace(&mut self.last, *byte);
            match (self.is_over, last, *byte) {
                (true, ..) => return false,
                (_, b'\r', b'\n') => {
                    self.is_over = self.length == 0;
                    self.length = 0;
                }
                (_, b'\r', _) | (_, _, b'\n') => return true,
                (_, _, b'\r') => {}
                _ => self.length += 1,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(version: Version, uri: &str, headers: &[(&str, &str)]) -> bool {
        let request = Request::builder().version(version).uri(uri);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        check(&request.body(()).unwrap()).is_err()
    }

    #[test]
    fn only_what_all_read_in_one_way_passes() {
        let host = ("host", "localhost:1");
        let chunked = ("transfer-encoding", "Chunked");
        for (version, uri, headers) in [
            (Version::HTTP_11, "/", &[host][..]),
            (Version::HTTP_11, "/", &[host, chunked]),
            (Version::HTTP_11, "http://LOCALHOST:1/", &[host]),
            (Version::HTTP_10, "/", &[]),
        ] {
            assert!(!is_refused(version, uri, headers), "{uri} {headers:?}");
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
            assert!(is_refused(Version::HTTP_11, uri, headers), "{uri} {headers:?}");
        }
    }

    #[test]
    fn lines_end_in_one_way_however_they_come() {
        let odd = |head: &[u8]| {
            let mut lines = Lines::default();
            let at_once = Lines::default().are_odd(head);
            let by_bytes = head.iter().any(|byte| lines.are_odd(&[*byte]));
            assert_eq!(at_once, by_bytes, "{}", head.escape_ascii());
            at_once
        };
        assert!(!odd(b"GET / HTTP/1.1\r\na: b\r\n\r\nbody\nof\rany bytes"));
        assert!(!odd(b"GET / HTTP/1.1\r\na"));
        for head in [
            &b"GET / HTTP/1.1\na: b\r\n\r\n"[..],
            b"GET / HTTP/1.1\r\na: b\n\r\n",
            b"GET / HTTP/1.1\r\na: b\r\n\n",
            b"GET / HTTP/1.1\r\na: b\rc: d\r\n\r\n",
            b"\n",
        ] {
            assert!(odd(head), "{}", head.escape_ascii());
        }
    }
}
