//! The engine, its volumes, disks and clocks when they fail or change behind the daemon.

mod base_image;
mod clock;
mod degraded;
mod external_changes;
mod faults;
mod full_disk;
mod loop_devices;
mod lost_disks;
mod ownership;
mod repairs;
