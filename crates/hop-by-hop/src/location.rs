//! Addresses in a response that lead back to its server.
//!
//! A server knows itself as `localhost` and redirects there, with or without a scheme.

use http::header::{CONTENT_LOCATION, HeaderMap, HeaderName, HeaderValue, LOCATION, REFRESH};

/// Names of the server on its own machine, and addresses that it may listen on.
const OWN_NAMES: [&str; 5] = ["localhost", "127.0.0.1", "[::1]", "0.0.0.0", "[::]"];

/// Replaces the addresses in the headers for which `rewrite` returns another one.
pub fn rewrite_locations(headers: &mut HeaderMap, rewrite: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    for name in [LOCATION, CONTENT_LOCATION] {
        replace(headers, name, &rewrite);
    }
    replace(headers, REFRESH, |value| refresh(value, &rewrite));
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
pub fn path_on_server(url: &[u8], port: u16) -> Option<&[u8]> {
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

/// Rewrites the address in the value of a Refresh header (HTML, section 7.4.6): seconds, and an address with or without
/// quotes.
fn refresh(value: &[u8], rewrite: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let at = value.iter().position(|byte| matches!(byte, b';' | b','))?;
    let (seconds, rest) = value.split_at(at);
    let url = after(rest[1..].trim_ascii(), "url")?.trim_ascii().strip_prefix(b"=")?.trim_ascii();
    let url = match url {
        [quote @ (b'\'' | b'"'), url @ ..] => url.split(|byte| byte == quote).next()?,
        url => url,
    };
    Some([seconds, b"; url=", &rewrite(url.trim_ascii())?].concat())
}
