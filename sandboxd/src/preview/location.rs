//! Rewrites redirects of a server to itself.
//!
//! An address of the server becomes a path of the preview. The path must not lead to another host. If a path begins with
//! two slashes, or with a slash and a backslash, a browser reads a host name after them. It ignores tabs in between.

use hop_by_hop::{path_on_server, rewrite_locations};
use http::header::HeaderMap;

/// Rewrites redirects of the server on `port` to itself, so that they stay in the preview.
pub(super) fn rewrite_redirects(headers: &mut HeaderMap, port: u16) {
    rewrite_locations(headers, |url| path(url, port));
}

/// Converts an address of the server to a path of the preview.
fn path(url: &[u8], port: u16) -> Option<Vec<u8>> {
    let url: Vec<u8> = url.iter().copied().filter(|byte| *byte != b'\t').collect();
    let rest = path_on_server(&url, port)?;
    let begin: &[u8] = match rest {
        [b'/', b'/' | b'\\', ..] => b"/.",
        [b'/', ..] => b"",
        _ => b"/",
    };
    Some([begin, rest].concat())
}

#[cfg(test)]
mod tests {
    use http::header::{CONTENT_LOCATION, HeaderName, HeaderValue, LOCATION, REFRESH};

    use super::*;

    fn rewritten(name: HeaderName, given: &'static str) -> String {
        let mut headers = HeaderMap::from_iter([(name.clone(), HeaderValue::from_static(given))]);
        rewrite_redirects(&mut headers, 3000);
        headers[name].to_str().unwrap().to_owned()
    }

    #[test]
    fn a_redirect_to_the_server_itself_stays_in_the_preview() {
        for (given, wanted) in [
            ("http://localhost:3000/a", "/a"),
            ("http://127.0.0.1:3000", "/"),
            ("http://localhost:3000?q", "/?q"),
            ("HTTPS://LocalHost:3000/a?b#c", "/a?b#c"),
            ("//localhost:3000/a", "/a"),
            ("http://0.0.0.0:3000/", "/"),
            ("http://[::1]:3000/a", "/a"),
            ("http://[::]:3000/a", "/a"),
            ("/b", "/b"),
        ] {
            assert_eq!(
                (rewritten(LOCATION, given), rewritten(CONTENT_LOCATION, given)),
                (wanted.into(), wanted.into())
            );
        }
    }

    #[test]
    fn other_addresses_are_unchanged() {
        for given in [
            "http://localhost:30001/a",
            "http://localhost/a",
            "http://localhost.evil.example:3000/",
            "http://me@localhost:3000/",
            "https://elsewhere.example/",
            "ws://localhost:3000/",
        ] {
            assert_eq!(rewritten(LOCATION, given), given);
        }
        assert_eq!(path(b"http://localhost/a", 80), Some(b"/a".to_vec()));
    }

    #[test]
    fn a_redirect_to_the_server_never_leads_to_another_host() {
        for (given, wanted) in [
            ("http://localhost:3000//evil.example/", "/.//evil.example/"),
            ("http://localhost:3000/\\evil.example/", "/./\\evil.example/"),
            ("http://localhost:3000/\t/evil.example/", "/.//evil.example/"),
            ("http://localhost:3000\t//evil.example/", "/.//evil.example/"),
        ] {
            assert_eq!(rewritten(LOCATION, given), wanted);
        }
    }

    #[test]
    fn a_refresh_stays_in_the_preview() {
        for (given, wanted) in [
            ("5; url=http://localhost:3000/a", "5; url=/a"),
            ("0;URL = 'http://127.0.0.1:3000//evil.example'", "0; url=/.//evil.example"),
            ("0, url=\"http://localhost:3000\"", "0; url=/"),
            ("5", "5"),
            ("5; url=/a", "5; url=/a"),
            ("5; url=http://elsewhere.example/", "5; url=http://elsewhere.example/"),
        ] {
            assert_eq!(rewritten(REFRESH, given), wanted);
        }
    }
}
