//! Checks a request's admin token.

use std::fmt;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sandbox_api::TOKEN_HEADER;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The app's token, kept as a digest. All digests have the same length, so that the time of a comparison does not
/// reveal the token's length.
pub(super) struct Token([u8; 32]);

/// Result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Right,
    /// The app has no token.
    NoneHere,
    /// The request has no token.
    NoneGiven,
    Wrong,
}

impl Token {
    pub(super) fn new(token: &SecretString) -> Self {
        Self(Sha256::digest(token.expose_secret()).into())
    }

    fn is(&self, given: &[u8]) -> bool {
        self.0.ct_eq(&Sha256::digest(given)).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

pub(super) fn check(headers: &HeaderMap, token: Option<&Token>) -> Verdict {
    let Some(token) = token else { return Verdict::NoneHere };
    let (given, is_repeated) = given(headers);
    // All tokens are compared, so that the time does not reveal which one is wrong.
    let wrong = given.iter().filter(|given| !token.is(given)).count();
    match given.len() {
        _ if is_repeated || wrong > 0 => Verdict::Wrong,
        0 => Verdict::NoneGiven,
        _ => Verdict::Right,
    }
}

/// Whether the request contains a token.
pub(super) fn is_given(headers: &HeaderMap) -> bool {
    let (given, is_repeated) = given(headers);
    is_repeated || !given.is_empty()
}

/// Tokens of a request, from the own header and as a bearer token, and whether either header occurs more than once.
/// All must be right. Otherwise a proxy that reads the first header and a server that reads the last could see
/// different clients.
fn given(headers: &HeaderMap) -> (Vec<&[u8]>, bool) {
    let own = headers.get(TOKEN_HEADER).map(|value| value.as_bytes().trim_ascii());
    let bearer = headers.get(AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
    let is_repeated = |name: &str| headers.get_all(name).iter().nth(1).is_some();
    let given = [own, bearer].into_iter().flatten().filter(|token| !token.is_empty()).collect();
    (given, is_repeated(TOKEN_HEADER) || is_repeated(AUTHORIZATION.as_str()))
}

/// Token after the scheme, which is case-insensitive (RFC 9110 section 11.1).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(own: Option<&str>, authorization: Option<&str>) -> Verdict {
        let mut headers = HeaderMap::new();
        for (name, value) in [(TOKEN_HEADER, own), ("authorization", authorization)] {
            if let Some(value) = value {
                headers.insert(name, value.parse().unwrap());
            }
        }
        check(&headers, Some(&Token::new(&"secret".into())))
    }

    #[test]
    fn the_token_is_accepted_in_either_header() {
        assert_eq!(verdict(Some(" secret "), Some("Bearer secret")), Verdict::Right);
        assert_eq!(verdict(None, Some("bEaReR  secret")), Verdict::Right);
        assert_eq!(verdict(Some(" "), Some("Bearer secret")), Verdict::Right);
    }

    #[test]
    fn anything_else_is_refused() {
        assert_eq!(verdict(Some("wrong"), Some("Bearer secret")), Verdict::Wrong);
        assert_eq!(verdict(Some("secret"), Some("Bearer wrong")), Verdict::Wrong);
        let mut twice = HeaderMap::new();
        for _ in 0..2 {
            twice.append(TOKEN_HEADER, "secret".parse().unwrap());
        }
        assert_eq!(check(&twice, Some(&Token::new(&"secret".into()))), Verdict::Wrong);
        assert_eq!(verdict(Some("secre"), None), Verdict::Wrong);
        assert_eq!(verdict(Some("secrets"), None), Verdict::Wrong);
        for none in ["Basic secret", "secret", "Bearer ", ""] {
            assert_eq!(verdict(None, Some(none)), Verdict::NoneGiven, "{none}");
        }
        assert_eq!(verdict(None, None), Verdict::NoneGiven);
        assert_eq!(check(&HeaderMap::new(), None), Verdict::NoneHere);
    }
}
