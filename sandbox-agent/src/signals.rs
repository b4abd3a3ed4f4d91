//! The agent ignores all signals.
//!
//! The kernel does not deliver a signal from inside the sandbox to PID 1 if PID 1 has no handler for it. There is one
//! exception: a signal that is blocked when it is sent stays pending. If another thread does not block it, it then
//! ends all threads (complete_signal in the kernel's signal.c, since 4.15). posix_spawn(3) blocks all signals in the
//! calling thread, and the new command may run before that thread runs again. An ignored signal is never fatal.

use std::ffi::c_int;
use std::io;

/// All signal numbers (signal(7)), including those that the C library reserves.
const ALL: std::ops::RangeInclusive<c_int> = 1..=64;

/// `struct sigaction` of the 64-bit kernel interface: handler, flags, restorer, mask.
type KernelAction = [usize; 4];

const KERNEL_MASK_BYTES: usize = 8;

/// Ignores every signal except SIGKILL and SIGSTOP, which cannot be ignored, and SIGCHLD, because the kernel would
/// then reap the children itself. Must run before the first thread starts. Processes inherit this unless they reset
/// it.
#[expect(
    unsafe_code,
    reason = "the C library rejects two of these signals, and no crate wraps the system call"
)]
pub(crate) fn ignore_all() -> io::Result<()> {
    let action: KernelAction = [libc::SIG_IGN, 0, 0, 0];
    for signal in ALL.filter(|signal| ![libc::SIGKILL, libc::SIGSTOP, libc::SIGCHLD].contains(signal)) {
        // SAFETY: the action is as long as the kernel reads, and the kernel does not write the old one.
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
