//! The admin token of a request, and whether it is the app's.

use std::fmt;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sandbox_api::TOKEN_HEADER;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The app's token. Kept as a digest: all digests have one length, so that not even the token's shows in the time that it takes
/// to compare.
pub(super) struct Token([u8; 32]);

/// What came of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Right,
    /// The app has none.
    NoneHere,
    /// The request has none.
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
    match (token, given(headers)) {
        (None, _) => Verdict::NoneHere,
        (Some(_), None) => Verdict::NoneGiven,
        (Some(token), Some(given)) if token.is(given) => Verdict::Right,
        (Some(_), Some(_)) => Verdict::Wrong,
    }
}

/// The token of a request, from our own header or as a bearer. A wrong one in our own header is not rescued by a right bearer.
pub(super) fn given(headers: &HeaderMap) -> Option<&[u8]> {
    let own = headers.get(TOKEN_HEADER).map(|value| value.as_bytes().trim_ascii());
    let bearer = || bearer(headers.get(AUTHORIZATION)?.as_bytes());
    own.filter(|token| !token.is_empty()).or_else(bearer).filter(|token| !token.is_empty())
}

/// What follows the scheme, whose letters may be of any case (RFC 9110 section 11.1).
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
    fn the_token_is_taken_from_either_header() {
        assert_eq!(verdict(Some(" secret "), Some("Bearer wrong")), Verdict::Right);
        assert_eq!(verdict(None, Some("bEaReR  secret")), Verdict::Right);
        assert_eq!(verdict(Some(" "), Some("Bearer secret")), Verdict::Right);
    }

    #[test]
    fn anything_else_is_refused() {
        assert_eq!(verdict(Some("wrong"), Some("Bearer secret")), Verdict::Wrong);
        assert_eq!(verdict(Some("secre"), None), Verdict::Wrong);
        assert_eq!(verdict(Some("secrets"), None), Verdict::Wrong);
        for none in ["Basic secret", "secret", "Bearer ", ""] {
            assert_eq!(verdict(None, Some(none)), Verdict::NoneGiven, "{none}");
        }
        assert_eq!(verdict(None, None), Verdict::NoneGiven);
        assert_eq!(check(&HeaderMap::new(), None), Verdict::NoneHere);
    }
}
