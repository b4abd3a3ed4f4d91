//! A file whose mode is changed without following a link.
//!
//! chmod(2) follows links, and a command may put a link in a file's place at any moment. Only Linux 6.6 has a system
//! call that does not (fchmodat2(2)), and gVisor has none. So the file is opened as a reference first (`O_PATH`), which
//! needs no permission of the file, and is then changed and opened through that reference.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, Stat, chmod, fstat, open, openat};
use rustix::io::Errno;

/// A reference to a file, directory, named pipe or socket. It stays the same if another takes its name.
#[derive(Debug)]
pub(crate) struct Pinned {
    fd: OwnedFd,
    stat: Stat,
}

impl Pinned {
    /// Pins `name` in `dir`. Fails with `ELOOP` if it is a symbolic link.
    pub(crate) fn open(dir: impl AsFd, name: impl rustix::path::Arg) -> Result<Self, Errno> {
        let fd = openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let stat = fstat(&fd)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => Err(Errno::LOOP),
            _ => Ok(Self { fd, stat }),
        }
    }

    /// The metadata at the time when it was pinned.
    pub(crate) fn stat(&self) -> &Stat {
        &self.stat
    }

    pub(crate) fn set_mode(&self, mode: Mode) -> Result<(), Errno> {
        // fchmod(2) rejects references.
        chmod(self.path(), mode)
    }

    /// Opens what is pinned, for example for reading.
    pub(crate) fn reopen(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        // The path is a link itself, which leads only here.
        open(self.path(), flags.difference(OFlags::NOFOLLOW), Mode::empty())
    }

    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::files::tests::as_unprivileged;

    #[test]
    fn what_takes_the_name_of_a_pinned_file_is_not_changed() {
        as_unprivileged(|| {
            let dir = tempfile::tempdir().unwrap();
            let parent = File::open(dir.path()).unwrap();
            let path = |name: &str| dir.path().join(name);
            let mode = |name: &str| fs::metadata(path(name)).unwrap().permissions().mode() & 0o7777;
            for name in ["file", "target"] {
                fs::write(path(name), name).unwrap();
                fs::set_permissions(path(name), Permissions::from_mode(0o000)).unwrap();
            }
            let pinned = Pinned::open(&parent, "file").unwrap();
            fs::rename(path("file"), path("moved")).unwrap();
            symlink("target", path("file")).unwrap();

            pinned.set_mode(Mode::RUSR).unwrap();
            assert_eq!((mode("moved"), mode("target")), (0o400, 0));
            let opened = pinned.reopen(OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC).unwrap();
            assert_eq!(rustix::io::read(opened, &mut [0; 10]), Ok("file".len()));
            assert_eq!(Pinned::open(&parent, "file").map(|_| ()), Err(Errno::LOOP));
        });
    }
}
