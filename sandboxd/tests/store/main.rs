//! The store on real files, on failing disks, and in a process that is killed.

#![expect(clippy::unwrap_used, reason = "a story that cannot continue has failed")]

mod fault_injection;
mod faults;
mod history;
mod rows;
mod speed;
mod world;
