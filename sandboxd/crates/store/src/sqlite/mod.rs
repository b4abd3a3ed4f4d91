//! SQLite: one file in the state dir.
//!
//! The statements stand in one module per table; each operation of [`Store`](crate::Store) that needs the
//! database is one method of [`Database`]. The other modules are about durability: the connections and their
//! time limits, the schema and the check for damage, and the space that a full disk still leaves.

mod ballast;
mod commands;
mod daemon;
mod database;
mod error;
mod links;
mod sandboxes;
mod schema;

pub(crate) use database::Database;
pub use database::FILE;
