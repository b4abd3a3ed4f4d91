//! The digest that distinguishes a repeated request to start a command from a different request with the same id.

use std::fmt;

use sha2::{Digest, Sha256};

/// SHA-256 of all fields of a request to start a command, except the id.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RequestDigest([u8; Self::BYTES]);

impl RequestDigest {
    /// Length in bytes.
    pub const BYTES: usize = 32;

    /// Reads a digest. `None` if the length is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Whether the request starts a passive command. An agent keeps the digest of a command, but not this property.
    pub fn is_passive(&self) -> bool {
        self.0.starts_with(PASSIVE)
    }

    /// The bytes of the digest.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// First bytes of the digests of passive commands. The others have these bytes once in 2^64.
const PASSIVE: &[u8] = b"passive\0";

/// Prints the first bytes only: enough to distinguish two digests in a log.
impl fmt::Debug for RequestDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second, third, fourth, ..] = self.0;
        write!(f, "RequestDigest({first:02x}{second:02x}{third:02x}{fourth:02x})")
    }
}

/// Collects the fields of a request. Each field is preceded by its length, so that different lists of fields differ.
#[derive(Default)]
pub(super) struct Fields(Sha256);

impl Fields {
    pub(super) fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_le_bytes());
    }

    pub(super) fn add(&mut self, field: &[u8]) {
        self.count(field.len());
        self.0.update(field);
    }

    pub(super) fn digest(self) -> RequestDigest {
        RequestDigest(self.0.finalize().into())
    }

    /// The digest of a request for a passive command.
    pub(super) fn passive_digest(self) -> RequestDigest {
        let mut digest = self.digest();
        digest.0[..PASSIVE.len()].copy_from_slice(PASSIVE);
        digest
    }
}
