//! SQLite: one file in the state dir, and another for the index of the chunks.
//!
//! The statements are in one module per table. The other modules are about durability. They have the connections with
//! their time limits, the schema with the check for damage, and the reserved space for a full disk.

mod backup;
mod ballast;
mod chunks;
mod commands;
mod connections;
mod daemon;
mod database;
mod error;
mod history;
mod links;
mod mcp_servers;
mod projects;
mod quotas;
mod repositories;
mod sandboxes;
mod schema;
mod snapshots;
mod values;

pub use chunks::{CHUNK_FILE, ChunkIndex};
pub use daemon::read_audit_head;
pub use database::{Database, FILE};
