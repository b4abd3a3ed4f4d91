//! Faults and changes of the engine, its volumes, disks and clocks, made without the daemon's knowledge.

mod base_image;
mod clock;
mod degraded;
mod external_changes;
mod faults;
mod full_disk;
pub(crate) mod loop_devices;
mod lost_disks;
mod ownership;
mod repairs;
mod wrong_device;
