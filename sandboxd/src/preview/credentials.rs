//! The daemon's own token, which no sandbox is to see.
//!
//! Whoever has the token may visit a preview too, and a client that has it may send it to each address it asks: in its own
//! header, as a bearer, as a password, in a cookie. A server in a sandbox that learns it rules every sandbox. The visitor's
//! other credentials are for that server, and pass.

use http::HeaderMap;
use http::header::{COOKIE, HeaderName, HeaderValue};
use sandbox_api::TOKEN_HEADER;

use crate::model::AdminToken;

/// Removes every header that is meant for the token, and every value that has the token in it.
pub(super) fn take_off(headers: &mut HeaderMap, token: &AdminToken) {
    let is_for_it = |name: &HeaderName| {
        // Servers that see their requests as CGI does cannot tell the two.
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
    fn the_token_goes_and_the_visitors_own_credentials_stay() {
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
        take_off(&mut headers, &token);
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
