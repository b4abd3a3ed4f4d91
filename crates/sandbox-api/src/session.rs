//! Session keys.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::limits;

/// Key of a session: 1 to [`SessionKey::MAX_BYTES`] bytes, no control characters, and no white space around it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionKey(String);

/// Why a text is not a session key. Each message is the end of a sentence that begins with the field's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SessionKeyError {
    /// The text is empty or too long.
    #[error("must be 1 to {} bytes long", SessionKey::MAX_BYTES)]
    Length,
    /// The text begins or ends with white space.
    #[error("must not begin or end with white space")]
    SurroundingSpace,
    /// The text contains a control character.
    #[error("must not contain control characters")]
    Control,
}

impl SessionKey {
    /// Maximum length of a key in bytes.
    pub const MAX_BYTES: usize = limits::MAX_SESSION_KEY_BYTES;

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SessionKey {
    type Err = SessionKeyError;

    fn from_str(text: &str) -> Result<Self, SessionKeyError> {
        if text.is_empty() || text.len() > Self::MAX_BYTES {
            return Err(SessionKeyError::Length);
        }
        // Some clients trim their input. They would see one session where others see two.
        if text.trim() != text {
            return Err(SessionKeyError::SurroundingSpace);
        }
        if text.chars().any(char::is_control) {
            return Err(SessionKeyError::Control);
        }
        Ok(Self(text.to_owned()))
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

    fn parse(text: &str) -> Result<SessionKey, SessionKeyError> {
        text.parse()
    }

    #[test]
    fn a_valid_key_is_kept_unchanged() {
        assert_eq!(parse("chat: 1").unwrap().as_str(), "chat: 1");
        assert!(parse(&"a".repeat(512)).is_ok());
    }

    #[test]
    fn an_invalid_key_is_rejected() {
        assert_eq!(parse(""), Err(SessionKeyError::Length));
        assert_eq!(parse(&"a".repeat(513)), Err(SessionKeyError::Length));
        for text in ["   ", " chat:1", "chat:1 ", "\tchat:1", "chat:1\n", "\u{a0}chat:1"] {
            assert_eq!(parse(text), Err(SessionKeyError::SurroundingSpace), "{text:?}");
        }
        assert_eq!(parse("a\nb"), Err(SessionKeyError::Control));
    }
}
