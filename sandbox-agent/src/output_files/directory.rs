//! The directory of output files.
//!
//! It is beside the workspace in a directory of root, so no command can replace it. It belongs to the sandbox's user, so
//! commands may change anything in it at any time. Files are therefore created and removed by name in the opened
//! directory, without following links, and only regular files with the name of an output file are removed.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::Bytes;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;

use crate::limits::{
    MAX_OUTPUT_DIR_ENTRIES, MAX_OUTPUT_FILE_BYTES, MAX_OUTPUT_FILES_BYTES, OUTPUT_FILE_FREE_BYTES,
    OUTPUT_FILE_FREE_SHARE, OUTPUT_FILE_STEP_BYTES,
};

/// Name in the volume (`sandboxd/crates/model/src/layout.rs`).
pub(crate) const NAME: &str = "outputs";

/// Suffix of an output file's name. The command's id comes before it.
const SUFFIX: &str = ".log";

/// The opened directory, and the files that are being written.
#[derive(Debug)]
pub(crate) struct OutputDirectory {
    dir: Dir,
    /// The bytes that each of these files may reach without asking for more room.
    reserved: Mutex<HashMap<String, u64>>,
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
        Ok(Self { dir, reserved: Mutex::default() })
    }

    /// Creates the file of a command. A file that has its name is replaced.
    pub(crate) fn create(self: &Arc<Self>, command_id: &str) -> io::Result<OutputWriter> {
        let name = format!("{command_id}{SUFFIX}");
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o644).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let file = match self.dir.open_with(&name, &options) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.dir.remove_file(&name)?;
                self.dir.open_with(&name, &options)?
            }
            opened => opened?,
        };
        self.lock().insert(name.clone(), 0);
        Ok(OutputWriter { directory: Arc::clone(self), name, file, written: 0, reserved: 0 })
    }

    /// Lets the file `name` grow to `bytes`. Removes the oldest files if the directory would be too large.
    fn reserve(&self, name: &str, bytes: u64) -> io::Result<()> {
        // Held throughout, so that two files do not get the same room.
        let mut reserved = self.lock();
        let others: u64 = reserved.iter().filter(|(other, _)| *other != name).map(|(_, bytes)| bytes).sum();
        let mut removable = self.removable(&reserved)?;
        removable.sort_by_key(|file| file.modified);
        let mut total = others + bytes + removable.iter().map(|file| file.bytes).sum::<u64>();
        for file in removable {
            if total <= MAX_OUTPUT_FILES_BYTES && self.has_free_space()? {
                break;
            }
            self.remove(&file.name)?;
            total -= file.bytes;
        }
        if total > MAX_OUTPUT_FILES_BYTES || !self.has_free_space()? {
            return Err(io::ErrorKind::StorageFull.into());
        }
        reserved.insert(name.to_owned(), bytes);
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
    fn has_free_space(&self) -> io::Result<bool> {
        let stat = rustix::fs::fstatvfs(&self.dir)?;
        let (free, total) = (stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize);
        let keep = OUTPUT_FILE_FREE_BYTES.min(total / OUTPUT_FILE_FREE_SHARE);
        Ok(free >= keep + OUTPUT_FILE_STEP_BYTES)
    }

    fn removable(&self, reserved: &HashMap<String, u64>) -> io::Result<Vec<Removable>> {
        let mut found = Vec::new();
        for (count, entry) in self.dir.entries()?.enumerate() {
            if count == MAX_OUTPUT_DIR_ENTRIES {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let entry = entry?;
            let name = entry.file_name();
            let is_output =
                name.to_str().is_some_and(|name| name.ends_with(SUFFIX) && !reserved.contains_key(name));
            // A command may have removed it in the meantime.
            let Some(metadata) = is_output.then(|| entry.metadata().ok()).flatten() else { continue };
            if metadata.is_file() {
                let modified = metadata.modified()?.into_std();
                found.push(Removable { name: name.into(), modified, bytes: metadata.size() });
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
    /// Appends bytes. An error is final. Bytes before it may have been written.
    pub(crate) fn append(&mut self, pieces: &[Bytes]) -> io::Result<()> {
        for piece in pieces {
            let room = MAX_OUTPUT_FILE_BYTES - self.written;
            let fitting = piece.get(..usize::try_from(room).unwrap_or(usize::MAX)).unwrap_or(piece);
            self.write(fitting)?;
            if fitting.len() < piece.len() {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let end = self.written + bytes.len() as u64;
        if end > self.reserved {
            let wanted = (end + OUTPUT_FILE_STEP_BYTES).min(MAX_OUTPUT_FILE_BYTES);
            self.directory.reserve(&self.name, wanted)?;
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

        /// Creates a sparse file that was last changed `age` seconds ago.
        fn add(&self, name: &str, bytes: u64, age: u64) {
            let file = std::fs::File::create(self.path(name)).unwrap();
            file.set_len(bytes).unwrap();
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
        let piece = Bytes::from(vec![b'x'; 5 * 1024 * 1024]);
        let pieces: Vec<Bytes> = std::iter::repeat_n(piece, 13).collect();
        let error = writer.append(&pieces).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(writer.written(), MAX_OUTPUT_FILE_BYTES);
        assert_eq!(fixture.path("cmd_1.log").metadata().unwrap().len(), MAX_OUTPUT_FILE_BYTES);
    }

    #[test]
    fn the_oldest_files_make_room_and_a_file_that_is_written_stays() {
        let fixture = fixture();
        let mut active = fixture.directory.create("cmd_active").unwrap();
        active.append(&[Bytes::from_static(b"so far")]).unwrap();
        fixture.add("cmd_old.log", 100 * 1024 * 1024, 200);
        fixture.add("cmd_newer.log", 100 * 1024 * 1024, 100);
        fixture.add("notes.txt", 100 * 1024 * 1024, 300);
        let mut writer = fixture.directory.create("cmd_new").unwrap();
        let piece = Bytes::from(vec![b'x'; 48 * 1024 * 1024]);
        writer.append(&[piece]).unwrap();
        assert!(!fixture.path("cmd_old.log").exists());
        for name in ["cmd_newer.log", "notes.txt", "cmd_active.log"] {
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
        writer.append(&[Bytes::from_static(b"output")]).unwrap();
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
