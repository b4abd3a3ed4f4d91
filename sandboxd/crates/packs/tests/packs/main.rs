//! Chunks on a real file system, with an index in memory, and object stores and indexes that fail.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod checking;
mod chunks;
mod collecting;
mod faulty;
mod memory;
mod objects;
mod speed;
mod writing;
