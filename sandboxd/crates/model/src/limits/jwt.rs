//! Limits of JSON Web Tokens.

use std::time::Duration;

/// Maximum length of a token in bytes.
pub const MAX_JWT_BYTES: usize = 8 * 1024;

/// Minimum length of a secret for HMAC in bytes (RFC 7518 section 3.2).
pub const MIN_JWT_SECRET_BYTES: usize = 32;

/// Maximum length of a secret or a key set in bytes.
pub const MAX_JWKS_BYTES: usize = 256 * 1024;

/// Maximum number of keys of a key set. Further ones are not used.
pub const MAX_JWKS_KEYS: usize = 100;

/// Time limit for the request for a key set.
pub const JWKS_FETCH: Duration = Duration::from_secs(5);

/// Minimum time between two requests for a key set.
pub const JWKS_FETCH_EVERY: Duration = Duration::from_secs(60);

/// As [`JWKS_FETCH_EVERY`], as long as there is no key set at all.
pub const FIRST_JWKS_FETCH_EVERY: Duration = Duration::from_secs(5);

/// Age from which a key set is requested again, so that a removed key is not trusted for longer.
pub const JWKS_MAX_AGE: Duration = Duration::from_secs(10 * 60);

/// Maximum difference between the clocks of the issuer and of this machine.
pub const JWT_LEEWAY: Duration = Duration::from_secs(30);

/// Maximum number of tokens whose verification is remembered.
pub const MAX_VERIFIED_JWTS: usize = 4_096;

/// Maximum number of subjects of a project whose tokens are refused if they were issued before a time.
pub const MAX_REVOKED_SUBJECTS: usize = 10_000;
