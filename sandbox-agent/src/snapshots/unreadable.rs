//! Opens files and directories that their owner may not read by their mode.
//!
//! The agent is an ordinary user of the sandbox, and a mode such as 000 applies to the owner too. The owner may change
//! it, so it is changed until the file is open. Commands see the change, so it is brief: an open file stays readable.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, Stat, chmodat, fchmod, fstat, openat};
use rustix::io::Errno;
use snapshot_format::tree::MODE_BITS;

/// An open file or directory. A changed mode is put back when this is dropped, or earlier.
#[derive(Debug)]
pub(super) struct Opened {
    fd: Option<OwnedFd>,
    /// The mode, if it was changed.
    changed: Option<ChangedMode>,
}

#[derive(Debug, Clone, Copy)]
struct ChangedMode {
    before: Mode,
    set: Mode,
    /// Entries of the directory can be looked up only with the changed mode.
    is_for_lookups: bool,
}

impl Opened {
    /// Opens `name` in `dir`, never through a link, and never waits.
    pub(super) fn open(dir: impl AsFd, name: &[u8], flags: OFlags, stat: &Stat) -> Result<Self, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let before = mode_of(stat);
        let is_for_lookups = flags.contains(OFlags::DIRECTORY) && !before.contains(Mode::XUSR);
        let changed = |set: Mode| Some(ChangedMode { before, set, is_for_lookups });
        match openat(&dir, name, flags, Mode::empty()) {
            Err(Errno::ACCESS) => {}
            Ok(fd) if is_for_lookups => {
                let set = before | Mode::XUSR;
                fchmod(&fd, set)?;
                return Ok(Self { fd: Some(fd), changed: changed(set) });
            }
            opened => return opened.map(|fd| Self { fd: Some(fd), changed: None }),
        }
        let set = before | Mode::RUSR | if is_for_lookups { Mode::XUSR } else { Mode::empty() };
        chmodat(&dir, name, set, AtFlags::empty())?;
        match openat(&dir, name, flags, Mode::empty()) {
            Ok(fd) => Ok(Self { fd: Some(fd), changed: changed(set) }),
            Err(error) => {
                chmodat(&dir, name, before, AtFlags::empty())?;
                Err(error)
            }
        }
    }

    /// Puts a changed mode back now, unless entries can be looked up only with it. Returns whether it was put back.
    /// Attributes cannot be read afterwards.
    pub(super) fn put_mode_back(&mut self) -> bool {
        let is_needed_no_more = self.changed.is_some_and(|changed| !changed.is_for_lookups);
        if is_needed_no_more {
            self.put_back();
        }
        is_needed_no_more
    }

    fn put_back(&mut self) {
        let (Some(fd), Some(changed)) = (&self.fd, self.changed.take()) else { return };
        // A command may have changed it since, and then it stays. A change may have cleared the special bits.
        let permissions = Mode::RWXU | Mode::RWXG | Mode::RWXO;
        let is_as_set = |stat: Stat| (mode_of(&stat) ^ changed.set).intersection(permissions).is_empty();
        if fstat(fd).is_ok_and(is_as_set) {
            // Fails only if it is another user's, and then the mode was never changed.
            let _ = fchmod(fd, changed.before);
        }
    }

    /// Leaves the mode as it is, for a caller that sets it.
    pub(super) fn keep(mut self) -> OwnedFd {
        self.changed = None;
        self.fd.take().expect("it is only taken here")
    }
}

impl AsFd for Opened {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("it is open until it is kept").as_fd()
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.put_back();
    }
}

fn mode_of(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & MODE_BITS)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use rustix::fs::{AtFlags, statat};

    use super::*;
    use crate::files::tests::as_unprivileged;

    fn opened(dir: &Path, name: &str, mode: u32, flags: OFlags) -> Opened {
        fs::set_permissions(dir.join(name), Permissions::from_mode(mode)).unwrap();
        let parent = File::open(dir).unwrap();
        let stat = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        Opened::open(&parent, name.as_bytes(), flags, &stat).unwrap()
    }

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_file_has_its_mode_again_while_it_is_read() {
        as_unprivileged(|| {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("secret");
            fs::write(&path, "secret").unwrap();
            let mut file = opened(dir.path(), "secret", 0o2031, OFlags::RDONLY);
            assert_eq!(mode(&path) & 0o400, 0o400);
            assert!(file.put_mode_back());
            assert_eq!(mode(&path), 0o2031);
            assert_eq!(rustix::io::read(&file, &mut [0; 10]), Ok(6));
        });
    }

    #[test]
    fn a_directory_can_be_searched_until_it_is_dropped() {
        as_unprivileged(|| {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("closed");
            for (closed, meanwhile) in [(0o000, 0o500), (0o200, 0o700), (0o600, 0o700), (0o300, 0o300)] {
                fs::create_dir(&path).unwrap();
                fs::write(path.join("inside"), "").unwrap();
                let mut opened = opened(dir.path(), "closed", closed, OFlags::RDONLY | OFlags::DIRECTORY);
                opened.put_mode_back();
                assert_eq!(mode(&path), meanwhile, "{closed:o}");
                statat(&opened, "inside", AtFlags::SYMLINK_NOFOLLOW).unwrap();
                drop(opened);
                assert_eq!(mode(&path), closed);
                fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
                fs::remove_dir_all(&path).unwrap();
            }
        });
    }

    #[test]
    fn a_mode_that_a_command_sets_meanwhile_stays() {
        as_unprivileged(|| {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("secret");
            fs::write(&path, "").unwrap();
            let opened = opened(dir.path(), "secret", 0, OFlags::RDONLY);
            fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
            drop(opened);
            assert_eq!(mode(&path), 0o644);
        });
    }
}
