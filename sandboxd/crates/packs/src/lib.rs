//! The chunks of snapshots, in packs of an object store.
//!
//! [`Packs`] stores chunks by their hashes. A [`Writer`] collects new chunks into [packs](pack) of at most
//! [`MAX_PACK_BYTES`], stores each pack as one object, and then records it in the [`Index`], which the caller provides.
//! The index is a cache: [`Packs::check`] rebuilds it from the packs alone. Manifests are objects beside the packs.
//! Everything goes through `dyn ObjectStore`, so a directory and a remote store behave alike.
//!
//! # Durability
//!
//! A pack is recorded after it is durable, and a chunk counts as stored once [`Writer::finish`] has returned. A crash, or a
//! writer that is dropped, leaves at most packs that no index knows. [`Packs::remove_strays`] removes them. Names of packs
//! never repeat, because each has a nonce: what was decided about a name stays true.
//!
//! # Collection
//!
//! Chunks are removed by mark and sweep. The index has a *generation*, which [`Packs::begin_collection`] increases, and a
//! *mark* for each chunk: the last generation in which it was in use. A collection has these steps:
//!
//! 1. [`Packs::begin_collection`] returns a [`Collection`].
//! 2. The caller lists the snapshots that it keeps. It must list them after the first step, all at one point in time.
//! 3. [`Collection::mark`] marks every chunk of each of them.
//! 4. [`Collection::sweep`] removes what has an older mark than the collection keeps.
//!
//! Writers work meanwhile. Each holds a [`Lease`] with the generation in which it began, and marks every chunk that it
//! stores or refers to with that generation. A collection keeps all marks from its own generation on, or from the oldest
//! lease that was open when it began. So the two kinds of writers are both protected:
//!
//! - A writer that began earlier holds a lease that the collection has seen. Its marks are kept, whenever it finishes.
//! - A writer that begins later marks with the collection's generation or a later one.
//!
//! Marking is atomic with removal: a chunk that the sweep has removed is reported as missing, and the writer stores it
//! again. Three rules are the caller's:
//!
//! - The lease is held until the snapshot is among those that step 2 lists.
//! - Every chunk of a snapshot passes through its writer, by [`Writer::put_all`] or [`Writer::claim`]: a directory's chunk
//!   does not protect the chunks that it names. Chunks that a snapshot shares with another one need not, as long as that one
//!   stays among those of step 2.
//! - A snapshot that is being restored or copied stays among those of step 2.
//!
//! Leases are in memory. After a restart no writer is left, and the first [`Packs::begin_collection`] continues a collection
//! that was interrupted: chunks that it has marked are not written again. One process at a time uses a store.

mod cache;
mod collection;
mod error;
mod fsck;
mod index;
mod lease;
mod local;
mod lookup;
mod object;
pub mod pack;
mod path;
mod plan;
mod read;
mod store;
mod writer;

pub use collection::{Collection, Swept};
pub use error::{Error, IndexError};
pub use fsck::{CheckOptions, CheckStopped, Checked, Finding};
pub use index::{Generation, Index, Location, PackInfo, PackUse};
pub use lease::Lease;
pub use object::ObjectInfo;
pub use pack::{MAX_PACK_BYTES, MAX_PACK_CHUNKS, PackDamage};
pub use store::Packs;
pub use writer::{Finished, NewChunk, Writer};
