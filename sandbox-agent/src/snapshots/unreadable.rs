//! Opens files and directories that their owner may not read by their mode.
//!
//! The agent is an ordinary user of the sandbox, and a mode such as 000 applies to the owner too. The owner may change
//! it, so it is changed until the file is open. Commands see the change, so it is brief: an open file stays readable.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, Stat, fchmod, fstat, openat};
use rustix::io::Errno;

use super::metadata::{has_permissions, mode_of};
use super::mode_records::ModeRecord;
use crate::files::pinned::Pinned;

/// An open file or directory. A changed mode is put back when this is dropped, or earlier.
#[derive(Debug)]
pub(super) struct Opened {
    fd: Option<OwnedFd>,
    /// The mode, if it was changed.
    changed: Option<ChangedMode>,
}

#[derive(Debug)]
struct ChangedMode {
    before: Mode,
    set: Mode,
    /// Entries of the directory can be looked up only with the changed mode.
    is_for_lookups: bool,
    /// Removed after the mode was put back.
    _record: Option<ModeRecord>,
}

impl Opened {
    /// Opens `name` in `dir`, never through a link, and never waits. `record` records a change of the mode, given the mode
    /// before and the one that is about to be set.
    pub(super) fn open(
        dir: impl AsFd,
        name: &[u8],
        flags: OFlags,
        stat: &Stat,
        record: impl FnOnce(Mode, Mode) -> Option<ModeRecord>,
    ) -> Result<Self, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let can_be_searched = !flags.contains(OFlags::DIRECTORY) || mode_of(stat).contains(Mode::XUSR);
        match openat(&dir, name, flags, Mode::empty()) {
            Ok(fd) if can_be_searched => Ok(Self { fd: Some(fd), changed: None }),
            Ok(_) | Err(Errno::ACCESS) => Self::open_widened(&Pinned::open(&dir, name)?, flags, record),
            Err(error) => Err(error),
        }
    }

    fn open_widened(
        pinned: &Pinned,
        flags: OFlags,
        record: impl FnOnce(Mode, Mode) -> Option<ModeRecord>,
    ) -> Result<Self, Errno> {
        let before = mode_of(pinned.stat());
        let is_for_lookups = flags.contains(OFlags::DIRECTORY) && !before.contains(Mode::XUSR);
        let set = before | Mode::RUSR | if is_for_lookups { Mode::XUSR } else { Mode::empty() };
        let record = record(before, set);
        pinned.set_mode(set)?;
        match pinned.reopen(flags) {
            Ok(fd) => {
                let changed = ChangedMode { before, set, is_for_lookups, _record: record };
                Ok(Self { fd: Some(fd), changed: Some(changed) })
            }
            Err(error) => {
                pinned.set_mode(before)?;
                Err(error)
            }
        }
    }

    /// Puts a changed mode back now, unless entries can be looked up only with it. Returns whether it was put back.
    /// Attributes cannot be read afterwards.
    pub(super) fn put_mode_back(&mut self) -> bool {
        let is_needed_no_more = self.changed.as_ref().is_some_and(|changed| !changed.is_for_lookups);
        if is_needed_no_more {
            self.put_back();
        }
        is_needed_no_more
    }

    fn put_back(&mut self) {
        let (Some(fd), Some(changed)) = (&self.fd, self.changed.take()) else { return };
        // A command may have changed it since, and then it stays.
        if fstat(fd).is_ok_and(|stat| has_permissions(&stat, changed.set)) {
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

#[cfg(test)]
mod tests {
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{AtFlags, RenameFlags, renameat_with, statat};

    use super::*;
    use crate::files::tests::as_unprivileged;

    fn opened(dir: &Path, name: &str, mode: u32, flags: OFlags) -> Opened {
        fs::set_permissions(dir.join(name), Permissions::from_mode(mode)).unwrap();
        let parent = File::open(dir).unwrap();
        let stat = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).unwrap();
        Opened::open(&parent, name.as_bytes(), flags, &stat, |_, _| None).unwrap()
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

    /// A process swaps the file and a link all the time. The link leads to a file outside of the volume.
    #[test]
    fn a_link_that_is_swapped_in_changes_nothing_outside() {
        as_unprivileged(|| {
            let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let target = outside.path().join("target");
            for path in [&target, &dir.path().join("secret")] {
                fs::write(path, "").unwrap();
                fs::set_permissions(path, Permissions::from_mode(0o030)).unwrap();
            }
            symlink(&target, dir.path().join("link")).unwrap();
            let parent = File::open(dir.path()).unwrap();
            let stat = statat(&parent, "secret", AtFlags::SYMLINK_NOFOLLOW).unwrap();
            let ended = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !ended.load(Ordering::Relaxed) {
                        renameat_with(&parent, "secret", &parent, "link", RenameFlags::EXCHANGE).unwrap();
                    }
                });
                let changed = (0..20_000).any(|_| {
                    let opened = Opened::open(&parent, b"secret", OFlags::RDONLY, &stat, |_, _| None);
                    let changed = mode(&target) != 0o030;
                    drop(opened);
                    changed
                });
                ended.store(true, Ordering::Relaxed);
                assert!(!changed, "the mode of a file outside was changed");
            });
        });
    }
}
