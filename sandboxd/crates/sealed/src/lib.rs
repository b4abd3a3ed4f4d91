//! A remote object store, encrypted: its operator sees neither contents nor names.
//!
//! [`Remote::open`] returns a store that behaves like a directory, so its user need not know that anything is encrypted.
//! Objects of one project, `default`, are in one folder:
//!
//! | object | content |
//! |---|---|
//! | `default/keys/<data key>/<master key>` | the [data key](keyring), encrypted with a master key |
//! | `default/owner` | the installation that uses the store |
//! | `default/objects/<group>/<name>` | an object with an [encrypted name](names), in the [format](format) of this crate |
//!
//! # Keys
//!
//! The *data key* is random and encrypts everything. It never changes. The *master keys* are the operator's, from a file, and
//! encrypt only the data key. So a new master key needs one small object, and nothing else is written again. Ids of keys are
//! derived from the keys, so they cannot be confused.
//!
//! # What is protected
//!
//! Contents and names are secret, and a changed, cut, moved or exchanged object is found when it is read ([`Damage`]). The
//! number of objects, their sizes and their times are visible. The store can return an older version of an object that was
//! written more than once, and can delete objects. Neither is the case for packs, which are written once and whose names are
//! their hashes; a deleted one is reported as missing.
//!
//! A store is never considered empty by mistake: if it lacks the data key of recorded snapshots, opening it fails.

mod connection;
mod error;
mod format;
mod headers;
mod key;
mod keyring;
mod names;
mod owner;
mod read;
mod remote;
mod store;

pub use error::{Damage, Error};
pub use format::SEGMENT_BYTES;
pub use keyring::Recorded;
pub use remote::{Opened, Remote};
