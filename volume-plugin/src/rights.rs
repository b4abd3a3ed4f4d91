//! Drops the capabilities that the engine gives every plugin and this one does not need.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// The capabilities that are kept.
///
/// - `SYS_ADMIN`: mounts, and overlay's own attributes (`trusted.overlay.*`)
/// - `SETUID`, `SETGID`: the mapping of a user namespace to a user
/// - `MKNOD`: the node of a loop device, and overlay's marks of removed files
/// - `DAC_READ_SEARCH`: file handles, without which overlay silently works without its index
/// - `CHOWN`, `DAC_OVERRIDE`, `FOWNER`, `FSETID`: overlay copies a user's files with the rights of the process that mounted it
const KEPT: [CapabilitySet; 9] = [
    CapabilitySet::SYS_ADMIN,
    CapabilitySet::SETUID,
    CapabilitySet::SETGID,
    CapabilitySet::MKNOD,
    CapabilitySet::DAC_READ_SEARCH,
    CapabilitySet::CHOWN,
    CapabilitySet::DAC_OVERRIDE,
    CapabilitySet::FOWNER,
    CapabilitySet::FSETID,
];

/// Keeps only [`KEPT`]. Must be called while the process has one thread.
pub(crate) fn reduce() -> io::Result<()> {
    let kept = KEPT.into_iter().collect::<CapabilitySet>();
    for capability in CapabilitySet::all().difference(kept) {
        match remove_capability_from_bounding_set(capability) {
            // A capability that the kernel does not know.
            Err(rustix::io::Errno::INVAL) => {}
            other => other?,
        }
    }
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets)?;
    set_no_new_privs(true)?;
    Ok(())
}
