//! Session keys.

use std::fmt;

/// Key of a session: `chat:<id>` for stored chats, `tmp:<id>` for temporary ones. It has 1 to
/// [`SessionKey::MAX_BYTES`] bytes, no control characters, and no white space around it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionKey(String);

/// Why a text is not a session key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSessionKey {
    /// The text is blank.
    #[error("a chat's id must not be empty")]
    Empty,
    /// The text is too long.
    #[error("a chat's id must be at most {limit} bytes long")]
    TooLong {
        /// Maximum number of bytes.
        limit: usize,
    },
    /// The text contains a control character.
    #[error("a chat's id must not have control characters")]
    Control,
}

impl SessionKey {
    /// Maximum length of a key in bytes, as in sandboxd.
    pub const MAX_BYTES: usize = sandbox_api::limits::MAX_SESSION_KEY_BYTES;

    /// Creates the key of a stored chat. This crate lets every user of the app use every stored chat.
    pub fn chat(id: &str) -> Result<Self, BadSessionKey> {
        Self::new("chat:", id)
    }

    /// Creates the key of a temporary chat. Only a ticket leads here, see [`TemporaryChats`](super::TemporaryChats).
    pub(super) fn temporary(id: &str) -> Result<Self, BadSessionKey> {
        Self::new("tmp:", id)
    }

    fn new(kind: &str, id: &str) -> Result<Self, BadSessionKey> {
        let id = id.trim();
        let limit = Self::MAX_BYTES - kind.len();
        if id.is_empty() {
            return Err(BadSessionKey::Empty);
        }
        if id.len() > limit {
            return Err(BadSessionKey::TooLong { limit });
        }
        if id.chars().any(char::is_control) {
            return Err(BadSessionKey::Control);
        }
        Ok(Self(format!("{kind}{id}")))
    }

    /// Returns the key in the form that sandboxd accepts.
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
    fn a_key_is_a_chats_id_with_its_kind() {
        assert_eq!(SessionKey::chat(" 42 ").unwrap().as_str(), "chat:42");
        let longest = "x".repeat(SessionKey::MAX_BYTES - 5);
        assert_eq!(SessionKey::chat(&longest).unwrap().as_str().len(), SessionKey::MAX_BYTES);
        assert_eq!(SessionKey::chat(&format!("{longest}x")), Err(BadSessionKey::TooLong { limit: 507 }));
        assert_eq!(SessionKey::chat(" \t "), Err(BadSessionKey::Empty));
        assert_eq!(SessionKey::chat("a\0b"), Err(BadSessionKey::Control));
        assert_eq!(SessionKey::chat("a\nb"), Err(BadSessionKey::Control));
        assert_eq!(SessionKey::chat("../é 🦀").unwrap().as_str(), "chat:../é 🦀");
    }
}
