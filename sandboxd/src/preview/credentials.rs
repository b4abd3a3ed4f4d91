//! Removes the admin token from requests to sandboxes.
//!
//! A visitor's client may have the token and send it with every request. It may be in its own header, a bearer token, a
//! password or a cookie. A server in a sandbox that learns the token controls every sandbox. The visitor's other
//! credentials are for that server, and are passed on.

use http::HeaderMap;
use http::header::{COOKIE, HeaderName, HeaderValue};
use sandbox_api::TOKEN_HEADER;

use crate::model::AdminToken;

/// Removes every header that is reserved for the token, and every value that contains the token.
pub(super) fn remove_token(headers: &mut HeaderMap, token: &AdminToken) {
    let is_for_it = |name: &HeaderName| {
        // CGI-style servers do not distinguish underscores from hyphens.
        name.as_str().bytes().map(|byte| if byte == b'_' { b'-' } else { byte }).eq(TOKEN_HEADER.bytes())
    };
    let has_it = |name: &HeaderName| headers.get_all(name).iter().any(|value| token.is_in(value.as_bytes()));
    let found: Vec<HeaderName> =
        headers.keys().filter(|name| is_for_it(name) || has_it(name)).cloned().collect();
    for name in found {
        let values: Vec<HeaderValue> = headers.get_all(&name).iter().cloned().collect();
        headers.remove(&name);
        let kept = values.iter().filter_map(|value| match name {
            COOKIE => other_cookies(value, token),
            _ => Some(value.clone()).filter(|value| !token.is_in(value.as_bytes())),
        });
        for value in kept.filter(|_| !is_for_it(&name)) {
            headers.append(&name, value);
        }
    }
}

fn other_cookies(value: &HeaderValue, token: &AdminToken) -> Option<HeaderValue> {
    let cookies = value.as_bytes().split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let others: Vec<&[u8]> = cookies.filter(|cookie| !cookie.is_empty() && !token.is_in(cookie)).collect();
    HeaderValue::from_bytes(&others.join(&b"; "[..])).ok().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_removed_and_the_visitors_credentials_are_kept() {
        let token = AdminToken::new(&"the-token-of-the-daemon".into());
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-remcochat-admin-token", "the-token-of-the-daemon"),
            ("x-remcochat-admin-token", "another"),
            ("x_remcochat-admin_token", "a"),
            ("authorization", "Bearer the-token-of-the-daemon"),
            ("authorization", "Bearer of-the-app"),
            ("cookie", "a=1; t=the-token-of-the-daemon; b=2"),
            ("sec-websocket-protocol", "v1, the-token-of-the-daemon"),
            ("x-api-key", "the-token-of-the-daemons"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        remove_token(&mut headers, &token);
        let mut left: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        left.sort_unstable();
        assert_eq!(
            left,
            [
                ("authorization", "Bearer of-the-app"),
                ("cookie", "a=1; b=2"),
                ("x-api-key", "the-token-of-the-daemons"),
            ]
        );
    }
}
