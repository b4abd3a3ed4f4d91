//! What a chat's sandbox is known by.

use std::fmt;

/// A session's key: `chat:<id>` for chats that are kept, `tmp:<id>` for temporary ones. 1 to [`SessionKey::MAX_BYTES`] bytes
/// without control characters, and without blanks around it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionKey(String);

/// What is no session key, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadSessionKey {
    /// There is nothing but blanks.
    #[error("a chat's id must not be empty")]
    Empty,
    /// It is too long.
    #[error("a chat's id must be at most {limit} bytes long")]
    TooLong {
        /// Most that is taken.
        limit: usize,
    },
    /// It has a character that nobody can see.
    #[error("a chat's id must not have control characters")]
    Control,
}

impl SessionKey {
    /// Longest key, in bytes; sandboxd takes no longer one.
    pub const MAX_BYTES: usize = sandbox_api::limits::MAX_SESSION_KEY_BYTES;

    /// Of a chat that is kept. Whoever may use the app may use every such chat, as far as this crate goes.
    pub fn chat(id: &str) -> Result<Self, BadSessionKey> {
        Self::new("chat:", id)
    }

    /// Of a chat that is not kept; only a ticket leads here, see [`TemporaryChats`](super::TemporaryChats).
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

    /// As sandboxd takes it.
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
