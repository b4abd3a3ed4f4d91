//! Verifies JSON Web Tokens (RFC 7519), with a secret or with the key set of an issuer.
//!
//! The algorithms are those of the settings, whatever a token's header says. A token must expire, and have the audience and
//! the issuer of the settings. Its subject and project become an [`Identity`]. The crate does not know which projects exist.

mod algorithm;
mod claims;
mod keys;
mod source;
mod verified;

use std::sync::{Arc, PoisonError, RwLock};

use jsonwebtoken::{Validation, decode, decode_header};
use sandboxd_model::jwt::{JwtKeys, JwtSettings};
use sandboxd_model::limits;
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use self::algorithm::algorithm_of;
pub use self::claims::Identity;
use self::keys::KeySet;
pub use self::source::SourceError;
use self::verified::Verified;

/// Verifies tokens.
#[derive(Debug)]
pub struct Verifier {
    settings: JwtSettings,
    validation: Validation,
    keys: RwLock<Arc<KeySet>>,
    verified: Verified,
    /// When the key set was last requested. Held during a request.
    requested: Mutex<Option<Instant>>,
}

/// Why a token is refused. The client does not learn it.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("it is not a signed token")]
    Malformed,
    #[error("its algorithm is not among those of SANDBOXD_JWT_ALGORITHMS")]
    Algorithm,
    #[error("it has critical extensions")]
    Critical,
    #[error("no key has its id and algorithm")]
    UnknownKey,
    #[error("{0}")]
    Invalid(#[from] jsonwebtoken::errors::Error),
    #[error("{0}")]
    Claims(String),
}

impl Verifier {
    /// Creates a verifier. A secret and a file are used at once. A URL is requested by [`Self::fetch`], or with the first
    /// token.
    pub async fn new(settings: JwtSettings) -> Result<Arc<Self>, SourceError> {
        let keys = match &settings.keys {
            JwtKeys::Secret(secret) => KeySet::of_secret(secret),
            JwtKeys::File(_) => KeySet::parse(&source::read(&settings.keys).await?, &settings.algorithms)?,
            JwtKeys::Url(_) => KeySet::default(),
        };
        Ok(Arc::new(Self {
            validation: validation(&settings),
            settings,
            keys: RwLock::new(Arc::new(keys)),
            verified: Verified::default(),
            requested: Mutex::default(),
        }))
    }

    /// Returns whom a token stands for. `None` if it is not valid, or not a JSON Web Token at all. A token with an unknown
    /// key requests the key set once more, at most every [`limits::JWKS_FETCH_EVERY`].
    pub async fn verify(self: &Arc<Self>, token: &[u8]) -> Option<Arc<Identity>> {
        if !is_jwt(token) {
            return None;
        }
        match self.check(token) {
            Err(Refused::UnknownKey) => {
                self.refresh().await;
                report(self.check(token))
            }
            found => {
                self.refresh_if_old();
                report(found)
            }
        }
    }

    /// Requests a key set that has a URL, until there is one. An issuer that starts later delays nothing else.
    pub async fn fetch(&self) {
        while self.keys().is_empty() {
            self.refresh().await;
            if self.keys().is_empty() {
                sleep(limits::FIRST_JWKS_FETCH_EVERY).await;
            }
        }
    }

    /// As [`Self::verify`], but with the keys that are known already. A token with an unknown key is refused, and requests the
    /// key set for the next one.
    pub fn verify_with_known_keys(self: &Arc<Self>, token: &[u8]) -> Option<Arc<Identity>> {
        if !is_jwt(token) {
            return None;
        }
        let found = self.check(token);
        if let Err(Refused::UnknownKey) = found {
            self.refresh_in_background();
        }
        report(found)
    }

    fn check(&self, token: &[u8]) -> Result<Arc<Identity>, Refused> {
        let keys = self.keys();
        let (digest, known) = self.verified.find(token, &keys);
        if let Some(identity) = known {
            return Ok(identity);
        }
        let header = decode_header(token).map_err(|_| Refused::Malformed)?;
        if header.crit.is_some() {
            return Err(Refused::Critical);
        }
        if !self.validation.algorithms.contains(&header.alg) {
            return Err(Refused::Algorithm);
        }
        let key = keys.find(header.kid.as_deref(), header.alg).ok_or(Refused::UnknownKey)?;
        // One algorithm, and not all: with several, the library requires that they are of one family.
        let validation = Validation { algorithms: vec![header.alg], ..self.validation.clone() };
        let claims = decode::<Map<String, Value>>(token, key, &validation)?.claims;
        let identity = Arc::new(Identity::of(&claims, &self.settings).map_err(Refused::Claims)?);
        self.verified.add(digest, &keys, &identity);
        Ok(identity)
    }

    /// Requests the key set, unless that was done a moment ago.
    async fn refresh(&self) {
        let mut requested = self.requested.lock().await;
        let every =
            if self.keys().is_empty() { limits::FIRST_JWKS_FETCH_EVERY } else { limits::JWKS_FETCH_EVERY };
        if requested.is_some_and(|at| at.elapsed() < every) {
            return;
        }
        *requested = Some(Instant::now());
        let read =
            async { KeySet::parse(&source::read(&self.settings.keys).await?, &self.settings.algorithms) };
        match read.await {
            Ok(keys) => *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys),
            // The previous keys remain: an issuer that is down must not end what works.
            Err(error) => warn!(
                error = &error as &dyn std::error::Error,
                keys = ?self.settings.keys,
                "could not read the key set of JSON Web Tokens"
            ),
        }
    }

    fn refresh_if_old(self: &Arc<Self>) {
        if self.keys().is_old() {
            self.refresh_in_background();
        }
    }

    fn refresh_in_background(self: &Arc<Self>) {
        if self.requested.try_lock().is_ok() {
            let verifier = Arc::clone(self);
            tokio::spawn(async move { verifier.refresh().await });
        }
    }

    fn keys(&self) -> Arc<KeySet> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn report(found: Result<Arc<Identity>, Refused>) -> Option<Arc<Identity>> {
    found.inspect_err(|refused| debug!(%refused, "a JSON Web Token was refused")).ok()
}

/// Whether it has the form of a signed token: three parts, of which the first is a JSON object in Base64.
fn is_jwt(token: &[u8]) -> bool {
    let dots = || token.iter().filter(|byte| **byte == b'.').count();
    token.len() <= limits::MAX_JWT_BYTES && token.starts_with(b"ey") && dots() == 2
}

fn validation(settings: &JwtSettings) -> Validation {
    let mut validation = Validation {
        algorithms: settings.algorithms.iter().map(|algorithm| algorithm_of(*algorithm)).collect(),
        leeway: limits::JWT_LEEWAY.as_secs(),
        validate_nbf: true,
        ..Validation::default()
    };
    validation.set_audience(&settings.audiences);
    validation.set_required_spec_claims(&["exp", "aud"]);
    if let Some(issuer) = &settings.issuer {
        validation.set_issuer(&[issuer]);
        validation.set_required_spec_claims(&["exp", "aud", "iss"]);
    }
    validation
}

#[cfg(test)]
mod tests;
