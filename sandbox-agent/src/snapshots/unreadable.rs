//! Opens files and directories that their owner may not read by their mode.
//!
//! The agent is an ordinary user of the sandbox, and a mode such as 000 applies to the owner too. The owner may change
//! it, so it is changed while the file is read.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, Stat, chmodat, fchmod, openat};
use rustix::io::Errno;
use snapshot_format::tree::MODE_BITS;

/// An open file or directory, whose mode is put back when it is dropped.
#[derive(Debug)]
pub(super) struct Opened {
    fd: Option<OwnedFd>,
    /// Its mode, if that was changed.
    mode: Option<Mode>,
}

impl Opened {
    /// Opens `name` in `dir`, never through a link, and never waits.
    pub(super) fn open(dir: impl AsFd, name: &[u8], flags: OFlags, stat: &Stat) -> Result<Self, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let mode = Mode::from_raw_mode(stat.st_mode & MODE_BITS);
        match openat(&dir, name, flags, Mode::empty()) {
            Err(Errno::ACCESS) => {}
            // Names in a directory can be looked up only with this bit.
            Ok(fd) if flags.contains(OFlags::DIRECTORY) && !mode.contains(Mode::XUSR) => {
                fchmod(&fd, mode | Mode::XUSR)?;
                return Ok(Self { fd: Some(fd), mode: Some(mode) });
            }
            opened => return opened.map(|fd| Self { fd: Some(fd), mode: None }),
        }
        chmodat(&dir, name, mode | Mode::RUSR | Mode::XUSR, AtFlags::empty())?;
        match openat(&dir, name, flags, Mode::empty()) {
            Ok(fd) => Ok(Self { fd: Some(fd), mode: Some(mode) }),
            Err(error) => {
                chmodat(&dir, name, mode, AtFlags::empty())?;
                Err(error)
            }
        }
    }

    /// Whether its mode was changed, which changes its times too.
    pub(super) fn is_changed(&self) -> bool {
        self.mode.is_some()
    }

    /// Leaves the mode as it is, for a caller that sets it.
    pub(super) fn keep(mut self) -> OwnedFd {
        self.mode = None;
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
        if let (Some(fd), Some(mode)) = (&self.fd, self.mode) {
            // Fails only if it is another user's, and then the mode was never changed.
            let _ = fchmod(fd, mode);
        }
    }
}
