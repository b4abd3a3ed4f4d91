//! Session keys of chats, and whose chats they are.

use std::fmt;

use sandbox_api::{SessionKey, SessionKeyError};

use crate::subject::Subject;

/// Before the key of a chat of a subject. A token without a subject also finds the sandboxes of all subjects by their keys,
/// so a chat without a subject must never have the key of another one.
const OF_SUBJECT: &str = "user:";

/// Session key of a chat: `chat:<id>` for stored chats, `tmp:<id>` for temporary ones, and the same after `user:` for
/// those of a subject. Chats of two subjects may have the same id.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChatKey {
    key: SessionKey,
    subject: Option<Subject>,
}

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
    /// Creates the key of a stored chat without a subject: every user of the app can use it.
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
            Ok(key) => Ok(Self { key, subject: None }),
            Err(SessionKeyError::Length) => {
                Err(BadChatId::TooLong { limit: SessionKey::MAX_BYTES - kind.len() })
            }
            Err(SessionKeyError::Control) => Err(BadChatId::Control),
            Err(SessionKeyError::SurroundingSpace) => unreachable!("the id was trimmed"),
        }
    }

    /// Returns the key of the same chat of a subject. Another subject's chat of the same id is another chat, with
    /// another sandbox.
    ///
    /// # Errors
    /// The key is too long with the prefix of such keys.
    pub fn of_subject(self, subject: Subject) -> Result<Self, BadChatId> {
        let too_long = |_| BadChatId::TooLong { limit: SessionKey::MAX_BYTES - OF_SUBJECT.len() };
        let key = match self.subject {
            Some(_) => self.key,
            None => format!("{OF_SUBJECT}{}", self.key).parse().map_err(too_long)?,
        };
        Ok(Self { key, subject: Some(subject) })
    }

    /// Returns the key in the form that sandboxd accepts, where it is unique within the subject.
    pub fn as_str(&self) -> &str {
        self.key.as_str()
    }

    /// Returns the subject that the chat belongs to, if any.
    pub fn subject(&self) -> Option<&Subject> {
        self.subject.as_ref()
    }
}

impl fmt::Display for ChatKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_of_a_subject_has_a_key_that_no_other_chat_has() {
        let ann: Subject = "ann".parse().unwrap();
        let key = ChatKey::chat("42").unwrap().of_subject(ann.clone()).unwrap();
        assert_eq!((key.as_str(), key.subject()), ("user:chat:42", Some(&ann)));
        assert_ne!(key, ChatKey::chat("42").unwrap());
        assert_ne!(key, ChatKey::chat("42").unwrap().of_subject("bob".parse().unwrap()).unwrap());
        assert_eq!(key.clone().of_subject(ann.clone()).unwrap(), key, "only once");
        let longest = ChatKey::chat(&"x".repeat(SessionKey::MAX_BYTES - 5)).unwrap();
        assert_eq!(longest.of_subject(ann), Err(BadChatId::TooLong { limit: 507 }));
    }

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
