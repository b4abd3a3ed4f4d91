//! The directory of output files.
//!
//! It is beside the workspace, in a directory that root owns, so no command can replace it. It belongs to the sandbox's
//! user, so commands may change anything in it at any time. Files are therefore created and removed by name in the opened
//! directory, without following links, and only regular files with the name of an output file are removed.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;
use tokio::sync::Semaphore;

use crate::limits::{
    MAX_OUTPUT_DIR_ENTRIES, MAX_OUTPUT_FILE_BYTES, MAX_OUTPUT_FILE_STEP_BYTES, MAX_OUTPUT_FILES_BYTES,
    MAX_OUTPUT_WRITES, MIN_OUTPUT_FILE_STEP_BYTES, OUTPUT_FILE_FREE_BYTES, OUTPUT_FILE_FREE_SHARE,
};

/// Name in the volume (`sandboxd/crates/model/src/layout.rs`).
pub(crate) const NAME: &str = "outputs";

/// Prefix and suffix of an output file's name: those of a command's id, and `.log`.
const PREFIX: &str = "cmd_";
const SUFFIX: &str = ".log";

/// Unit of a file's allocated size (stat(2)).
const BLOCK_BYTES: u64 = 512;

/// The opened directory, and the files that are being written.
#[derive(Debug)]
pub(crate) struct OutputDirectory {
    dir: Dir,
    /// Reserved size of each file that is being written, in bytes. Locked for moments only, also by asynchronous code.
    reserved: Mutex<HashMap<String, u64>>,
    /// Held while room is made, so that two files do not get the same room. Blocks as long as the disk does.
    making_room: Mutex<()>,
    turns: Semaphore,
}

/// A file that is being written. Until it is dropped, it is not removed to make room for another.
#[derive(Debug)]
pub(crate) struct OutputWriter {
    directory: Arc<OutputDirectory>,
    name: String,
    file: File,
    written: u64,
    reserved: u64,
}

/// A file that no one writes, and that may be removed.
struct Removable {
    name: PathBuf,
    modified: SystemTime,
    bytes: u64,
}

impl OutputDirectory {
    /// Opens the directory beside the workspace. A volume that an earlier version created has none.
    pub(crate) fn open(workspace: &Path) -> io::Result<Self> {
        let path = workspace.parent().map(|volume| volume.join(NAME)).ok_or(io::ErrorKind::NotFound)?;
        let dir = Dir::open_ambient_dir(path, ambient_authority())?;
        Ok(Self {
            dir,
            reserved: Mutex::default(),
            making_room: Mutex::default(),
            turns: Semaphore::new(MAX_OUTPUT_WRITES),
        })
    }

    /// Turns to write, because each holds a thread meanwhile.
    pub(crate) fn turns(&self) -> &Semaphore {
        &self.turns
    }

    /// Creates the file of a command. A file that has its name is replaced.
    pub(crate) fn create(self: &Arc<Self>, command_id: &str) -> io::Result<OutputWriter> {
        let name = format!("{command_id}{SUFFIX}");
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o644).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        // Before the file exists, so that it is not removed to make room for another.
        self.lock().insert(name.clone(), 0);
        let opened = match self.dir.open_with(&name, &options) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.dir.remove_file(&name).and_then(|()| self.dir.open_with(&name, &options))
            }
            opened => opened,
        };
        match opened {
            Ok(file) => Ok(OutputWriter { directory: Arc::clone(self), name, file, written: 0, reserved: 0 }),
            Err(error) => {
                self.lock().remove(&name);
                Err(error)
            }
        }
    }

    /// Lets the file `name`, which has `written` bytes, grow to `bytes`. Removes the oldest files if the directory would
    /// be too large.
    fn reserve(&self, name: &str, written: u64, bytes: u64) -> io::Result<()> {
        let _making_room = self.making_room.lock().unwrap_or_else(PoisonError::into_inner);
        let reserved = self.lock().clone();
        let others: u64 = reserved.iter().filter(|(other, _)| *other != name).map(|(_, bytes)| bytes).sum();
        let mut removable = self.removable(&reserved)?;
        removable.sort_by_key(|file| file.modified);
        // What the others have written is counted as free space that they still need. That errs on the safe side.
        let needed = others + bytes - written;
        let removable_bytes = removable.iter().fold(0_u64, |sum, file| sum.saturating_add(file.bytes));
        let mut total = (others + bytes).saturating_add(removable_bytes);
        for file in removable {
            if total <= MAX_OUTPUT_FILES_BYTES && self.has_free_space(needed)? {
                break;
            }
            self.remove(&file.name)?;
            total = total.saturating_sub(file.bytes);
        }
        if total > MAX_OUTPUT_FILES_BYTES || !self.has_free_space(needed)? {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.lock().insert(name.to_owned(), bytes);
        Ok(())
    }

    fn remove(&self, name: &Path) -> io::Result<()> {
        match self.dir.remove_file(name) {
            // A command has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Output files never take the last free space of the disk, which commands need.
    fn has_free_space(&self, needed: u64) -> io::Result<bool> {
        let stat = rustix::fs::fstatvfs(&self.dir)?;
        let (free, total) = (stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize);
        let keep = OUTPUT_FILE_FREE_BYTES.min(total / OUTPUT_FILE_FREE_SHARE);
        Ok(free >= keep + needed)
    }

    fn removable(&self, reserved: &HashMap<String, u64>) -> io::Result<Vec<Removable>> {
        let mut found = Vec::new();
        for (count, entry) in self.dir.entries()?.enumerate() {
            if count == MAX_OUTPUT_DIR_ENTRIES {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let entry = entry?;
            let name = entry.file_name();
            let is_output = name.to_str().is_some_and(|name| {
                name.starts_with(PREFIX) && name.ends_with(SUFFIX) && !reserved.contains_key(name)
            });
            // A command may have removed it in the meantime.
            let Some(metadata) = is_output.then(|| entry.metadata().ok()).flatten() else { continue };
            if metadata.is_file() {
                let modified = metadata.modified()?.into_std();
                found.push(Removable { name: name.into(), modified, bytes: metadata.blocks() * BLOCK_BYTES });
            }
        }
        Ok(found)
    }

    /// A panic while the lock was held leaves at most the reservation of one file.
    fn lock(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutputWriter {
    /// Appends bytes. An error is final. Some of them may have been written.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = usize::try_from(MAX_OUTPUT_FILE_BYTES - self.written).unwrap_or(usize::MAX);
        let fitting = bytes.get(..room).unwrap_or(bytes);
        self.write(fitting)?;
        if fitting.len() < bytes.len() { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(()) }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let end = self.written + bytes.len() as u64;
        if end > self.reserved {
            // Twice its size, so that many small files do not reserve the room of a few large ones.
            let step = end.clamp(MIN_OUTPUT_FILE_STEP_BYTES, MAX_OUTPUT_FILE_STEP_BYTES);
            let wanted = (end + step).min(MAX_OUTPUT_FILE_BYTES);
            self.directory.reserve(&self.name, self.written, wanted)?;
            self.reserved = wanted;
        }
        self.file.write_all(bytes)?;
        self.written = end;
        Ok(())
    }

    /// Number of bytes in the file.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }
}

impl Drop for OutputWriter {
    fn drop(&mut self) {
        self.directory.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixture {
        volume: tempfile::TempDir,
        directory: Arc<OutputDirectory>,
    }

    fn fixture() -> Fixture {
        let volume = tempfile::tempdir().unwrap();
        std::fs::create_dir(volume.path().join(NAME)).unwrap();
        let directory = Arc::new(OutputDirectory::open(&volume.path().join("workspace")).unwrap());
        Fixture { volume, directory }
    }

    impl Fixture {
        fn path(&self, name: &str) -> PathBuf {
            self.volume.path().join(NAME).join(name)
        }

        /// Creates a file that was last changed `age` seconds ago.
        fn add(&self, name: &str, bytes: u64, age: u64) {
            let file = std::fs::File::create(self.path(name)).unwrap();
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes).unwrap();
            file.set_modified(SystemTime::now() - std::time::Duration::from_secs(age)).unwrap();
        }
    }

    #[test]
    fn a_volume_without_the_directory_has_no_output_files() {
        let volume = tempfile::tempdir().unwrap();
        assert!(OutputDirectory::open(&volume.path().join("workspace")).is_err());
    }

    #[test]
    fn a_file_ends_at_its_limit() {
        let fixture = fixture();
        let mut writer = fixture.directory.create("cmd_1").unwrap();
        let error = writer.append(&vec![b'x'; 65 * 1024 * 1024]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(writer.written(), MAX_OUTPUT_FILE_BYTES);
        assert_eq!(fixture.path("cmd_1.log").metadata().unwrap().len(), MAX_OUTPUT_FILE_BYTES);
    }

    #[test]
    fn the_oldest_files_make_room_and_a_file_that_is_written_stays() {
        let fixture = fixture();
        let mut active = fixture.directory.create("cmd_active").unwrap();
        active.append(b"so far").unwrap();
        fixture.add("cmd_old.log", 105 * 1024 * 1024, 200);
        fixture.add("cmd_newer.log", 105 * 1024 * 1024, 100);
        for name in ["notes.txt", "build.log"] {
            fixture.add(name, 100 * 1024 * 1024, 300);
        }
        let mut writer = fixture.directory.create("cmd_new").unwrap();
        writer.append(&vec![b'x'; 48 * 1024 * 1024]).unwrap();
        assert!(!fixture.path("cmd_old.log").exists());
        for name in ["cmd_newer.log", "notes.txt", "build.log", "cmd_active.log"] {
            assert!(fixture.path(name).exists(), "{name}");
        }
    }

    #[test]
    fn a_link_is_replaced_and_never_followed() {
        let fixture = fixture();
        let outside = fixture.volume.path().join("outside");
        std::fs::write(&outside, "precious").unwrap();
        std::os::unix::fs::symlink(&outside, fixture.path("cmd_1.log")).unwrap();
        std::os::unix::fs::symlink(&outside, fixture.path("cmd_2.log")).unwrap();
        let mut writer = fixture.directory.create("cmd_1").unwrap();
        writer.append(b"output").unwrap();
        assert_eq!(std::fs::read(&outside).unwrap(), b"precious");
        assert_eq!(std::fs::read(fixture.path("cmd_1.log")).unwrap(), b"output");
        assert!(fixture.path("cmd_2.log").is_symlink());
    }

    #[test]
    fn a_directory_with_the_name_is_an_error() {
        let fixture = fixture();
        std::fs::create_dir(fixture.path("cmd_1.log")).unwrap();
        assert!(fixture.directory.create("cmd_1").is_err());
    }
}
