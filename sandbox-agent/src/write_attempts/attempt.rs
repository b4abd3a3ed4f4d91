//! What an announced system call attempts.

use std::ffi::OsString;
use std::fs::File;
use std::mem;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use libc::{c_long, seccomp_notif};

use super::filter::WRITE_FLAGS;

/// A path as a system call has it: relative to a directory unless it is absolute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of a descriptor of the process, or `AT_FDCWD`.
    pub(super) directory: i32,
    pub(super) path: PathBuf,
}

/// An attempt to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Attempt {
    /// To open or truncate a file.
    Open {
        place: Place,
        flags: i32,
    },
    /// To create anything but an open file or a hard link.
    Create(Place),
    Delete(Place),
    Rename {
        from: Place,
        to: Place,
    },
    Link {
        from: Place,
        to: Place,
    },
}

/// Reads an announced call. `memory` is that of the calling process. Returns `None` if the call cannot write, or if its
/// path cannot be read.
pub(super) fn read(announced: &seccomp_notif, memory: &File) -> Option<Attempt> {
    let arguments = announced.data.args;
    let place =
        |directory: i32, path: usize| Some(Place { directory, path: read_path(memory, arguments[path])? });
    let (here, at) = (libc::AT_FDCWD, arguments[0] as i32);
    let attempt = match c_long::from(announced.data.nr) {
        libc::SYS_openat => Attempt::Open { place: place(at, 1)?, flags: arguments[2] as i32 },
        libc::SYS_openat2 => {
            // `struct open_how` begins with the flags.
            let mut flags = [0; 8];
            memory.read_exact_at(&mut flags, arguments[2]).ok()?;
            let flags = u64::from_ne_bytes(flags) as i32;
            Some(flags).filter(|flags| flags & WRITE_FLAGS != 0)?;
            Attempt::Open { place: place(at, 1)?, flags }
        }
        libc::SYS_truncate => Attempt::Open { place: place(here, 0)?, flags: libc::O_WRONLY | libc::O_TRUNC },
        libc::SYS_bind => {
            Attempt::Create(Place { directory: here, path: read_socket(memory, arguments[1], arguments[2])? })
        }
        libc::SYS_mkdirat | libc::SYS_mknodat => Attempt::Create(place(at, 1)?),
        libc::SYS_symlinkat => Attempt::Create(place(arguments[1] as i32, 2)?),
        libc::SYS_linkat => Attempt::Link { from: place(at, 1)?, to: place(arguments[2] as i32, 3)? },
        libc::SYS_unlinkat => Attempt::Delete(place(at, 1)?),
        libc::SYS_renameat | libc::SYS_renameat2 => {
            Attempt::Rename { from: place(at, 1)?, to: place(arguments[2] as i32, 3)? }
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => Attempt::Open { place: place(here, 0)?, flags: arguments[1] as i32 },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_creat => {
            Attempt::Open { place: place(here, 0)?, flags: libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC }
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mkdir | libc::SYS_mknod => Attempt::Create(place(here, 0)?),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_symlink => Attempt::Create(place(here, 1)?),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_link => Attempt::Link { from: place(here, 0)?, to: place(here, 1)? },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_unlink | libc::SYS_rmdir => Attempt::Delete(place(here, 0)?),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_rename => Attempt::Rename { from: place(here, 0)?, to: place(here, 1)? },
        _ => return None,
    };
    Some(attempt)
}

/// Reads the path of a Unix socket's address (unix(7)). Other addresses, abstract ones too, have none.
fn read_socket(memory: &File, address: u64, length: u64) -> Option<PathBuf> {
    let mut bytes = [0; mem::size_of::<libc::sockaddr_un>()];
    let length = usize::try_from(length).ok().filter(|length| *length <= bytes.len())?;
    memory.read_exact_at(&mut bytes[..length], address).ok()?;
    let (family, path) = bytes.split_at(mem::offset_of!(libc::sockaddr_un, sun_path));
    let is_unix = u16::from_ne_bytes(family.try_into().ok()?) == libc::AF_UNIX as u16;
    let path = path.split(|byte| *byte == 0).next().filter(|path| is_unix && !path.is_empty())?;
    Some(OsString::from_vec(path.to_vec()).into())
}

/// Reads a path, which ends with NUL. The kernel takes none that is longer than PATH_MAX.
fn read_path(memory: &File, address: u64) -> Option<PathBuf> {
    let mut bytes = [0; libc::PATH_MAX as usize];
    // A read ends where the memory does.
    let length = memory.read_at(&mut bytes, address).ok()?;
    let end = bytes[..length].iter().position(|byte| *byte == 0)?;
    Some(OsString::from_vec(bytes[..end].to_vec()).into())
}
