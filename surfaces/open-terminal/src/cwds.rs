//! The working directories that chats have chosen.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sandbox_api::WORKSPACE;

use crate::access::Chat;

/// Maximum number of chats whose directory is kept.
const MAX_CHATS: usize = 10_000;

/// Directories of the chats that have chosen one, by the key of their session. A restart clears them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cwds(Arc<Mutex<HashMap<String, String>>>);

impl Cwds {
    /// The directory of a chat: the workspace if it has not chosen one.
    pub(crate) fn of(&self, chat: &Chat) -> String {
        let chosen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        chosen.get(chat.session.key()).map_or_else(|| WORKSPACE.to_owned(), Clone::clone)
    }

    pub(crate) fn set(&self, chat: &Chat, path: String) {
        let mut chosen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if chosen.len() >= MAX_CHATS {
            chosen.clear();
        }
        chosen.insert(chat.session.key().to_owned(), path);
    }
}
