//! The cookie of a session, and the header of the page's own requests.
//!
//! Browsers send a host's cookies to all of its ports, and accept them from all. So the cookie alone permits no change:
//! the request must also have a header that pages of other origins cannot add.

use std::time::Duration;

use cookie::{Cookie, SameSite};
use http::HeaderMap;
use http::header::{COOKIE, HeaderName, HeaderValue};

use super::error::{Error, Result};
use crate::account::Secret;
use crate::account::limits::SESSION_AGE;
use crate::oidc;

/// The page adds this header to each of its requests, with any value. Another origin's page cannot, because that needs a
/// permission that this app never gives (CORS).
const OWN_REQUEST: HeaderName = HeaderName::from_static("x-chat-request");

/// Name of the session's cookie over plain HTTP.
const SESSION: &str = "chat_session";

/// Name of the cookie of a browser that signs in with an identity provider.
const BROWSER: &str = "chat_sign_in";

/// Before names over TLS. Browsers accept them only with `Secure` and from this host itself (RFC 6265bis, 4.1.3.2).
const SECURE_PREFIX: &str = "__Host-";

/// Requires [`OWN_REQUEST`].
pub(super) fn must_be_own(headers: &HeaderMap) -> Result<()> {
    if headers.contains_key(&OWN_REQUEST) {
        Ok(())
    } else {
        Err(Error::NotOwnRequest { header: OWN_REQUEST })
    }
}

/// Returns the secret of the session's cookie, if there is one.
///
/// # Errors
/// There are two. Another origin of the same host may have added one.
pub(super) fn read(headers: &HeaderMap, is_secure: bool) -> Result<Option<String>> {
    find(headers, &name(SESSION, is_secure))
}

/// Returns the value of `set-cookie` for a new session.
pub(super) fn set(secret: &Secret, is_secure: bool) -> HeaderValue {
    header(SESSION, secret.expose(), SESSION_AGE, SameSite::Strict, is_secure)
}

/// Returns the value of `set-cookie` that removes the session's cookie.
pub(super) fn remove(is_secure: bool) -> HeaderValue {
    header(SESSION, "", Duration::ZERO, SameSite::Strict, is_secure)
}

/// Same as [`read`], for the cookie of a browser that signs in with an identity provider.
pub(super) fn read_browser(headers: &HeaderMap, is_secure: bool) -> Result<Option<String>> {
    find(headers, &name(BROWSER, is_secure))
}

/// Returns the value of `set-cookie` for a browser that goes to the identity provider. It comes back from another site, so
/// the cookie cannot be strict.
pub(super) fn set_browser(secret: &Secret, is_secure: bool) -> HeaderValue {
    header(BROWSER, secret.expose(), oidc::LIFETIME, SameSite::Lax, is_secure)
}

/// Returns the value of `set-cookie` that removes it.
pub(super) fn remove_browser(is_secure: bool) -> HeaderValue {
    header(BROWSER, "", Duration::ZERO, SameSite::Lax, is_secure)
}

fn find(headers: &HeaderMap, name: &str) -> Result<Option<String>> {
    let mut found = None;
    for header in headers.get_all(COOKIE) {
        let header = header.to_str().unwrap_or_default();
        for cookie in Cookie::split_parse(header).flatten() {
            if cookie.name() == name && found.replace(cookie.value().to_owned()).is_some() {
                let problem = format!("has more than one `{name}`");
                return Err(Error::Invalid { field: "cookie", problem });
            }
        }
    }
    Ok(found)
}

fn header(name_of: &str, value: &str, age: Duration, same_site: SameSite, is_secure: bool) -> HeaderValue {
    let age = cookie::time::Duration::try_from(age).unwrap_or(cookie::time::Duration::MAX);
    let cookie = Cookie::build((name(name_of, is_secure), value)).max_age(age).path("/").http_only(true);
    let cookie = cookie.same_site(same_site).secure(is_secure).build();
    HeaderValue::from_str(&cookie.to_string()).expect("names and secrets are ASCII")
}

fn name(name: &str, is_secure: bool) -> String {
    if is_secure { format!("{SECURE_PREFIX}{name}") } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_from(headers: &[&str], is_secure: bool) -> Result<Option<String>> {
        let cookies = headers.iter().map(|value| (COOKIE, HeaderValue::from_str(value).unwrap()));
        read(&cookies.collect(), is_secure)
    }

    #[test]
    fn a_second_cookie_is_refused() {
        assert_eq!(read_from(&["a=1; chat_session=x; b=2"], false).unwrap().as_deref(), Some("x"));
        assert_eq!(read_from(&["a=1"], false).unwrap(), None);
        assert_eq!(read_from(&["chat_session=x"], true).unwrap(), None, "it must have the prefix");
        assert_eq!(read_from(&["__Host-chat_session=x"], true).unwrap().as_deref(), Some("x"));
        for two in [&["chat_session=x; chat_session=x"][..], &["chat_session=x", "chat_session=y"]] {
            assert!(read_from(two, false).is_err(), "{two:?}");
        }
    }

    #[test]
    fn the_cookie_is_for_this_host_only() {
        let secret = Secret::generate().unwrap();
        let plain = set(&secret, false);
        let plain = plain.to_str().unwrap();
        let wanted =
            format!("chat_session={}; HttpOnly; SameSite=Strict; Path=/; Max-Age=2592000", secret.expose());
        assert_eq!(plain, wanted);
        let secure = set(&secret, true);
        let secure = secure.to_str().unwrap();
        assert!(secure.starts_with("__Host-chat_session=") && secure.contains("; Secure"), "{secure}");
        assert!(!secure.contains("Domain"), "{secure}");
        assert!(remove(true).to_str().unwrap().contains("Max-Age=0"));
    }
}
