//! Asks the kernel to schedule the agent soon after it wakes up, even beside hundreds of busy processes.
//!
//! A thread with a short time slice has an earlier deadline and preempts threads with longer slices (sched(7), EEVDF,
//! Linux 6.12). Its share of the processors stays the same, so it needs no privilege. Commands do not inherit it. An
//! older kernel ignores the request.

use std::io;

/// `struct sched_attr` in its first version (sched_setattr(2)).
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// The shortest slice that the kernel allows.
const SLICE_NS: u64 = 100_000;

/// Gives the calling thread a short slice.
#[expect(unsafe_code, reason = "no crate wraps sched_setattr for ordinary threads")]
pub(crate) fn shorten() -> io::Result<()> {
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: libc::SCHED_OTHER as u32,
        flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
        nice: 0,
        priority: 0,
        runtime_ns: SLICE_NS,
        deadline_ns: 0,
        period_ns: 0,
    };
    // SAFETY: the kernel reads as many bytes as the first field says, which is the size of the structure.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
