//! Rewrites redirects of a server to itself.
//!
//! A server knows itself as `localhost` and redirects there, with or without a scheme. Such an address becomes a path
//! of the preview. The path must not lead to another host. If a path begins with two slashes, or with a slash and a
//! backslash, a browser reads a host name after them. It ignores tabs in between.

use http::header::{CONTENT_LOCATION, HeaderMap, HeaderName, HeaderValue, LOCATION, REFRESH};

/// Names of the server on its own machine, and addresses that it may listen on.
const OWN_NAMES: [&str; 5] = ["localhost", "127.0.0.1", "[::1]", "0.0.0.0", "[::]"];

/// Rewrites redirects of the server on `port` to itself, so that they stay in the preview.
pub(super) fn rewrite_redirects(headers: &mut HeaderMap, port: u16) {
    for name in [LOCATION, CONTENT_LOCATION] {
        replace(headers, name, |value| path(value, port));
    }
    replace(headers, REFRESH, |value| refresh(value, port));
}

fn replace(headers: &mut HeaderMap, name: HeaderName, with: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    if let Some(value) = headers.get(&name).and_then(|value| with(value.as_bytes())) {
        match HeaderValue::try_from(value) {
            Ok(value) => drop(headers.insert(name, value)),
            Err(_) => drop(headers.remove(name)),
        }
    }
}

/// Returns the part after the origin in an address of the server on `port`: empty, or beginning with `/`, `?` or `#`. `None`
/// for any other address.
pub(super) fn path_on_server(url: &[u8], port: u16) -> Option<&[u8]> {
    let schemes = [("http:", Some(80)), ("https:", Some(443)), ("", None)];
    let (rest, default) =
        schemes.iter().find_map(|(scheme, default)| Some((after(url, scheme)?, *default)))?;
    let rest = after(rest, "//")?;
    let rest = OWN_NAMES.iter().find_map(|name| after(rest, name))?;
    let rest = match after(rest, &format!(":{port}")) {
        Some(rest) => rest,
        None => Some(rest).filter(|_| default == Some(port))?,
    };
    (rest.is_empty() || rest.starts_with(b"/") || rest.starts_with(b"?") || rest.starts_with(b"#"))
        .then_some(rest)
}

/// Returns the text after `begin`, which is compared without case.
fn after<'a>(text: &'a [u8], begin: &str) -> Option<&'a [u8]> {
    let (head, rest) = text.split_at_checked(begin.len())?;
    head.eq_ignore_ascii_case(begin.as_bytes()).then_some(rest)
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

/// Converts the value of a Refresh header that leads to the server (HTML, section 7.4.6): seconds, and an address with or
/// without quotes.
fn refresh(value: &[u8], port: u16) -> Option<Vec<u8>> {
    let at = value.iter().position(|byte| matches!(byte, b';' | b','))?;
    let (seconds, rest) = value.split_at(at);
    let url = after(rest[1..].trim_ascii(), "url")?.trim_ascii().strip_prefix(b"=")?.trim_ascii();
    let url = match url {
        [quote @ (b'\'' | b'"'), url @ ..] => url.split(|byte| byte == quote).next()?,
        url => url,
    };
    Some([seconds, b"; url=", &path(url.trim_ascii(), port)?].concat())
}

#[cfg(test)]
mod tests {
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
