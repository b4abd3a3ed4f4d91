//! Disks on the real engine: the quota holds, files are kept, and everything is removed. The tests read /sys and the
//! disks' volume, so the engine must be on this machine and the tests need root.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod fixture;
mod life;
mod quota;
mod speed;
