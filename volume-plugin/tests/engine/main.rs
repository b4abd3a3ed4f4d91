//! The plugin on a real engine.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue ends")]

mod faults;
mod files;
mod fixture;
mod private_engine;
mod restarts;
mod rights;
mod versions;
