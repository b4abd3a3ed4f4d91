//! The name a chat app gives a chat's stay.

use std::fmt;

use super::FieldError;

/// 1 to [`SessionKey::MAX_BYTES`] bytes without control characters, and no white space around them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionKey(String);

impl SessionKey {
    /// Longest key.
    pub const MAX_BYTES: usize = sandbox_api::limits::MAX_SESSION_KEY_BYTES;

    /// Checks a key; `field` is its name in the request.
    pub fn parse(text: &str, field: &str) -> Result<Self, FieldError> {
        if text.is_empty() || text.len() > Self::MAX_BYTES {
            return Err(FieldError::new(field, format!("must be 1 to {} bytes long", Self::MAX_BYTES)));
        }
        // Two keys that differ in blanks would be one sandbox to some and two to others.
        if text.trim() != text {
            return Err(FieldError::new(field, "must not begin or end with white space"));
        }
        if text.chars().any(char::is_control) {
            return Err(FieldError::new(field, "must not contain control characters"));
        }
        Ok(Self(text.to_owned()))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_bounded_and_taken_as_it_is() {
        assert_eq!(SessionKey::parse("chat: 1", "k").unwrap().as_str(), "chat: 1");
        for bad in ["", "   ", " chat:1", "chat:1 ", "\tchat:1", "chat:1\n", "\u{a0}chat:1"] {
            assert!(SessionKey::parse(bad, "k").is_err(), "{bad:?}");
        }
        assert!(SessionKey::parse(&"a".repeat(512), "k").is_ok());
        assert!(SessionKey::parse(&"a".repeat(513), "k").is_err());
        assert!(SessionKey::parse("a\nb", "k").is_err());
    }
}
