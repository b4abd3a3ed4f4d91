//! Sessions: one sandbox for each chat, kept while it is used.
//!
//! At most so many are open at once. The one that is idle longest makes room, and is released, not deleted: its chat finds its
//! files again. One that is in use never makes room. What the provider has lost is made anew, once.

mod error;
mod key;
mod open;
mod places;
mod slot;
mod temporary;

pub use error::Error;
pub use key::{BadSessionKey, SessionKey};
pub use open::{Lease, SessionLimits, Sessions};
pub use slot::SessionState;
pub use temporary::{BadTicket, TemporaryChats};
