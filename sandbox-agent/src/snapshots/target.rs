//! A file that a restore writes.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::fs::{FileType, Mode, OFlags, Stat, openat, renameat};
use rustix::io::Errno;
use snapshot_format::Entry;
use snapshot_format::tree::MODE_BITS;

use super::level::Level;
use super::metadata::{is_kind, set_open};
use crate::files::dirs::fresh_name;
use crate::files::pinned::Pinned;
use crate::files::staging::StagingHandle;

/// A file that is being written.
#[derive(Debug)]
pub(super) struct Target {
    entry: Entry,
    size: u64,
    file: File,
    at: u64,
    /// Its name in the staging directory, unless it is written where it belongs.
    staged: Option<PathBuf>,
}

impl Target {
    /// Opens a file for `entry`. In a directory that this restore created, nothing else uses the name yet. A file with
    /// several links keeps its inode, so that the other names show the same content. Any other file is replaced.
    pub(super) fn open(
        level: &Level,
        staging: &StagingHandle,
        entry: &Entry,
        present: Option<&Stat>,
    ) -> Result<Self, Errno> {
        let size = entry.content.as_ref().map_or(0, |content| content.size);
        let target = |file, staged| Self { entry: entry.clone(), size, file, at: 0, staged };
        if level.is_new {
            return Ok(target(create(&level.dir, &*entry.name)?, None));
        }
        let linked = present.filter(|stat| stat.st_nlink > 1 && is_kind(stat, FileType::RegularFile));
        let in_place = linked.map(|_| open_writable(&level.dir, &entry.name));
        match in_place {
            // A program that runs cannot be written, but replaced.
            None | Some(Err(Errno::TXTBSY)) => {}
            Some(opened) => return Ok(target(opened?, None)),
        }
        let staged = fresh_name();
        Ok(target(create(staging.as_fd(), &staged)?, Some(staged)))
    }

    pub(super) fn name(&self) -> &[u8] {
        &self.entry.name
    }

    pub(super) fn is_complete(&self) -> bool {
        self.at == self.size
    }

    pub(super) fn write(&mut self, data: &[u8]) -> io::Result<()> {
        let after = self.after(data.len() as u64)?;
        self.file.write_all_at(data, self.at)?;
        self.at = after;
        Ok(())
    }

    /// Leaves a hole. A file that is written in place may have had bytes there.
    pub(super) fn skip(&mut self, length: u64) -> io::Result<()> {
        let after = self.after(length)?;
        if self.staged.is_none() {
            self.file.set_len(self.at)?;
        }
        self.at = after;
        Ok(())
    }

    fn after(&self, length: u64) -> io::Result<u64> {
        let after = self.at.checked_add(length).filter(|after| *after <= self.size);
        after.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Sets the file's metadata, and installs the file.
    pub(super) fn publish(self, level: &Level, staging: &StagingHandle) -> io::Result<()> {
        let done = self.finish(level, staging);
        if done.is_err() {
            self.discard(staging);
        }
        done
    }

    fn finish(&self, level: &Level, staging: &StagingHandle) -> io::Result<()> {
        self.file.set_len(self.size)?;
        set_open(&self.file, &self.entry)?;
        match &self.staged {
            Some(staged) => Ok(renameat(staging.as_fd(), staged, &level.dir, &*self.entry.name)?),
            None => Ok(()),
        }
    }

    pub(super) fn discard(self, staging: &StagingHandle) {
        if let Some(staged) = &self.staged {
            staging.discard(staged);
        }
    }
}

fn create(dir: impl AsFd, name: impl rustix::path::Arg) -> Result<File, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(dir, name, flags, Mode::RUSR | Mode::WUSR).map(File::from)
}

/// Opens a file for writing that its owner may not write by its mode. Its mode is set when it is complete.
fn open_writable(dir: &OwnedFd, name: &[u8]) -> Result<File, Errno> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = openat(dir, name, flags, Mode::empty()).or_else(|error| match error {
        Errno::ACCESS => {
            let pinned = Pinned::open(dir, name)?;
            let mode = Mode::from_raw_mode(pinned.stat().st_mode & MODE_BITS);
            pinned.set_mode(mode | Mode::WUSR)?;
            pinned.reopen(flags)
        }
        error => Err(error),
    });
    opened.map(File::from)
}
