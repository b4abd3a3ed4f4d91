//! Mounts that show root's files as a user's (mount_setattr(2), `MOUNT_ATTR_IDMAP`).
//!
//! The kernel takes such a mapping from a user namespace. A namespace needs a process that creates it, so this program
//! starts itself for that moment.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::{Child, Command, Stdio};

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// The argument with which this program starts itself.
pub(crate) const HOLD: &str = "hold-user-namespace";

/// Creates a user namespace, reports that with one byte, and keeps it until standard input ends. The process must have
/// one thread.
pub(crate) fn hold() -> io::Result<()> {
    enter_user_namespace()?;
    let mut out = io::stdout();
    out.write_all(b"\n")?;
    out.flush()?;
    io::stdin().read_to_end(&mut Vec::new()).map(drop)
}

#[expect(unsafe_code, reason = "rustix cannot know which resources of a process are shared")]
fn enter_user_namespace() -> io::Result<()> {
    // SAFETY: a new user namespace unshares neither descriptors nor memory.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }.map_err(io::Error::from)
}

/// Makes the files of root in `mount`, which is not attached yet, the files of `uid`. All other owners become the
/// overflow user.
pub(crate) fn map_root(mount: BorrowedFd<'_>, uid: u32) -> io::Result<()> {
    let namespace = user_namespace(uid)?;
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_IDMAP,
        attr_clr: 0,
        propagation: 0,
        userns_fd: namespace.as_fd().as_raw_fd().try_into().map_err(io::Error::other)?,
    };
    set_attributes(mount, &attributes)
}

#[expect(unsafe_code, reason = "rustix does not have mount_setattr")]
fn set_attributes(mount: BorrowedFd<'_>, attributes: &libc::mount_attr) -> io::Result<()> {
    // SAFETY: both descriptors are open for as long as their borrows live. The kernel reads an empty path and the
    // structure, whose size is passed along.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            std::ptr::from_ref(attributes),
            size_of::<libc::mount_attr>(),
        )
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns a user namespace in which root is `uid`. It lives as long as its file is open.
fn user_namespace(uid: u32) -> io::Result<File> {
    let mut holder =
        Command::new("/proc/self/exe").arg(HOLD).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let namespace = configure(&mut holder, uid);
    // Its input ends, and so does the process.
    drop(holder.stdin.take());
    holder.wait()?;
    namespace
}

fn configure(holder: &mut Child, uid: u32) -> io::Result<File> {
    let mut ready = [0];
    let out = holder.stdout.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
    out.read_exact(&mut ready)?;
    let proc = format!("/proc/{}", holder.id());
    for map in ["uid_map", "gid_map"] {
        fs::write(format!("{proc}/{map}"), format!("0 {uid} 1\n"))?;
    }
    File::open(format!("{proc}/ns/user"))
}
