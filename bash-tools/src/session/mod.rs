//! Sessions: one sandbox for each chat, kept while it is used.

mod key;

pub use key::{BadSessionKey, SessionKey};
