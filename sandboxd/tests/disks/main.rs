//! Disks on the real engine: the quota holds, files stay, nothing is left behind.
//!
//! The machine's own /sys says which loop devices have a file, and the disks' volume is looked into, so the
//! engine must be this machine's and the tests root's.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod ground;
mod life;
mod quota;
mod speed;
