//! The daemon's admin token.
//!
//! Only the token's digest is kept, so that the token cannot be printed. A comparison of digests takes the same
//! time for every value.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use percent_encoding::percent_decode;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The token that a caller of the API must send. Cheap to clone.
#[derive(Clone)]
pub struct AdminToken(Arc<Kept>);

struct Kept {
    length: usize,
    digest: [u8; 32],
    rolling: Rolling,
    /// Hash of the token by [`Kept::rolling`].
    hash: u64,
}

impl AdminToken {
    /// Keeps what is needed to recognize `token`.
    pub fn new(token: &SecretString) -> Self {
        let token = token.expose_secret().as_bytes();
        let rolling = Rolling::new(token.len());
        let hash = token.iter().fold(0, |hash, byte| rolling.push(hash, *byte));
        Self(Arc::new(Kept { length: token.len(), digest: Sha256::digest(token).into(), rolling, hash }))
    }

    /// The SHA-256 of the token.
    pub(crate) fn digest(&self) -> &[u8; 32] {
        &self.0.digest
    }

    /// Whether `given` is the token. An empty text is never the token.
    pub fn is(&self, given: &[u8]) -> bool {
        !given.is_empty() && Sha256::digest(given)[..].ct_eq(&self.0.digest).into()
    }

    /// Whether `text` contains the token as a word: plain, percent-encoded, or in Base64 as in HTTP Basic.
    pub fn is_in(&self, text: &[u8]) -> bool {
        let decoded = text.contains(&b'%').then(|| percent_decode(text).collect::<Vec<u8>>());
        let words = text.split(|byte| !is_base64(*byte));
        self.is_word_of(text)
            || decoded.is_some_and(|text| self.is_word_of(&text))
            || words.filter(|word| word.len() * 3 / 4 >= self.0.length).any(|word| self.is_encoded_in(word))
    }

    fn is_encoded_in(&self, word: &[u8]) -> bool {
        let decoded = BASE64_STANDARD_NO_PAD.decode(word).or_else(|_| BASE64_URL_SAFE_NO_PAD.decode(word));
        decoded.is_ok_and(|text| self.is_word_of(&text))
    }

    /// A short token may be part of any word. If a letter or digit is next to it, it is a different word.
    fn is_word_of(&self, text: &[u8]) -> bool {
        let Kept { length, rolling, hash, .. } = &*self.0;
        if *length == 0 {
            return false;
        }
        let is_apart = |byte: Option<&u8>| byte.is_none_or(|byte| !byte.is_ascii_alphanumeric());
        let mut rolled = 0;
        text.iter().enumerate().any(|(at, byte)| {
            rolled = rolling.push(rolled, *byte);
            let Some(begin) = (at + 1).checked_sub(*length) else { return false };
            let is_hit = rolled == *hash
                && is_apart(text.get(at + 1))
                && is_apart(begin.checked_sub(1).and_then(|before| text.get(before)))
                && self.is(&text[begin..=at]);
            rolled = rolling.pop(rolled, text[begin]);
            is_hit
        })
    }
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminToken").finish_non_exhaustive()
    }
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte)
}

/// A hash of the last bytes of a text, with a random base, so that the duration of a search reveals nothing about
/// the token.
struct Rolling {
    base: u64,
    /// The base to the power of the length minus one.
    first: u64,
}

impl Rolling {
    fn new(length: usize) -> Self {
        let base = RandomState::new().hash_one(length) | 1;
        Self { base, first: (1..length).fold(1, |power, _| base.wrapping_mul(power)) }
    }

    fn push(&self, hash: u64, byte: u8) -> u64 {
        hash.wrapping_mul(self.base).wrapping_add(u64::from(byte))
    }

    /// Removes the first byte.
    fn pop(&self, hash: u64, first: u8) -> u64 {
        hash.wrapping_sub(u64::from(first).wrapping_mul(self.first))
    }
}

#[cfg(test)]
mod tests {
    use base64::prelude::BASE64_STANDARD;
    use proptest::prelude::*;

    use super::*;

    fn token(text: &str) -> AdminToken {
        AdminToken::new(&SecretString::from(text))
    }

    #[test]
    fn only_the_whole_token_matches() {
        let token = token("secret");
        assert!(token.is(b"secret"));
        for wrong in [&b""[..], b"secre", b"secrets", b"Secret", b" secret"] {
            assert!(!token.is(wrong), "{}", wrong.escape_ascii());
        }
        assert!(!AdminToken::new(&SecretString::from("")).is(b""));
    }

    #[test]
    fn a_token_is_found_in_every_form_that_clients_send() {
        let secret = "s3cr/t+of==32-charact~rs_at%least!";
        let basic = format!("Basic {}", BASE64_STANDARD.encode(format!("me:{secret}")));
        let long = format!("{}\u{e9}, {secret}", "word ".repeat(200));
        let found = [
            secret.to_owned(),
            format!("Bearer {secret}"),
            format!("a=1; token={secret}; b=2"),
            format!("\"{secret}\""),
            basic,
            format!("Basic {}", BASE64_URL_SAFE_NO_PAD.encode(format!("{secret}:"))),
            "x=s3cr%2ft%2Bof%3D%3D32-charact%7Ers_at%25least%21&y".to_owned(),
            format!("{secret}{secret}"),
            long,
        ];
        for text in found {
            assert!(token(secret).is_in(text.as_bytes()), "{text}");
        }
        for text in ["", "s3cr/t", "Basic bWU6c29tZXRoaW5n", "Basic %%%", &format!("x{secret}")] {
            assert!(!token(secret).is_in(text.as_bytes()), "{text}");
        }
        assert!(!token("dev").is_in(b"Bearer developer") && token("dev").is_in(b"Bearer dev"));
    }

    proptest! {
        #[test]
        fn a_token_between_spaces_is_always_found(
            secret in "[!-~]{1,50}", before in "([a-zA-Z0-9]{0,9} )?", after in "( [ -~]{0,60})?",
        ) {
            let text = format!("{before}{secret}{after}");
            prop_assert!(token(&secret).is_in(text.as_bytes()));
        }
    }
}
