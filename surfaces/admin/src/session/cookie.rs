//! The cookie of a session.
//!
//! Browsers send a host's cookies to all of its ports, and accept them from all, over plain HTTP. So the cookie alone
//! changes nothing: a form must also have what only a page of the session contains. Over TLS, the prefix `__Host-` makes
//! the browser accept the cookie from this host only (RFC 6265bis section 4.1.3.2). It requires the path `/`.

use ::cookie::{Cookie, SameSite};
use http::HeaderMap;
use http::header::{COOKIE, HeaderValue};

use super::secret::Secret;
use crate::limits::AGE;

const NAME: &str = "sandboxd_admin";
const SECURE_NAME: &str = "__Host-sandboxd_admin";

/// The request has several cookies of the name. Another server on this host may have set one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Several;

/// Returns the value of the session's cookie, if there is one.
pub(crate) fn read(headers: &HeaderMap, is_secure: bool) -> Result<Option<String>, Several> {
    let mut found = None;
    for header in headers.get_all(COOKIE) {
        let text = header.to_str().unwrap_or_default();
        let cookies = Cookie::split_parse(text).flatten().filter(|cookie| cookie.name() == name(is_secure));
        for cookie in cookies {
            if found.replace(cookie.value().to_owned()).is_some() {
                return Err(Several);
            }
        }
    }
    Ok(found)
}

/// Returns the value of `set-cookie` for a new session.
pub(crate) fn set(secret: &Secret, is_secure: bool) -> HeaderValue {
    header(secret.expose(), i64::try_from(AGE.as_secs()).unwrap_or(i64::MAX), is_secure)
}

/// Returns the value of `set-cookie` that removes the cookie.
pub(crate) fn remove(is_secure: bool) -> HeaderValue {
    header("", 0, is_secure)
}

fn header(value: &str, seconds: i64, is_secure: bool) -> HeaderValue {
    let path = if is_secure { "/" } else { "/admin" };
    let cookie = Cookie::build((name(is_secure), value)).path(path).http_only(true);
    let cookie = cookie.max_age(::cookie::time::Duration::seconds(seconds));
    let cookie = cookie.same_site(SameSite::Strict).secure(is_secure).build();
    HeaderValue::from_str(&cookie.to_string()).expect("names and secrets are ASCII")
}

fn name(is_secure: bool) -> &'static str {
    if is_secure { SECURE_NAME } else { NAME }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_from(headers: &[&str], is_secure: bool) -> Result<Option<String>, Several> {
        let cookies = headers.iter().map(|value| (COOKIE, HeaderValue::from_str(value).unwrap()));
        read(&cookies.collect(), is_secure)
    }

    #[test]
    fn a_second_cookie_of_the_name_is_refused() {
        let found = |value: &str| Ok(Some(value.to_owned()));
        assert_eq!(read_from(&["a=1; sandboxd_admin=x; b=2"], false), found("x"));
        assert_eq!(read_from(&["a=1", "sandboxd_admin=x"], false), found("x"));
        assert_eq!(read_from(&["a=1"], false), Ok(None));
        assert_eq!(read_from(&["sandboxd_admin=x"], true), Ok(None), "without the prefix");
        assert_eq!(read_from(&["__Host-sandboxd_admin=x"], true), found("x"));
        for two in [&["sandboxd_admin=x; sandboxd_admin=x"][..], &["sandboxd_admin=x", "sandboxd_admin=y"]] {
            assert_eq!(read_from(two, false), Err(Several), "{two:?}");
        }
    }

    #[test]
    fn scripts_and_other_sites_do_not_get_the_cookie() {
        let secret = Secret::random().unwrap();
        let plain = format!(
            "sandboxd_admin={}; HttpOnly; SameSite=Strict; Path=/admin; Max-Age=43200",
            secret.expose()
        );
        assert_eq!(set(&secret, false), plain);
        let secure = format!(
            "__Host-sandboxd_admin={}; HttpOnly; SameSite=Strict; Secure; Path=/; Max-Age=43200",
            secret.expose()
        );
        assert_eq!(set(&secret, true), secure);
        assert_eq!(remove(false), "sandboxd_admin=; HttpOnly; SameSite=Strict; Path=/admin; Max-Age=0");
    }
}
