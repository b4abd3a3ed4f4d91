//! The name of a chunk.

use std::fmt;

/// The BLAKE3 hash of a chunk's bytes, before compression.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash([u8; Hash::BYTES]);

impl Hash {
    /// Size of a hash in bytes.
    pub const BYTES: usize = 32;

    /// The hash of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// A hash from its bytes.
    pub const fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// A hash from a slice, which must have [`Hash::BYTES`] bytes.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The hash's bytes.
    pub const fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }
}

/// In lower-case hexadecimal digits.
impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The test vector of the BLAKE3 specification for an empty input.
    #[test]
    fn the_hash_is_blake3() {
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(Hash::of(b"").to_string(), empty);
    }

    #[test]
    fn a_hash_is_read_from_exactly_its_bytes() {
        let hash = Hash::of(b"a");
        assert_eq!(Hash::from_slice(hash.as_bytes()), Some(hash));
        assert_eq!(Hash::from_slice(&hash.as_bytes()[1..]), None);
    }
}
