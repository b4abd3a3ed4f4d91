//! Snapshots as files: [`export`] writes one, and [`import`] makes a snapshot of one. The file is hostile input, which
//! [`incoming`] verifies piece by piece.

mod export;
mod import;
mod incoming;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod values_tests;

pub use self::export::SnapshotFile;
pub use self::import::{ImportFailed, ImportOptions};
