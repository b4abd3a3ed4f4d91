//! Tokens of projects.

use std::fmt;

use sandbox_api::TokenId;
use subtle::ConstantTimeEq;

use crate::{Instance, Owner, Scopes, limits};

/// Beginning of every token of a project.
pub const TOKEN_PREFIX: &str = "sbt_";

/// Random bytes of a token.
pub const SECRET_BYTES: usize = 32;

/// A token of a project, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// Its id.
    pub id: TokenId,
    /// Whom what is created with it belongs to.
    pub owner: Owner,
    /// Display name.
    pub name: Option<String>,
    /// What it permits.
    pub scopes: Scopes,
    /// Authenticates its secret.
    pub digest: TokenDigest,
    /// When it was created, in milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// When it expires, in milliseconds since the Unix epoch. `None` is never.
    pub expires_at_ms: Option<i64>,
    /// When it was last used, in milliseconds since the Unix epoch.
    pub last_used_ms: Option<i64>,
}

/// The keyed hash of a token's secret. A guess of the secret cannot be checked without the instance's key.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenDigest([u8; 32]);

/// The parts of a token: `sbt_<id>_<secret>`.
#[derive(Clone)]
pub struct TokenText {
    /// Id of its record.
    pub id: TokenId,
    secret: String,
}

impl TokenDigest {
    /// The digest with these bytes, of which there must be 32.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest")
    }
}

impl TokenText {
    /// A token with a new secret.
    pub fn new(id: TokenId, secret: [u8; SECRET_BYTES]) -> Self {
        Self { id, secret: secret.iter().map(|byte| format!("{byte:02x}")).collect() }
    }

    /// Parses what a client sent. `None` if it has another form.
    pub fn parse(given: &[u8]) -> Option<Self> {
        let given = std::str::from_utf8(given).ok()?.strip_prefix(TOKEN_PREFIX)?;
        let (id, secret) = given.split_once('_')?;
        let is_secret =
            secret.len() == 2 * SECRET_BYTES && secret.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = format!("tok_{id}").parse().ok()?;
        is_secret.then(|| Self { id, secret: secret.to_owned() })
    }

    /// The token.
    pub fn expose(&self) -> String {
        format!("{TOKEN_PREFIX}{}_{}", self.id.as_str().trim_start_matches("tok_"), self.secret)
    }

    /// The keyed hash that is stored.
    pub fn digest(&self, instance: &Instance) -> TokenDigest {
        TokenDigest(instance.token_mac(&self.id, &self.secret))
    }

    /// Whether this is the token with this digest. How long this takes does not depend on the secret.
    pub fn is(&self, digest: &TokenDigest, instance: &Instance) -> bool {
        self.digest(instance).0[..].ct_eq(&digest.0).into()
    }
}

/// Whether a token can have this name: 1 to [`limits::MAX_TOKEN_NAME`] characters, none of them a control character.
pub fn is_name(name: &str) -> bool {
    (1..=limits::MAX_TOKEN_NAME).contains(&name.chars().count()) && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_parsed_and_checked() {
        let instance = Instance::new([7; 32]);
        let token = TokenText::new(TokenId::random().unwrap(), [3; SECRET_BYTES]);
        let digest = token.digest(&instance);
        let parsed = TokenText::parse(token.expose().as_bytes()).unwrap();
        assert_eq!(parsed.id, token.id);
        assert!(parsed.is(&digest, &instance));
        assert!(!parsed.is(&digest, &Instance::new([8; 32])));
        let other = TokenText::new(token.id.clone(), [4; SECRET_BYTES]);
        assert!(!other.is(&digest, &instance));
        let other = TokenText::new(TokenId::random().unwrap(), [3; SECRET_BYTES]);
        assert!(!other.is(&digest, &instance), "the id is part of the digest");
    }

    #[test]
    fn other_texts_are_rejected() {
        let secret = "ab".repeat(SECRET_BYTES);
        let id = "0123456789abcdef";
        assert!(TokenText::parse(format!("sbt_{id}_{secret}").as_bytes()).is_some());
        for other in [
            format!("sbt_{id}_{secret}0"),
            format!("sbt_{id}_{}", "zz".repeat(SECRET_BYTES)),
            format!("sbt_{id}{secret}"),
            format!("sbt_tok_{id}_{secret}"),
            format!("SBT_{id}_{secret}"),
            format!("sbt__{secret}"),
            "sbt_".to_owned(),
            String::new(),
        ] {
            assert!(TokenText::parse(other.as_bytes()).is_none(), "{other}");
        }
        assert!(TokenText::parse(b"sbt_\xff").is_none());
    }
}
