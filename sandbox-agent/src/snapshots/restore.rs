//! Makes the steps of a restore.
//!
//! The daemon compares the present files with those of a snapshot and sends the steps. All steps name entries of the
//! current directory, which is open. So a link that a command creates meanwhile cannot redirect a step. A file is written
//! in the staging directory and then renamed. An exception is a file with several links, which keeps its inode. Every
//! step is idempotent: an interrupted restore is repeated from the files that it left.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use agent_protocol::fault::Kind as Fault;
use agent_protocol::v1::{PathFault, RestoreNeeds, RestoreReply, restore_step};
use bytes::Bytes;
use cap_std::fs::Dir;
use prost::Message;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fchmod, fstatvfs, linkat, mkdirat, mknodat, openat, renameat,
    statat, symlinkat, syncfs, unlinkat, utimensat,
};
use rustix::io::Errno;
use snapshot_format::tree::{MODE_BITS, is_valid_name};
use snapshot_format::{Entry, Kind};

use super::level::Level;
use super::metadata::{is_kind, set_open, times_of};
use super::mode_records::ModeRecord;
use super::pace::Pace;
use super::target::Target;
use super::unreadable::Opened;
use super::{ROOTS, Stop, volume_path};
use crate::files::dirs::{fresh_name, make_movable, remove_tree};
use crate::files::pinned::Pinned;
use crate::files::staging::StagingHandle;
use crate::limits::MAX_SNAPSHOT_DEPTH;

/// A restore in progress.
#[derive(Debug)]
pub(crate) struct Restore {
    /// The sandbox's volume.
    volume: OwnedFd,
    staging: StagingHandle,
    /// The directories from the root to the current one.
    levels: Vec<Level>,
    file: Option<Target>,
    done: RestoreReply,
    pace: Pace,
}

impl Restore {
    /// Starts a restore in a sandbox's volume.
    pub(crate) fn new(volume: OwnedFd, staging: StagingHandle) -> Self {
        Self {
            volume,
            staging,
            levels: Vec::new(),
            file: None,
            done: RestoreReply::default(),
            pace: Pace::new(),
        }
    }

    /// Makes one step. Returns the reply after the last one.
    pub(crate) fn step(&mut self, step: restore_step::Step) -> Result<Option<RestoreReply>, Stop> {
        use restore_step::Step;
        self.pace.rest_if_due();
        match step {
            Step::Data(data) => return self.write(&data).map(|()| None),
            Step::Hole(length) => return self.skip(length).map(|()| None),
            _ if self.file.is_some() => return Err(Stop::rejected(b"", "the bytes of a file are missing")),
            Step::Needs(needs) => self.check_space(&needs)?,
            Step::Enter(name) => self.enter(&name)?,
            Step::Remove(name) => self.remove(&name)?,
            Step::Entry(entry) => self.put(&decoded(entry)?)?,
            Step::Metadata(entry) => self.set_metadata(&decoded(entry)?)?,
            Step::Leave(entry) => self.leave(&decoded(entry)?)?,
            Step::End(_) => return self.end().map(Some),
        }
        Ok(None)
    }

    /// Rejects a restore that would fill the disk, before anything is changed.
    fn check_space(&self, needs: &RestoreNeeds) -> Result<(), Stop> {
        let free = fstatvfs(&self.volume).map_err(io::Error::from)?;
        let free_bytes = free.f_bavail.saturating_mul(free.f_frsize);
        // A file system without inodes of its own reports none at all.
        let has_inodes = free.f_files == 0 || free.f_favail >= needs.entries;
        let blocks = needs.entries.saturating_mul(free.f_frsize);
        if has_inodes && free_bytes >= needs.bytes.saturating_add(blocks) {
            return Ok(());
        }
        let path = format!("{} bytes in {} entries, {free_bytes} bytes free", needs.bytes, needs.entries);
        Err(Stop::Fault(Fault::NoSpace(PathFault { path, errno: Errno::NOSPC.raw_os_error() })))
    }

    fn level(&self) -> Result<&Level, Stop> {
        self.levels.last().ok_or_else(|| Stop::rejected(b"", "only directories can be changed here"))
    }

    /// Path of an entry of the current directory, for messages.
    fn path(&self, name: &[u8]) -> Vec<u8> {
        self.levels.last().map_or_else(|| name.to_vec(), |level| [&level.path, &b"/"[..], name].concat())
    }

    fn failed(&self, name: &[u8]) -> impl Fn(Errno) -> Stop + use<> {
        let path = self.path(name);
        move |error| Stop::failed(&path, &error.into())
    }

    fn enter(&mut self, name: &[u8]) -> Result<(), Stop> {
        self.check_name(name)?;
        if self.levels.len() >= MAX_SNAPSHOT_DEPTH {
            return Err(Stop::rejected(&self.path(name), "is too deep"));
        }
        let parent = self.levels.last().map_or(&self.volume, |level| &level.dir);
        let (dir, is_new) = match self.open_dir(parent, name) {
            Err(Errno::NOENT) => (self.create_dir(parent, name)?, true),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                unlinkat(parent, name, AtFlags::empty()).map_err(self.failed(name))?;
                (self.create_dir(parent, name)?, true)
            }
            opened => (opened.map_err(self.failed(name))?, false),
        };
        self.levels.push(Level { path: self.path(name), dir, is_new });
        Ok(())
    }

    /// A root directory must be one of a snapshot's, and any other name one that a directory can have.
    fn check_name(&self, name: &[u8]) -> Result<(), Stop> {
        let is_root = self.levels.is_empty();
        let is_known = !is_root || ROOTS.iter().any(|root| root.as_bytes() == name);
        if is_known && is_valid_name(name) {
            Ok(())
        } else {
            Err(Stop::rejected(name, "is not a valid name here"))
        }
    }

    /// Opens a directory and lets its owner change it. Its mode is set when it is left.
    fn open_dir(&self, parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
        let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let dir = Opened::open(parent, name, OFlags::RDONLY | OFlags::DIRECTORY, &stat, unrecorded)?.keep();
        let mode = Mode::from_raw_mode(stat.st_mode & MODE_BITS);
        if !mode.contains(Mode::RWXU) {
            fchmod(&dir, mode | Mode::RWXU)?;
        }
        Ok(dir)
    }

    fn create_dir(&self, parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Stop> {
        mkdirat(parent, name, Mode::RWXU).map_err(self.failed(name))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(parent, name, flags, Mode::empty()).map_err(self.failed(name))
    }

    fn leave(&mut self, entry: &Entry) -> Result<(), Stop> {
        let level = self.levels.pop().ok_or_else(|| Stop::rejected(b"", "there is no directory to leave"))?;
        let set = set_open(&level.dir, entry);
        // The volume's own directories may belong to root, whose mode and times stay.
        let is_root = self.levels.is_empty();
        set.or_else(|error| match is_root && error.kind() == io::ErrorKind::PermissionDenied {
            true => Ok(()),
            false => Err(Stop::failed(&level.path, &error)),
        })
    }

    fn remove(&mut self, name: &[u8]) -> Result<(), Stop> {
        self.check_name(name)?;
        let level = self.level()?;
        match statat(&level.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => self.clear(level, name, &stat)?,
            Err(Errno::NOENT) => {}
            Err(error) => return Err(self.failed(name)(error)),
        }
        self.done.removed += 1;
        Ok(())
    }

    /// Removes an entry. A directory is moved away first, so it is gone at once.
    fn clear(&self, level: &Level, name: &[u8], stat: &Stat) -> Result<(), Stop> {
        if !is_kind(stat, FileType::Directory) {
            return unlinkat(&level.dir, name, AtFlags::empty()).map_err(self.failed(name));
        }
        let moved = fresh_name();
        let dir = level.dir.try_clone().map_err(|error| Stop::failed(&level.path, &error))?;
        make_movable(&Dir::from_std_file(dir.into()), OsStr::from_bytes(name));
        renameat(&level.dir, name, self.staging.as_fd(), &moved).map_err(self.failed(name))?;
        // A leftover takes space until the staging directory is emptied.
        if remove_tree(&self.staging, moved).is_err() {
            self.staging.mark_leftovers();
        }
        Ok(())
    }

    fn put(&mut self, entry: &Entry) -> Result<(), Stop> {
        self.check_name(&entry.name)?;
        let level = self.level()?;
        let present = match level.is_new {
            true => None,
            false => statat(&level.dir, &*entry.name, AtFlags::SYMLINK_NOFOLLOW).ok(),
        };
        if let Some(stat) = present.filter(|stat| is_kind(stat, FileType::Directory)) {
            self.clear(level, &entry.name, &stat)?;
        }
        match entry.kind() {
            Kind::File => {
                let target = Target::open(level, &self.staging, entry, present.as_ref());
                self.file = Some(target.map_err(self.failed(&entry.name))?);
                self.publish_if_complete()
            }
            Kind::Directory | Kind::Unspecified => Err(Stop::rejected(&entry.name, "is not a file or link")),
            kind => {
                self.put_special(level, entry, kind)?;
                self.done.written += 1;
                Ok(())
            }
        }
    }

    /// Installs a link, named pipe or socket.
    fn put_special(&self, level: &Level, entry: &Entry, kind: Kind) -> Result<(), Stop> {
        let failed = self.failed(&entry.name);
        let fresh = fresh_name();
        let staging = self.staging.as_fd();
        match kind {
            Kind::SymbolicLink => symlinkat(&*entry.target, staging, &fresh).map_err(&failed)?,
            Kind::HardLink => self.link_staged(&entry.target, &fresh)?,
            Kind::Fifo => make_node(staging, &fresh, FileType::Fifo).map_err(&failed)?,
            _ => make_node(staging, &fresh, FileType::Socket).map_err(&failed)?,
        }
        let is_link = matches!(kind, Kind::SymbolicLink | Kind::HardLink);
        let mode = Mode::from_raw_mode(entry.mode);
        let set = || {
            if !is_link {
                Pinned::open(staging, &fresh)?.set_mode(mode)?;
            }
            if kind != Kind::HardLink {
                utimensat(staging, &fresh, &times_of(entry), AtFlags::SYMLINK_NOFOLLOW)?;
            }
            renameat(staging, &fresh, &level.dir, &*entry.name)?;
            // A rename between two links of one file does nothing (rename(2)).
            match unlinkat(staging, &fresh, AtFlags::empty()) {
                Err(Errno::NOENT) | Ok(()) => Ok(()),
                Err(error) => Err(error),
            }
        };
        set().map_err(|error| {
            self.staging.discard(&fresh);
            failed(error)
        })
    }

    /// Links the file at `target` into the staging directory. No part of the path is a link.
    fn link_staged(&self, target: &[u8], fresh: &PathBuf) -> Result<(), Stop> {
        let failed = |error: Errno| Stop::failed(target, &error.into());
        let invalid = || Stop::rejected(target, "is not the path of a file");
        let (parent, name) = volume_path::split(target).ok_or_else(invalid)?;
        let dir = volume_path::open_dir(&self.volume, parent).map_err(failed)?.ok_or_else(invalid)?;
        linkat(dir, name, self.staging.as_fd(), fresh, AtFlags::empty()).map_err(failed)
    }

    fn set_metadata(&mut self, entry: &Entry) -> Result<(), Stop> {
        self.check_name(&entry.name)?;
        let level = self.level()?;
        let failed = self.failed(&entry.name);
        match entry.kind() {
            Kind::File => {
                let stat = statat(&level.dir, &*entry.name, AtFlags::SYMLINK_NOFOLLOW).map_err(&failed)?;
                let file = Opened::open(&level.dir, &entry.name, OFlags::RDONLY, &stat, unrecorded)
                    .map_err(&failed)?
                    .keep();
                set_open(&file, entry).map_err(|error| Stop::failed(&self.path(&entry.name), &error))?;
            }
            Kind::Fifo | Kind::Socket => {
                let mode = Mode::from_raw_mode(entry.mode);
                let set = || Pinned::open(&level.dir, &*entry.name)?.set_mode(mode);
                set().map_err(&failed)?;
                set_times(level, entry).map_err(&failed)?;
            }
            Kind::SymbolicLink => set_times(level, entry).map_err(&failed)?,
            Kind::HardLink | Kind::Directory | Kind::Unspecified => {
                return Err(Stop::rejected(&entry.name, "has no metadata of its own"));
            }
        }
        self.done.written += 1;
        Ok(())
    }

    fn write(&mut self, data: &[u8]) -> Result<(), Stop> {
        self.with_file(|file| file.write(data))
    }

    fn skip(&mut self, length: u64) -> Result<(), Stop> {
        self.with_file(|file| file.skip(length))
    }

    fn with_file(&mut self, act: impl FnOnce(&mut Target) -> io::Result<()>) -> Result<(), Stop> {
        let file =
            self.file.as_mut().ok_or_else(|| Stop::rejected(b"", "there is no file for these bytes"))?;
        let acted = act(file);
        let failed = acted.map_err(|error| Stop::failed(&self.path(self.file_name()), &error));
        failed?;
        self.publish_if_complete()
    }

    fn file_name(&self) -> &[u8] {
        self.file.as_ref().map_or(b"", |file| file.name())
    }

    /// Installs the file when all of its bytes are written.
    fn publish_if_complete(&mut self) -> Result<(), Stop> {
        let Some(file) = self.file.take_if(|file| file.is_complete()) else { return Ok(()) };
        let name = Bytes::copy_from_slice(file.name());
        let published = file.publish(self.level()?, &self.staging);
        published.map_err(|error| Stop::failed(&self.path(&name), &error))?;
        self.done.written += 1;
        Ok(())
    }

    fn end(&mut self) -> Result<RestoreReply, Stop> {
        if !self.levels.is_empty() {
            return Err(Stop::rejected(b"", "a directory was not left"));
        }
        syncfs(&self.volume).map_err(io::Error::from)?;
        Ok(self.done)
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            file.discard(&self.staging);
        }
    }
}

fn decoded(entry: Bytes) -> Result<Entry, Stop> {
    let entry = Entry::decode(entry).map_err(|error| Stop::rejected(b"", error.to_string()))?;
    entry.check().map_err(|error| Stop::rejected(&entry.name, error.to_string()))?;
    Ok(entry)
}

/// If a restore is cut off, the next one sets the modes that this one would have set.
fn unrecorded(_before: Mode, _set: Mode) -> Option<ModeRecord> {
    None
}

fn make_node(dir: impl AsFd, name: &PathBuf, kind: FileType) -> Result<(), Errno> {
    mknodat(dir, name, kind, Mode::RUSR | Mode::WUSR, 0)
}

fn set_times(level: &Level, entry: &Entry) -> Result<(), Errno> {
    utimensat(&level.dir, &*entry.name, &times_of(entry), AtFlags::SYMLINK_NOFOLLOW)
}
