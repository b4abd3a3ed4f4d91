//! Sessions: one sandbox for each chat, kept while it is used.
//!
//! The number of open sessions is limited. If the limit is reached, the session that is idle longest is released. Its
//! sandbox is not deleted, so its chat finds its files again. A session in use is never released. A sandbox that the
//! provider has lost is replaced once.

mod error;
mod open;
mod slot;
mod slots;
mod temporary;

pub use crate::chat_key::{BadChatId, ChatKey};
pub use crate::subject::{BadSubject, Subject};
pub use error::Error;
pub use open::{Lease, SessionLimits, Sessions};
pub use slot::SessionState;
pub use temporary::{BadTicket, TemporaryChats};
