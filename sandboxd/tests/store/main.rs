//! The store on real files, on disks that fail, and under a process that is killed.

#![expect(clippy::unwrap_used, reason = "a story that cannot go on has failed")]

mod fault_injection;
mod faults;
mod history;
mod rows;
mod speed;
mod world;
