//! Addresses in a server's answer that are the server's own, as a visitor has them.
//!
//! A server knows itself as `localhost` and says so, with or without a scheme. What is left of such an address is a path
//! of the preview, and nothing else: a browser takes what begins with two slashes, or with a slash and a backslash, for
//! another host, and passes over tabs in between.

use http::header::{CONTENT_LOCATION, HeaderMap, HeaderName, HeaderValue, LOCATION, REFRESH};

/// The names that a server has on its own machine, and those that it may have been told to listen on.
const OWN_NAMES: [&str; 5] = ["localhost", "127.0.0.1", "[::1]", "0.0.0.0", "[::]"];

/// Makes redirects of the server on `port` to itself such that stay in the preview.
pub(super) fn lead_back(headers: &mut HeaderMap, port: u16) {
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

/// What follows the origin in an address of the server on `port`: nothing, or what begins with `/`, `?` or `#`.
pub(super) fn beneath(url: &[u8], port: u16) -> Option<&[u8]> {
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

/// What follows `begin`, in whatever case.
fn after<'a>(text: &'a [u8], begin: &str) -> Option<&'a [u8]> {
    let (head, rest) = text.split_at_checked(begin.len())?;
    head.eq_ignore_ascii_case(begin.as_bytes()).then_some(rest)
}

/// The path of the preview that an address of the server is.
fn path(url: &[u8], port: u16) -> Option<Vec<u8>> {
    let url: Vec<u8> = url.iter().copied().filter(|byte| *byte != b'\t').collect();
    let rest = beneath(&url, port)?;
    let begin: &[u8] = match rest {
        [b'/', b'/' | b'\\', ..] => b"/.",
        [b'/', ..] => b"",
        _ => b"/",
    };
    Some([begin, rest].concat())
}

/// The value of a Refresh header that leads to the server (HTML, section 7.4.6): seconds, and an address with or without
/// quotes.
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

    fn led(name: HeaderName, said: &'static str) -> String {
        let mut headers = HeaderMap::from_iter([(name.clone(), HeaderValue::from_static(said))]);
        lead_back(&mut headers, 3000);
        headers[name].to_str().unwrap().to_owned()
    }

    #[test]
    fn a_redirect_to_the_server_itself_stays_in_the_preview() {
        for (said, wanted) in [
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
            assert_eq!((led(LOCATION, said), led(CONTENT_LOCATION, said)), (wanted.into(), wanted.into()));
        }
    }

    #[test]
    fn what_is_elsewhere_stays_elsewhere() {
        for said in [
            "http://localhost:30001/a",
            "http://localhost/a",
            "http://localhost.evil.example:3000/",
            "http://me@localhost:3000/",
            "https://elsewhere.example/",
            "ws://localhost:3000/",
        ] {
            assert_eq!(led(LOCATION, said), said);
        }
        assert_eq!(path(b"http://localhost/a", 80), Some(b"/a".to_vec()));
    }

    #[test]
    fn no_redirect_to_the_server_becomes_one_to_another_host() {
        for (said, wanted) in [
            ("http://localhost:3000//evil.example/", "/.//evil.example/"),
            ("http://localhost:3000/\\evil.example/", "/./\\evil.example/"),
            ("http://localhost:3000/\t/evil.example/", "/.//evil.example/"),
            ("http://localhost:3000\t//evil.example/", "/.//evil.example/"),
        ] {
            assert_eq!(led(LOCATION, said), wanted);
        }
    }

    #[test]
    fn a_page_that_leads_on_leads_to_the_preview() {
        for (said, wanted) in [
            ("5; url=http://localhost:3000/a", "5; url=/a"),
            ("0;URL = 'http://127.0.0.1:3000//evil.example'", "0; url=/.//evil.example"),
            ("0, url=\"http://localhost:3000\"", "0; url=/"),
            ("5", "5"),
            ("5; url=/a", "5; url=/a"),
            ("5; url=http://elsewhere.example/", "5; url=http://elsewhere.example/"),
        ] {
            assert_eq!(led(REFRESH, said), wanted);
        }
    }
}
