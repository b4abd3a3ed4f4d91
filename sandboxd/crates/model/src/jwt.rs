//! Settings for JSON Web Tokens (RFC 7519).

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::{ProjectName, Scopes};

/// Which JSON Web Tokens are accepted, and whom they stand for.
#[derive(Debug, Clone)]
pub struct JwtSettings {
    /// What signatures are checked with.
    pub keys: JwtKeys,
    /// The accepted algorithms. Not empty, and all of the kind of [`Self::keys`].
    pub algorithms: Vec<JwtAlgorithm>,
    /// The required issuer (`iss`). `None` accepts any, if the keys are a secret that only the issuer has.
    pub issuer: Option<String>,
    /// Of these audiences (`aud`), a token must have one. Not empty.
    pub audiences: Vec<String>,
    /// Claim with the subject.
    pub subject_claim: String,
    /// Claim with the project. `None` means that all tokens are of [`Self::project`].
    pub project_claim: Option<String>,
    /// The project of tokens if there is no claim for it.
    pub project: ProjectName,
    /// What tokens permit.
    pub scopes: Scopes,
}

/// What signatures of tokens are checked with.
#[derive(Clone)]
pub enum JwtKeys {
    /// A secret, for HMAC.
    Secret(Vec<u8>),
    /// File with a JSON Web Key Set (RFC 7517).
    File(PathBuf),
    /// URL of a JSON Web Key Set.
    Url(String),
}

/// An algorithm for signatures (RFC 7518 section 3.1, RFC 8037). `none` is not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JwtAlgorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// ECDSA with P-256 and SHA-256.
    Es256,
    /// ECDSA with P-384 and SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl JwtAlgorithm {
    /// All algorithms for key sets.
    pub const ASYMMETRIC: [Self; 7] =
        [Self::Rs256, Self::Rs384, Self::Rs512, Self::Ps256, Self::Es256, Self::Es384, Self::EdDsa];

    /// The name in a token's header.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }
}

impl FromStr for JwtAlgorithm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut known = Self::ASYMMETRIC.into_iter();
        known.find(|algorithm| algorithm.as_str() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ASYMMETRIC.iter().map(|algorithm| algorithm.as_str()).collect();
            format!("must be a list of {}", names.join(", "))
        })
    }
}

impl fmt::Debug for JwtKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(_) => f.write_str("Secret"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Url(url) => f.debug_tuple("Url").field(url).finish(),
        }
    }
}
