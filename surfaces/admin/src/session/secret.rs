//! Random secrets of sessions, of which only the browser has the text.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Number of random bytes.
const BYTES: usize = 32;

/// A secret text of 43 characters. Its `Debug` form does not contain it.
#[derive(Clone)]
pub(crate) struct Secret(String);

/// SHA-256 of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Digested([u8; 32]);

impl Secret {
    /// Fails only if the system provides no random bytes.
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(BASE64_URL_SAFE_NO_PAD.encode(bytes)))
    }

    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    pub(crate) fn digest(&self) -> Digested {
        Digested::of(&self.0)
    }

    /// Compares it with a text from outside. The time does not depend on the position of the first difference.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.0.as_bytes().ct_eq(text.as_bytes()).into()
    }
}

impl Digested {
    pub(crate) fn of(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_equals_only_itself_and_is_not_printed() {
        let (one, other) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert!(one.is(one.expose()) && !one.is(other.expose()) && !one.is(""));
        assert!(!one.is(&one.expose()[1..]));
        assert_eq!((one.expose().len(), format!("{one:?}").as_str()), (43, "Secret"));
        assert_eq!(one.digest(), Digested::of(one.expose()));
    }
}
