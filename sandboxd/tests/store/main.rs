//! The store on real files, on disks that fail, and under a process that is killed.

mod faults;
mod history;
mod rows;
mod speed;
mod world;
