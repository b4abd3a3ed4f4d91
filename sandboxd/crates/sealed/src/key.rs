//! Keys, and what is derived from them.

use std::fmt;

use secrecy::{ExposeSecret, SecretBox};

/// Size of a key in bytes.
pub(crate) const KEY_BYTES: usize = 32;

/// Name of a key. It is derived from the key and does not reveal it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyId([u8; Self::BYTES]);

impl KeyId {
    /// Size of an id in bytes.
    pub(crate) const BYTES: usize = 16;

    pub(crate) fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    pub(crate) fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Parses what [`fmt::Display`] writes.
    pub(crate) fn parse(digits: &str) -> Option<Self> {
        Some(Self(parse_hex(digits)?.try_into().ok()?))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A key with its id: a data key, or a master key.
#[derive(Debug)]
pub(crate) struct Key {
    id: KeyId,
    secret: SecretBox<[u8; KEY_BYTES]>,
}

impl Key {
    pub(crate) fn new(secret: [u8; KEY_BYTES]) -> Self {
        let id = blake3::derive_key("sandboxd 2026 snapshots: id of a key", &secret);
        let mut short = [0; KeyId::BYTES];
        short.copy_from_slice(&id[..KeyId::BYTES]);
        Self { id: KeyId(short), secret: SecretBox::new(Box::new(secret)) }
    }

    /// A new key.
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        let mut secret = [0; KEY_BYTES];
        getrandom::fill(&mut secret)?;
        Ok(Self::new(secret))
    }

    pub(crate) fn id(&self) -> KeyId {
        self.id
    }

    /// The key itself.
    pub(crate) fn secret(&self) -> &[u8; KEY_BYTES] {
        self.secret.expose_secret()
    }

    /// A key for one purpose. `context` must be constant and is used nowhere else.
    pub(crate) fn derive(&self, context: &'static str) -> SecretBox<[u8; KEY_BYTES]> {
        SecretBox::new(Box::new(blake3::derive_key(context, self.secret())))
    }
}

/// Hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of lower-case hexadecimal digits.
pub(crate) fn parse_hex(digits: &str) -> Option<Vec<u8>> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(is_digit) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names in stores depend on it.
    #[test]
    fn the_id_of_a_key_is_fixed() {
        let key = Key::new([7; KEY_BYTES]);
        assert_eq!(key.id().to_string(), "0c8b22a50f50b1b2e1a8e4182e9f88b9");
        assert_eq!(KeyId::parse(&key.id().to_string()), Some(key.id()));
        assert!(!format!("{key:?}").contains("7, 7"), "{key:?}");
        assert_ne!(key.id(), Key::new([8; KEY_BYTES]).id());
    }

    #[test]
    fn only_lower_case_digits_are_read() {
        assert_eq!(parse_hex("00ff1a"), Some(vec![0, 255, 26]));
        for bad in ["0", "0g", "FF", "+1", "é"] {
            assert_eq!(parse_hex(bad), None, "{bad}");
        }
    }
}
