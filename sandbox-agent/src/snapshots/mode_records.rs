//! Records the modes that a snapshot has changed until they are put back.
//!
//! An agent that is killed puts no mode back. So each change is recorded first, in a file of the staging directory, and
//! the next agent puts back what it finds there, before the first command. After a power failure, the file may be empty:
//! then a mode still lets its owner read, and nothing is lost.
//!
//! Commands can write the file. Whatever it says, only files of the volume get another mode, and no link is followed.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::Errno;
use snapshot_format::tree::MODE_BITS;

use super::metadata::has_permissions;
use super::volume_path;
use crate::files::dirs;
use crate::files::pinned::Pinned;
use crate::files::staging::{CHANGED_MODES, StagingHandle};
use crate::files::workspace::Workspace;
use crate::limits::MAX_MODE_RECORDS_BYTES;

/// The records of one snapshot. The file exists from the first one on.
#[derive(Debug)]
pub(super) struct ModeRecords {
    staging: Option<StagingHandle>,
    file: RefCell<Option<File>>,
    /// Length of the file.
    end: Cell<u64>,
}

/// The record of one change. It is removed when this is dropped. Those of changes after it are removed too: they are put
/// back earlier.
#[derive(Debug)]
pub(super) struct ModeRecord {
    records: Rc<ModeRecords>,
    begins_at: u64,
}

impl ModeRecords {
    /// Without a staging directory, nothing is recorded.
    pub(super) fn new(staging: Option<StagingHandle>) -> Rc<Self> {
        Rc::new(Self { staging, file: RefCell::default(), end: Cell::default() })
    }

    /// Records that the mode of the file at `path` is about to change. Returns `None` if that is impossible, for example
    /// on a full disk: a snapshot matters more than a mode after a kill.
    pub(super) fn add(self: &Rc<Self>, path: &[u8], before: Mode, set: Mode) -> Option<ModeRecord> {
        let mut file = self.file.borrow_mut();
        if file.is_none() {
            *file = Some(create(self.staging.as_ref()?).ok()?);
        }
        let mut record = format!("{:o} {:o} ", before.as_raw_mode(), set.as_raw_mode()).into_bytes();
        record.extend_from_slice(path);
        record.push(0);
        let begins_at = self.end.get();
        file.as_ref()?.write_all_at(&record, begins_at).ok()?;
        self.end.set(begins_at + record.len() as u64);
        Some(ModeRecord { records: Rc::clone(self), begins_at })
    }
}

impl Drop for ModeRecord {
    fn drop(&mut self) {
        let end = self.begins_at.min(self.records.end.get());
        self.records.end.set(end);
        if let Some(file) = &*self.records.file.borrow() {
            // A record that stays changes nothing: the mode is no longer the one that was set.
            let _ = file.set_len(end);
        }
    }
}

impl Drop for ModeRecords {
    fn drop(&mut self) {
        if let (Some(_), Some(staging)) = (self.file.take(), &self.staging) {
            staging.discard(Path::new(CHANGED_MODES));
        }
    }
}

/// Creates the file. What a command may have put there is removed.
fn create(staging: &StagingHandle) -> Result<File, Errno> {
    match unlinkat(staging.as_fd(), CHANGED_MODES, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(staging.as_fd(), CHANGED_MODES, flags, Mode::RUSR | Mode::WUSR).map(File::from)
}

/// Puts the modes back that an agent has changed in this workspace's volume before it was killed. What has another mode by
/// now, or another name, stays as it is.
pub(crate) fn put_modes_back(workspace: &Workspace) {
    let Ok(staging) = workspace.open_staging() else { return };
    let Some(file) = dirs::open_regular(&staging, Path::new(CHANGED_MODES)) else { return };
    let mut records = Vec::new();
    let read = file.into_std().take(MAX_MODE_RECORDS_BYTES).read_to_end(&mut records);
    if let (Ok(_), Ok(volume)) = (read, workspace.open_volume()) {
        // The last one first: a file can be reached only while its directory has the mode that was set.
        for record in records.split(|byte| *byte == 0).rev() {
            // If it fails, the file is gone or another user's.
            let _ = put_back(&volume, record);
        }
    }
    staging.discard(Path::new(CHANGED_MODES));
}

fn put_back(volume: &OwnedFd, record: &[u8]) -> io::Result<()> {
    let (before, set, path) = parse(record).ok_or(io::ErrorKind::InvalidData)?;
    let (parent, name) = volume_path::split(path).ok_or(io::ErrorKind::InvalidData)?;
    let dir = volume_path::open_dir(volume, parent)?;
    let pinned = Pinned::open(dir.as_ref().unwrap_or(volume), name)?;
    if has_permissions(pinned.stat(), set) {
        pinned.set_mode(before)?;
    }
    Ok(())
}

/// The mode before, the mode that was set, and the path of a record.
fn parse(record: &[u8]) -> Option<(Mode, Mode, &[u8])> {
    let mut parts = record.splitn(3, |byte| *byte == b' ');
    let mut mode = || {
        let mode = u32::from_str_radix(std::str::from_utf8(parts.next()?).ok()?, 8).ok()?;
        (mode & !MODE_BITS == 0).then(|| Mode::from_raw_mode(mode))
    };
    Some((mode()?, mode()?, parts.next()?))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::statat;

    use super::*;
    use crate::files;
    use crate::files::tests::as_unprivileged;
    use crate::snapshots::unreadable::Opened;

    /// A volume with a closed directory in a closed directory.
    struct Volume {
        dir: tempfile::TempDir,
        workspace: Workspace,
    }

    const OUTER: &str = "workspace/outer";
    const INNER: &str = "workspace/outer/inner";

    impl Volume {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir(dir.path().join(".staging")).unwrap();
            fs::create_dir_all(dir.path().join(INNER)).unwrap();
            let workspace = files::open(&dir.path().join("workspace")).unwrap();
            let volume = Self { dir, workspace };
            volume.set_mode(INNER, 0o200);
            volume.set_mode(OUTER, 0o010);
            volume
        }

        fn set_mode(&self, path: &str, mode: u32) {
            fs::set_permissions(self.dir.path().join(path), Permissions::from_mode(mode)).unwrap();
        }

        fn mode(&self, path: &str) -> u32 {
            fs::metadata(self.dir.path().join(path)).unwrap().permissions().mode() & 0o7777
        }

        fn records(&self) -> Rc<ModeRecords> {
            ModeRecords::new(Some(self.workspace.open_staging().unwrap()))
        }

        fn open(&self, path: &str, records: &Rc<ModeRecords>) -> Opened {
            let (dir, name) = path.rsplit_once('/').unwrap();
            let parent = File::open(self.dir.path().join(dir)).unwrap();
            let stat = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).unwrap();
            let record = |before, set| records.add(path.as_bytes(), before, set);
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            Opened::open(parent, name.as_bytes(), flags, &stat, record).unwrap()
        }

        /// What the next agent does.
        fn start_again(&self) {
            let workspace = files::open(&self.dir.path().join("workspace")).unwrap();
            put_modes_back(&workspace);
        }

        fn has_records(&self) -> bool {
            self.dir.path().join(".staging").join(CHANGED_MODES).exists()
        }
    }

    #[test]
    fn the_next_agent_puts_back_what_a_killed_one_has_changed() {
        as_unprivileged(|| {
            let volume = Volume::new();
            let records = volume.records();
            let opened = (volume.open(OUTER, &records), volume.open(INNER, &records));
            assert_eq!((volume.mode(OUTER), volume.mode(INNER)), (0o510, 0o700));
            // A killed process drops nothing.
            std::mem::forget((opened, records));
            volume.start_again();
            assert_eq!(volume.mode(OUTER), 0o010);
            volume.set_mode(OUTER, 0o700);
            assert_eq!(volume.mode(INNER), 0o200);
            assert!(!volume.has_records());
        });
    }

    #[test]
    fn what_was_put_back_leaves_no_record() {
        as_unprivileged(|| {
            let volume = Volume::new();
            let records = volume.records();
            let (outer, inner) = (volume.open(OUTER, &records), volume.open(INNER, &records));
            drop(inner);
            // A command opens it between the end of the change and the kill.
            volume.set_mode(INNER, 0o700);
            std::mem::forget((outer, Rc::clone(&records)));
            volume.start_again();
            assert_eq!(volume.mode(OUTER), 0o010);
            volume.set_mode(OUTER, 0o700);
            assert_eq!(volume.mode(INNER), 0o700);

            drop(volume.open(INNER, &volume.records()));
            assert!(!volume.has_records());
        });
    }

    #[test]
    fn records_that_a_command_has_written_lead_nowhere_else() {
        as_unprivileged(|| {
            let volume = Volume::new();
            let outside = tempfile::NamedTempFile::new().unwrap();
            let path = |name: &str| volume.dir.path().join(name);
            fs::set_permissions(outside.path(), Permissions::from_mode(0o600)).unwrap();
            symlink(outside.path(), path("workspace/link")).unwrap();
            symlink(outside.path().parent().unwrap(), path("workspace/dir")).unwrap();
            fs::write(path(".staging/stat-cache-a"), "").unwrap();
            volume.set_mode(".staging/stat-cache-a", 0o600);
            volume.set_mode(OUTER, 0o700);
            let name = outside.path().file_name().unwrap().to_str().unwrap();
            let records = [
                "644 600 workspace/link",
                &format!("644 600 workspace/dir/{name}"),
                "644 600 .staging/stat-cache-a",
                "644 600 workspace/../.staging/stat-cache-a",
                "644 600 ",
                "",
                "x",
                &format!("10010 700 {OUTER}"),
                &format!("710 711 {OUTER}"),
            ];
            let records = records.join("\0");
            fs::write(path(".staging").join(CHANGED_MODES), records).unwrap();
            volume.start_again();
            let outside = fs::metadata(outside.path()).unwrap().permissions().mode() & 0o7777;
            assert_eq!(
                (outside, volume.mode(".staging/stat-cache-a"), volume.mode(OUTER)),
                (0o600, 0o600, 0o700)
            );
            assert!(!volume.has_records());
        });
    }
}
