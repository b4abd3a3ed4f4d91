//! The keys that signatures are checked with.

use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use sandboxd_model::jwt::JwtAlgorithm;
use sandboxd_model::limits;
use serde_json::Value;
use tokio::time::Instant;

use crate::algorithm::algorithm_of;
use crate::source::SourceError;

/// The keys of an issuer.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    keys: Vec<Key>,
    /// When it was read. `None` for a secret, which does not age, and before the first request.
    read_at: Option<Instant>,
    is_secret: bool,
}

#[derive(Debug)]
struct Key {
    id: Option<String>,
    /// What it may be used for.
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

impl KeySet {
    /// A secret, for tokens with any key id.
    pub(crate) fn of_secret(secret: &[u8]) -> Self {
        let key = Key { id: None, algorithms: vec![Algorithm::HS256], key: DecodingKey::from_secret(secret) };
        Self { keys: vec![key], read_at: None, is_secret: true }
    }

    /// Reads a JSON Web Key Set (RFC 7517). Keys of unknown types, for encryption, or for other algorithms are skipped. A set
    /// without any other is an error: it would end all that works.
    pub(crate) fn parse(text: &[u8], accepted: &[JwtAlgorithm]) -> Result<Self, SourceError> {
        let set: Value = serde_json::from_slice(text).map_err(|_| SourceError::NoKeySet)?;
        let found = set["keys"].as_array().ok_or(SourceError::NoKeySet)?;
        let keys = found.iter().filter_map(|key| Key::of(key, accepted)).take(limits::MAX_JWKS_KEYS);
        let keys: Vec<Key> = keys.collect();
        if keys.is_empty() {
            return Err(SourceError::NoKey);
        }
        Ok(Self { keys, read_at: Some(Instant::now()), is_secret: false })
    }

    /// The key for a token. A token without a key id needs a set with a single key of its algorithm.
    pub(crate) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&DecodingKey> {
        let mut suitable = self.keys.iter().filter(|key| key.algorithms.contains(&algorithm));
        match id {
            Some(id) if !self.is_secret => {
                suitable.find(|key| key.id.as_deref() == Some(id)).map(|key| &key.key)
            }
            _ => {
                let only = suitable.next()?;
                suitable.next().is_none().then_some(&only.key)
            }
        }
    }

    /// Whether there is none yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Whether it should be read again.
    pub(crate) fn is_old(&self) -> bool {
        !self.is_secret && self.read_at.is_none_or(|at| at.elapsed() >= limits::JWKS_MAX_AGE)
    }
}

impl Key {
    fn of(value: &Value, accepted: &[JwtAlgorithm]) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(value.clone()).ok()?;
        let is_for_signatures =
            jwk.common.public_key_use.as_ref().is_none_or(|found| *found == PublicKeyUse::Signature);
        let key = DecodingKey::from_jwk(&jwk).ok().filter(|_| is_for_signatures)?;
        let fits = |algorithm: &JwtAlgorithm| {
            let is_named = value.get("alg").is_none_or(|named| named == algorithm.as_str());
            let of_family = key.family().algorithms().contains(&algorithm_of(*algorithm));
            is_named && of_family && curve_fits(value, *algorithm)
        };
        let algorithms: Vec<Algorithm> =
            accepted.iter().filter(|algorithm| fits(algorithm)).map(|found| algorithm_of(*found)).collect();
        let id = jwk.common.key_id;
        (!algorithms.is_empty()).then_some(Self { id, algorithms, key })
    }
}

/// Whether a key for elliptic curves has the curve of the algorithm (RFC 7518 section 3.4).
fn curve_fits(key: &Value, algorithm: JwtAlgorithm) -> bool {
    match algorithm {
        JwtAlgorithm::Es256 => key["crv"] == "P-256",
        JwtAlgorithm::Es384 => key["crv"] == "P-384",
        JwtAlgorithm::EdDsa => key["crv"] == "Ed25519",
        _ => true,
    }
}
