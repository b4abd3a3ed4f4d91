//! What signals do to the agent: nothing.
//!
//! The kernel keeps from PID 1 the signals of its own sandbox that it has no handler for, but not all of them
//! and always: one that is blocked when it is sent is kept for later, and if another thread does not block
//! it, it is fatal to all threads (complete_signal in the kernel's signal.c, since 4.15). posix_spawn(3)
//! blocks all signals in the thread that calls it, and the new command may run before that thread runs again.
//! What is ignored is never fatal.

use std::ffi::c_int;
use std::io;

/// The numbers there are (signal(7)), those that the C library keeps for itself included.
const ALL: std::ops::RangeInclusive<c_int> = 1..=64;

/// `struct sigaction` as the kernel has it on 64 bits: handler, flags, restorer, mask.
type KernelAction = [usize; 4];

const KERNEL_MASK_BYTES: usize = 8;

/// Ignores every signal but those that cannot be, and SIGCHLD, whose children would be nobody's then. For
/// before the first thread. What is started later takes this over unless it is told otherwise.
#[expect(unsafe_code, reason = "the C library does not let two signals be ignored, and no crate is below it")]
pub(crate) fn ignore_all() -> io::Result<()> {
    let action: KernelAction = [libc::SIG_IGN, 0, 0, 0];
    for signal in ALL.filter(|signal| ![libc::SIGKILL, libc::SIGSTOP, libc::SIGCHLD].contains(signal)) {
        // SAFETY: the action is as long as the kernel reads, and it does not write the old one.
        let done = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                action.as_ptr(),
                std::ptr::null_mut::<KernelAction>(),
                KERNEL_MASK_BYTES,
            )
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
