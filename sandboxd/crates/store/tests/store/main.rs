//! The store's contract, which every backend must keep, and what SQLite adds to it: faulty files, full disks
//! and a process that is killed.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

#[macro_use]
mod contract;
mod memory;
mod names;
mod sqlite;
