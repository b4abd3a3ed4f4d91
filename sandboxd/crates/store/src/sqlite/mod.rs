//! SQLite: one file in the state dir.
//!
//! The statements are in one module per table. Each operation of [`Store`](crate::Store) that needs the database is
//! one method of [`Database`]. The other modules are about durability. They have the connections with their time
//! limits, the schema with the check for damage, and the reserved space for a full disk.

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
