//! Session keys of chats.

use std::fmt;

use sandbox_api::{SessionKey, SessionKeyError};

/// Session key of a chat: `chat:<id>` for stored chats, `tmp:<id>` for temporary ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChatKey(SessionKey);

/// Why a text is not the id of a chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadChatId {
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

impl ChatKey {
    /// Creates the key of a stored chat. This crate lets every user of the app use every stored chat.
    pub fn chat(id: &str) -> Result<Self, BadChatId> {
        Self::new("chat:", id)
    }

    /// Creates the key of a temporary chat. Callers must have checked its ticket; see
    /// [`TemporaryChats`](crate::session::TemporaryChats).
    pub(crate) fn temporary(id: &str) -> Result<Self, BadChatId> {
        Self::new("tmp:", id)
    }

    fn new(kind: &str, id: &str) -> Result<Self, BadChatId> {
        let id = id.trim();
        if id.is_empty() {
            return Err(BadChatId::Empty);
        }
        match format!("{kind}{id}").parse() {
            Ok(key) => Ok(Self(key)),
            Err(SessionKeyError::Length) => {
                Err(BadChatId::TooLong { limit: SessionKey::MAX_BYTES - kind.len() })
            }
            Err(SessionKeyError::Control) => Err(BadChatId::Control),
            Err(SessionKeyError::SurroundingSpace) => unreachable!("the id was trimmed"),
        }
    }

    /// Returns the key in the form that sandboxd accepts.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for ChatKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_kind_and_the_id_of_its_chat() {
        assert_eq!(ChatKey::chat(" 42 ").unwrap().as_str(), "chat:42");
        let longest = "x".repeat(SessionKey::MAX_BYTES - 5);
        assert_eq!(ChatKey::chat(&longest).unwrap().as_str().len(), SessionKey::MAX_BYTES);
        assert_eq!(ChatKey::chat(&format!("{longest}x")), Err(BadChatId::TooLong { limit: 507 }));
        assert_eq!(ChatKey::chat(" \t "), Err(BadChatId::Empty));
        assert_eq!(ChatKey::chat("a\0b"), Err(BadChatId::Control));
        assert_eq!(ChatKey::chat("a\nb"), Err(BadChatId::Control));
        assert_eq!(ChatKey::chat("../é 🦀").unwrap().as_str(), "chat:../é 🦀");
    }
}
