//! The name a chat app gives a chat's stay.

use std::fmt;

use super::FieldError;

/// 1 to [`SessionKey::MAX_BYTES`] bytes without control characters; surrounding blanks do not count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionKey(String);

impl SessionKey {
    /// Longest key.
    pub const MAX_BYTES: usize = sandbox_api::limits::MAX_SESSION_KEY_BYTES;

    /// Checks a key; `field` is its name in the request.
    pub fn parse(text: &str, field: &str) -> Result<Self, FieldError> {
        let text = text.trim();
        if text.is_empty() || text.len() > Self::MAX_BYTES {
            return Err(FieldError::new(field, format!("must be 1 to {} bytes long", Self::MAX_BYTES)));
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
    fn a_key_is_trimmed_and_bounded() {
        assert_eq!(SessionKey::parse(" chat:1 ", "k").unwrap().as_str(), "chat:1");
        assert!(SessionKey::parse("   ", "k").is_err());
        assert!(SessionKey::parse(&"a".repeat(512), "k").is_ok());
        assert!(SessionKey::parse(&"a".repeat(513), "k").is_err());
        assert!(SessionKey::parse("a\nb", "k").is_err());
    }
}
