//! Random secrets of sessions and invitations, of which only hashes are stored.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// Number of random bytes of a secret.
const BYTES: usize = 32;

/// A secret text of 43 characters, for a cookie or a link. Its `Debug` form does not contain it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// SHA-256 of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SecretHash([u8; 32]);

impl Secret {
    /// Creates a secret.
    ///
    /// # Errors
    /// The system provides no random bytes.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(BASE64_URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// The text, for the person or the browser that it is for.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The hash that is stored.
    pub fn hash(&self) -> SecretHash {
        SecretHash::of(&self.0)
    }
}

impl SecretHash {
    /// Hashes a text that a client sent.
    pub fn of(secret: &str) -> Self {
        Self(Sha256::digest(secret).into())
    }

    /// The bytes, for the database.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
