//! The filter that makes the kernel announce attempts to write.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

use libc::{c_long, sock_filter};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Flags of open(2) with which a file is written, created or truncated.
pub(super) const WRITE_FLAGS: i32 = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;

/// Calls that are always announced.
const ALWAYS: &[c_long] = &[
    libc::SYS_openat2,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_truncate,
    libc::SYS_bind,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mknod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_symlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
];

/// Calls that are announced if they have one of [`WRITE_FLAGS`], and the index of that argument.
const WITH_FLAGS: &[(c_long, u32)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];

// Positions in `struct seccomp_data`. The lower half of an argument is first, as both architectures are little-endian.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;
const ARGUMENT_BYTES: u32 = 8;

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// Installs the filter for this process and all that it will start. Returns the descriptor that receives the
/// announcements; it is closed on exec. Calls of other architectures are not announced.
///
/// # Errors
///
/// Those of seccomp(2): the kernel has no announcements, or this process already has a filter with some (`EBUSY`).
#[expect(unsafe_code, reason = "no crate wraps seccomp's listeners")]
pub(crate) fn install() -> io::Result<OwnedFd> {
    let mut instructions = program();
    let program = libc::sock_fprog {
        len: u16::try_from(instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?,
        filter: instructions.as_mut_ptr(),
    };
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
    // SAFETY: the kernel copies the program, whose length is right, before it returns.
    let number = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
    let number = RawFd::try_from(number).map_err(|_| io::ErrorKind::InvalidData)?;
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just created this descriptor, and nothing else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

fn program() -> Vec<sock_filter> {
    let before = 3 + ALWAYS.len();
    let allow = before + 3 * WITH_FLAGS.len();
    let announce = allow + 1;
    let mut program = vec![
        instruction(LOAD, ARCHITECTURE_AT, 0, 0),
        jump(IF_EQUAL, ARCHITECTURE, 1, 2, allow),
        instruction(LOAD, NUMBER_AT, 0, 0),
    ];
    for call in ALWAYS {
        let next = program.len() + 1;
        program.push(jump(IF_EQUAL, *call as u32, program.len(), announce, next));
    }
    for (call, argument) in WITH_FLAGS {
        let at = program.len();
        program.push(jump(IF_EQUAL, *call as u32, at, at + 1, at + 3));
        program.push(instruction(LOAD, ARGUMENTS_AT + argument * ARGUMENT_BYTES, 0, 0));
        program.push(jump(IF_ANY_BIT, WRITE_FLAGS as u32, at + 2, announce, allow));
    }
    program.push(instruction(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0));
    program.push(instruction(RETURN, libc::SECCOMP_RET_USER_NOTIF, 0, 0));
    program
}

/// A jump of the instruction at position `at`. The kernel rejects a program with a jump beyond its end.
fn jump(code: u32, value: u32, at: usize, if_true: usize, if_false: usize) -> sock_filter {
    let distance = |to: usize| (to - at - 1) as u8;
    instruction(code, value, distance(if_true), distance(if_false))
}

fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}
