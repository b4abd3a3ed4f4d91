//! Tokens that a request carries, and whose they are.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::header::AUTHORIZATION;
use axum::http::{Extensions, HeaderMap, HeaderValue};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use sandbox_api::TOKEN_HEADER;

use crate::api::{ApiState, front};
use crate::model::{AdminToken, Principal};

/// Tokens that a request carries.
#[derive(Debug)]
pub(super) struct Given<'a> {
    tokens: Vec<Cow<'a, [u8]>>,
    /// Whether a header for the token occurs more than once.
    is_repeated: bool,
}

impl<'a> Given<'a> {
    pub(super) fn of(headers: &'a HeaderMap, by_browser: bool) -> Self {
        let own = headers.get(TOKEN_HEADER).map(|value| value.as_bytes().trim_ascii().into());
        let authorization = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
        // Credentials of another scheme are meant for a proxy in front of the daemon.
        let authorization = match bearer(authorization) {
            Some(token) => Some(token.into()),
            None => password(authorization).filter(|_| by_browser).map(Cow::Owned),
        };
        let tokens = [own, authorization].into_iter().flatten();
        let is_repeated = |name: &str| headers.get_all(name).iter().nth(1).is_some();
        Self {
            tokens: tokens.filter(|token: &Cow<'_, [u8]>| !token.is_empty()).collect(),
            is_repeated: is_repeated(TOKEN_HEADER) || is_repeated(AUTHORIZATION.as_str()),
        }
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.tokens.is_empty() && !self.is_repeated
    }

    /// A token that came after the head of a request.
    pub(super) fn late(token: &'a str) -> Self {
        let tokens = if token.is_empty() { Vec::new() } else { vec![token.as_bytes().into()] };
        Self { tokens, is_repeated: false }
    }

    /// The first token.
    pub(super) fn first(&self) -> Option<&[u8]> {
        self.tokens.first().map(AsRef::as_ref)
    }

    /// Principal of the token, if the request has one and no other. `headers` and `of` are those of the request.
    pub(super) async fn principal(
        &self,
        state: &ApiState,
        headers: &HeaderMap,
        of: &Extensions,
    ) -> Option<Arc<Principal>> {
        if let Some(found) = self.principal_of_setting(state, headers, of) {
            return Some(found);
        }
        state.service.projects().principal_of(self.only()?).await
    }

    /// As [`Self::principal`], without waiting for anything.
    pub(super) fn principal_of_known(
        &self,
        state: &ApiState,
        headers: &HeaderMap,
        of: &Extensions,
    ) -> Option<Arc<Principal>> {
        let found = self.principal_of_setting(state, headers, of);
        found.or_else(|| state.service.projects().principal_of_known(self.only()?))
    }

    /// Principal of a token that the operator has set.
    fn principal_of_setting(
        &self,
        state: &ApiState,
        headers: &HeaderMap,
        of: &Extensions,
    ) -> Option<Arc<Principal>> {
        if self.is_right(&state.token) {
            return Some(Arc::clone(&state.operator));
        }
        let only = self.only()?;
        if let Some(front) = state.front.as_ref().filter(|front| self.is_right(&front.settings.key)) {
            return front::principal(front, headers, of);
        }
        let name = state.tool_tokens.name_of(only, Timestamp::now())?;
        Some(Arc::new(Principal::of_tool_token(name)))
    }

    /// The token of a request without a different one.
    fn only(&self) -> Option<&[u8]> {
        let first = self.first().filter(|_| !self.is_repeated)?;
        self.tokens.iter().all(|other| **other == *first).then_some(first)
    }

    fn is_right(&self, token: &AdminToken) -> bool {
        // All tokens are compared, so that the time does not reveal which one is wrong.
        let wrong = self.tokens.iter().filter(|given| !token.is(given)).count();
        !self.is_repeated && !self.tokens.is_empty() && wrong == 0
    }
}

/// Token after the scheme, which is case-insensitive (RFC 9110 section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Password, for any user name.
fn password(value: &[u8]) -> Option<Vec<u8>> {
    let (scheme, credentials) = value.split_at_checked(6)?;
    let credentials = scheme.eq_ignore_ascii_case(b"basic ").then(|| credentials.trim_ascii())?;
    let credentials = BASE64_STANDARD.decode(credentials).ok()?;
    let colon = credentials.iter().position(|byte| *byte == b':')?;
    Some(credentials[colon + 1..].to_vec())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn is_right(headers: &HeaderMap, by_browser: bool) -> bool {
        Given::of(headers, by_browser).is_right(&AdminToken::new(&"secret".into()))
    }

    fn check(own: Option<&str>, authorization: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        let mut set = |name: &'static str, value: Option<&str>| {
            if let Some(value) = value {
                headers.insert(name, HeaderValue::from_str(value).unwrap());
            }
        };
        set(TOKEN_HEADER, own);
        set("authorization", authorization);
        is_right(&headers, false)
    }

    fn check_browser(authorization: &str) -> bool {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(authorization).unwrap())]);
        is_right(&headers, true)
    }

    #[test]
    fn a_browser_may_send_the_token_as_a_password() {
        let basic = |credentials: &str| format!("Basic {}", BASE64_STANDARD.encode(credentials));
        assert!(check_browser(&basic("anyone:secret")));
        assert!(check_browser(&basic(":secret").replace("Basic", "bAsIc ")));
        assert!(check_browser("Bearer secret"));
        for wrong in ["secret", "secret:", "secret:wrong", "a:secret:", "a:b:secret", "", ":"] {
            assert!(!check_browser(&basic(wrong)), "{wrong}");
        }
        assert!(!check_browser("Basic secret"));
        assert!(!check(None, Some(&basic("anyone:secret"))), "on another route");
    }

    #[test]
    fn the_token_is_taken_from_either_header() {
        assert!(check(Some("secret"), None));
        assert!(check(Some(" secret "), Some("Bearer secret")));
        assert!(check(None, Some("Bearer secret")));
        assert!(check(None, Some("bEaReR  secret")));
        assert!(check(Some(" "), Some("Bearer secret")));
        assert!(check(Some("secret"), Some("Basic of-a-proxy")));
    }

    #[test]
    fn every_token_of_a_request_must_be_right() {
        assert!(!check(Some("secret"), Some("Bearer wrong")));
        assert!(!check(Some("wrong"), Some("Bearer secret")));
        for name in [TOKEN_HEADER, "authorization"] {
            let mut headers = HeaderMap::new();
            headers.append(TOKEN_HEADER, HeaderValue::from_static("secret"));
            headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer secret"));
            assert!(is_right(&headers, false));
            headers.append(name, headers[name].clone());
            assert!(!is_right(&headers, false), "{name} comes twice");
        }
        let mut headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Basic OndyZG8="))]);
        headers.insert(TOKEN_HEADER, HeaderValue::from_static("secret"));
        assert!(!is_right(&headers, true), "a browser's password counts where it may be the token");
    }

    #[test]
    fn other_credentials_are_rejected() {
        assert!(!check(None, None));
        assert!(!check(Some("wrong"), Some("Bearer secret")));
        assert!(!check(Some("secre"), None));
        assert!(!check(Some("secrets"), None));
        assert!(!check(None, Some("Basic secret")));
        assert!(!check(None, Some("secret")));
        assert!(!check(None, Some("Bearer ")));
    }
}
