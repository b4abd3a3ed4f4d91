//! Writes a set of files into the workspace, all or none, as the sandbox's user.
//!
//! Each file is first written to [`super::staging`]. When all are complete, they are moved to their destinations one
//! after the other. The replaced files are kept until the last one is moved. A set that fails in the middle therefore
//! leaves the original files. A single file appears at once and complete, even with concurrent writers.
//!
//! After a crash of the machine, a replaced file has either its old or its new content. The reason is that ext4 writes
//! a file to the disk before the file replaces another (ext4(5), auto_da_alloc). A caller that needs certainty requests
//! a durable write and waits for the disk. On the project's machine that takes most of a millisecond for the smallest
//! file, and the disk's writing time for a large one.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use bytes::Bytes;
use cap_std::fs::{Dir, File, Metadata, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};

use super::dirs::{self, fresh_name};
use super::info;
use super::journal::Journal;
use super::path::{FilePath, invalid, leads_out};
use super::staging::StagingHandle;
use super::workspace::{Change, Workspace};
use crate::limits::MAX_FILES_PER_WRITE;

/// Mode of a new file if the request names none.
pub(super) const DEFAULT_MODE: u32 = 0o644;

/// The allowed bits of a mode: no setuid, setgid or sticky bit.
pub(super) const MODE_MASK: u32 = 0o777;

/// A set of files that appear together or not at all. Dropping it without a commit removes the staged files.
#[derive(Debug)]
pub(crate) struct Batch {
    workspace: Arc<Workspace>,
    staging: Option<StagingHandle>,
    open: Option<File>,
    staged: Vec<Staged>,
    bytes: u64,
}

/// A file in the staging directory.
#[derive(Debug)]
struct Staged {
    name: PathBuf,
    path: FilePath,
    mode: Option<u32>,
    if_match: Option<String>,
    if_absent: bool,
    durable: bool,
}

impl Batch {
    pub(crate) fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace, staging: None, open: None, staged: Vec::new(), bytes: 0 }
    }

    /// Adds a part: the start of a file, or more data of the current one.
    pub(crate) fn add(&mut self, part: v1::FilePart) -> Result<(), Kind> {
        if let Some(head) = part.head {
            self.begin(head)?;
        }
        self.append(&part.data)
    }

    fn begin(&mut self, head: v1::FileHead) -> Result<(), Kind> {
        self.seal()?;
        if self.staged.len() >= MAX_FILES_PER_WRITE {
            let (what, limit) = ("files in one write".into(), MAX_FILES_PER_WRITE as u64);
            return Err(Kind::TooMany(v1::TooMany { what, limit }));
        }
        let path = self.target(self.workspace.path(&head.path)?)?;
        let file = Staged {
            name: fresh_name(),
            path,
            mode: head.mode,
            if_match: head.if_match,
            if_absent: head.if_absent,
            durable: head.durable,
        };
        // The caller gets the error before it has sent the file.
        self.check_destination(&file)?;
        let fail = |error: io::Error| file.path.fault(&error);
        let staging = match &self.staging {
            Some(staging) => staging,
            None => self.staging.insert(self.workspace.staging.begin().map_err(fail)?),
        };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        self.open = Some(staging.open_with(&file.name, &options).map_err(fail)?);
        self.staged.push(file);
        Ok(())
    }

    fn append(&mut self, data: &Bytes) -> Result<(), Kind> {
        if data.is_empty() {
            return Ok(());
        }
        let (Some(open), Some(file)) = (&mut self.open, self.staged.last()) else {
            return Err(invalid("head", "is missing in the first part"));
        };
        open.write_all(data).map_err(|error| file.path.fault(&error))?;
        self.bytes += data.len() as u64;
        Ok(())
    }

    /// Completes the current file.
    fn seal(&mut self) -> Result<(), Kind> {
        match (self.open.take(), self.staged.last()) {
            (Some(open), Some(file)) if file.durable => {
                open.sync_all().map_err(|error| file.path.fault(&error))
            }
            _ => Ok(()),
        }
    }

    /// Moves every file to its destination.
    pub(crate) fn commit(mut self, _: &Change) -> Result<v1::WriteFilesReply, Kind> {
        self.seal()?;
        let workspace = Arc::clone(&self.workspace);
        let Some(staging) = self.staging.take() else {
            return Ok(v1::WriteFilesReply::default());
        };
        let mut reply = v1::WriteFilesReply::default();
        let placed = match &self.staged[..] {
            [file] if !file.durable => Commit::new(&workspace, &staging).install_last(file, &mut reply),
            files => Commit::new(&workspace, &staging).install_all(files, &mut reply),
        };
        if let Err(kind) = placed {
            self.staging = Some(staging);
            return Err(kind);
        }
        (reply.files, reply.bytes) = (self.staged.len() as u32, self.bytes);
        Ok(reply)
    }

    /// Returns the destination of a write to `path`. Follows a link to a file inside the workspace. Fails if the link
    /// leads out or its target does not exist.
    fn target(&self, path: FilePath) -> Result<FilePath, Kind> {
        path.split()?;
        let dir = &self.workspace.dir;
        let followed = self.workspace.beneath(&path.relative, |seen| {
            if dir.symlink_metadata(seen)?.is_symlink() {
                dir.canonicalize(seen)
            } else {
                Ok(seen.to_owned())
            }
        });
        match followed {
            Ok(real) => Ok(path.resolved_to(real)),
            Err(error) if leads_out(&error) => Err(path.fault(&error)),
            // A file cannot be created through a dangling link. Other errors occur again when the file is created.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.exists(&path) => {
                Err(path.not_a_file())
            }
            Err(_) => Ok(path),
        }
    }

    fn exists(&self, path: &FilePath) -> bool {
        self.workspace.dir.symlink_metadata(&path.relative).is_ok()
    }

    /// Checks whether the file could be moved to its destination now.
    fn check_destination(&self, file: &Staged) -> Result<(), Kind> {
        let (parent, name) = file.path.split()?;
        match self.workspace.open_dir(parent) {
            Ok(parent) => file.check(&parent, Path::new(name)).map(drop),
            Err(error) if error.kind() == io::ErrorKind::NotFound && file.if_match.is_none() => Ok(()),
            Err(error)
                if file.if_match.is_some()
                    && matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                Err(Kind::ConditionFailed(file.path.details(0)))
            }
            Err(error) => Err(file.path.fault(&error)),
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Some(staging) = &self.staging {
            self.staged.iter().for_each(|file| staging.discard(&file.name));
        }
    }
}

impl Staged {
    /// Returns the metadata of the current file at the destination. Fails if it is not a file, or if the writer's
    /// condition does not hold.
    fn check(&self, parent: &Dir, name: &Path) -> Result<Option<Metadata>, Kind> {
        let current = parent.symlink_metadata(name).ok();
        if current.as_ref().is_some_and(|meta| !meta.is_file()) {
            return Err(self.path.not_a_file());
        }
        let fits = match (&self.if_match, &current) {
            (None, None) => true,
            (None, Some(_)) => !self.if_absent,
            (Some(_), None) => false,
            (Some(wanted), Some(meta)) => wanted == "*" || *wanted == info::etag(meta),
        };
        if fits { Ok(current) } else { Err(Kind::ConditionFailed(self.path.details(0))) }
    }
}

/// A running commit.
struct Commit<'a> {
    workspace: &'a Workspace,
    staging: &'a StagingHandle,
    journal: Journal<'a>,
}

impl<'a> Commit<'a> {
    fn new(workspace: &'a Workspace, staging: &'a StagingHandle) -> Self {
        Self { workspace, staging, journal: Journal::new(workspace, staging) }
    }

    /// Moves all files to their destinations, or none. `reply` gets the values of the last one.
    fn install_all(mut self, files: &[Staged], reply: &mut v1::WriteFilesReply) -> Result<(), Kind> {
        for file in files {
            match self.install_file(file) {
                Ok((etag, created)) => (reply.etag, reply.created) = (etag, created),
                Err(kind) => return Err(self.journal.undo(kind)),
            }
        }
        self.journal.complete();
        Ok(())
    }

    /// Moves a file by a single rename. Nothing can fail after it, so there is nothing to undo.
    fn install_last(mut self, file: &Staged, reply: &mut v1::WriteFilesReply) -> Result<(), Kind> {
        let placed = self.prepare(file).and_then(|(parent, name, current)| {
            let renamed = self.staging.rename(&file.name, &parent, name);
            renamed.map_err(|error| file.path.fault(&error))?;
            Ok((info::etag_of(&parent, name).unwrap_or_default(), current.is_none()))
        });
        (reply.etag, reply.created) = placed.map_err(|kind| self.journal.undo(kind))?;
        Ok(())
    }

    /// Moves a file. Returns its etag and whether the file is new.
    fn install_file(&mut self, file: &Staged) -> Result<(String, bool), Kind> {
        let fail = |error: io::Error| file.path.fault(&error);
        let (parent, name, current) = self.prepare(file)?;
        let from = (&**self.staging, file.name.as_path());
        self.journal.install(from, &parent, &file.path.relative, current.is_some()).map_err(fail)?;
        if file.durable {
            self.sync(&parent).map_err(fail)?;
        }
        Ok((info::etag_of(&parent, name).unwrap_or_default(), current.is_none()))
    }

    /// Returns directory and name of the destination, and the metadata of the current file there.
    fn prepare<'f>(&mut self, file: &'f Staged) -> Result<(Dir, &'f Path, Option<Metadata>), Kind> {
        let fail = |error: io::Error| file.path.fault(&error);
        let (parent, name) = file.path.split()?;
        let name = Path::new(name);
        let parent = self.workspace.open_dir_making(parent, &mut self.journal.made).map_err(fail)?;
        let current = file.check(&parent, name)?;
        let mode = file.mode.or_else(|| Some(current.as_ref()?.permissions().mode())).unwrap_or(DEFAULT_MODE);
        self.staging.set_permissions(&file.name, Permissions::from_mode(mode & MODE_MASK)).map_err(fail)?;
        Ok((parent, name, current))
    }

    /// Waits until the names in `parent` and in the created directories are on the disk.
    fn sync(&self, parent: &Dir) -> io::Result<()> {
        for made in &self.journal.made {
            let above = made.parent().filter(|above| !above.as_os_str().is_empty());
            self.sync_names(&self.workspace.dir.open_dir(above.unwrap_or(Path::new(".")))?)?;
        }
        self.sync_names(parent)
    }

    /// Opens the directory again, because cap-std's descriptors are for paths only (O_PATH) and cannot be synced. If
    /// the directory is not readable, syncs its whole file system.
    fn sync_names(&self, dir: &Dir) -> io::Result<()> {
        match dirs::open_no_follow(dir, Path::new(".")) {
            Ok(readable) => Ok(rustix::fs::fsync(readable)?),
            Err(_) => Ok(rustix::fs::syncfs(&**self.staging)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::tests::{Fixture, fixture};
    use super::*;

    fn part(path: &str, data: &'static [u8]) -> v1::FilePart {
        let head = v1::FileHead { path: Bytes::copy_from_slice(path.as_bytes()), ..v1::FileHead::default() };
        v1::FilePart { head: Some(head), data: Bytes::from_static(data), end: false }
    }

    fn write(fixture: &Fixture, parts: &[v1::FilePart]) -> Result<v1::WriteFilesReply, Kind> {
        let mut batch = Batch::new(Arc::clone(&fixture.workspace));
        parts.iter().try_for_each(|part| batch.add(part.clone()))?;
        batch.commit(&fixture.workspace.change_now())
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name != ".sandbox-staging").collect();
        names.sort();
        names
    }

    #[test]
    fn files_are_created_with_their_parents() {
        let fixture = fixture();
        let mut batch = Batch::new(Arc::clone(&fixture.workspace));
        batch.add(part("a/b/one", b"1")).unwrap();
        batch.add(part(fixture.dir.path().join("two").to_str().unwrap(), b"22")).unwrap();
        assert!(names(fixture.dir.path()).is_empty());
        let reply = batch.commit(&fixture.workspace.change_now()).unwrap();
        assert_eq!((reply.files, reply.bytes, reply.created), (2, 3, true));
        assert_eq!(std::fs::read(fixture.dir.path().join("a/b/one")).unwrap(), b"1");
        assert_eq!(std::fs::read(fixture.dir.path().join("two")).unwrap(), b"22");
    }

    #[test]
    fn a_set_that_fails_leaves_the_original_files() {
        let fixture = fixture();
        let dir = fixture.dir.path();
        std::fs::write(dir.join("old"), b"before").unwrap();
        // By the time the second one needs `new` as a directory, it is a file.
        let written = write(&fixture, &[part("old", b"after"), part("x/new", b"1"), part("x/new/y", b"2")]);
        assert!(matches!(written, Err(Kind::NotAFile(_))), "{written:?}");
        assert_eq!(names(dir), ["old"]);
        assert_eq!(std::fs::read(dir.join("old")).unwrap(), b"before");
        assert!(names(&dir.join(".sandbox-staging")).is_empty());
    }

    #[test]
    fn a_set_that_is_not_committed_leaves_nothing() {
        let fixture = fixture();
        let mut batch = Batch::new(Arc::clone(&fixture.workspace));
        batch.add(part("a/one", b"1")).unwrap();
        drop(batch);
        assert!(names(fixture.dir.path()).is_empty());
        assert!(names(&fixture.dir.path().join(".sandbox-staging")).is_empty());
    }

    #[test]
    fn an_invalid_destination_is_rejected_before_the_content() {
        let fixture = fixture();
        let dir = fixture.dir.path();
        std::fs::create_dir(dir.join("dir")).unwrap();
        symlink("nowhere", dir.join("dangling")).unwrap();
        symlink("/etc", dir.join("etc")).unwrap();
        for path in ["dir", "dir/", "", ".", "dangling", "dir/.."] {
            let added = Batch::new(Arc::clone(&fixture.workspace)).add(part(path, b"x"));
            assert!(matches!(added, Err(Kind::NotAFile(_))), "{path}: {added:?}");
        }
        for path in ["etc/x", "../x", "/etc/x", "dir/../../x"] {
            let added = Batch::new(Arc::clone(&fixture.workspace)).add(part(path, b"x"));
            assert!(matches!(added, Err(Kind::OutsideWorkspace(_))), "{path}: {added:?}");
        }
    }

    #[test]
    fn a_write_through_a_link_changes_its_target() {
        let fixture = fixture();
        let dir = fixture.dir.path();
        std::fs::write(dir.join("file"), b"before").unwrap();
        symlink("file", dir.join("link")).unwrap();
        symlink(dir.join("file"), dir.join("absolute")).unwrap();
        write(&fixture, &[part("link", b"1")]).unwrap();
        assert_eq!(std::fs::read(dir.join("file")).unwrap(), b"1");
        write(&fixture, &[part("absolute", b"2")]).unwrap();
        assert_eq!(std::fs::read(dir.join("file")).unwrap(), b"2");
        assert!(dir.join("link").is_symlink() && dir.join("absolute").is_symlink());
    }

    #[test]
    fn modes_are_kept_or_set_within_the_mask() {
        let fixture = fixture();
        let mode = |name: &str| {
            let meta = std::fs::metadata(fixture.dir.path().join(name)).unwrap();
            std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o7777
        };
        let mut given = part("tool", b"x");
        given.head.as_mut().unwrap().mode = Some(0o4755);
        write(&fixture, &[given, part("text", b"x")]).unwrap();
        assert_eq!((mode("tool"), mode("text")), (0o755, 0o644));
        write(&fixture, &[part("tool", b"y")]).unwrap();
        assert_eq!(mode("tool"), 0o755);
    }

    #[test]
    fn a_condition_that_does_not_hold_changes_nothing() {
        let fixture = fixture();
        let conditional = |if_match: Option<&str>, if_absent| {
            let mut part = part("file", b"new");
            let head = part.head.as_mut().unwrap();
            (head.if_match, head.if_absent) = (if_match.map(str::to_owned), if_absent);
            write(&fixture, &[part])
        };
        let failed = |written| matches!(written, Err(Kind::ConditionFailed(_)));
        assert!(failed(conditional(Some("*"), false)));
        let first = conditional(None, true).unwrap();
        assert!(first.created);
        assert!(failed(conditional(None, true)));
        assert!(failed(conditional(Some("other"), false)));
        let second = conditional(Some(&first.etag), false).unwrap();
        assert!(!second.created && second.etag != first.etag);
        assert!(conditional(Some("*"), false).is_ok());
    }

    #[test]
    fn a_durable_write_replaces_the_file() {
        let fixture = fixture();
        std::fs::write(fixture.dir.path().join("file"), b"before").unwrap();
        for (path, created) in [("file", false), ("new/dir/file", true)] {
            let mut part = part(path, b"after");
            part.head.as_mut().unwrap().durable = true;
            assert_eq!(write(&fixture, &[part]).unwrap().created, created);
            assert_eq!(std::fs::read(fixture.dir.path().join(path)).unwrap(), b"after");
        }
        assert!(names(&fixture.dir.path().join(".sandbox-staging")).is_empty());
    }
}
