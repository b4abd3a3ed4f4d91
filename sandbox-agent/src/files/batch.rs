//! Writes a set of files into the workspace, all or none, as the sandbox's user.
//!
//! Paths are resolved as [`crate::files`] says. Everything here blocks.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use bytes::Bytes;
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt, Permissions, PermissionsExt};

use crate::files::{Workspace, fault, leads_out, not_a_file};
use crate::limits::MAX_FILES_PER_WRITE;

/// Mode of a file whose writer names none.
const DEFAULT_MODE: u32 = 0o644;

/// The part of a mode a file may have: no setuid, setgid or sticky bit.
const MODE_MASK: u32 = 0o777;

/// A set of files that appear together or not at all.
///
/// Each is written beside its target under a name of its own; [`Batch::commit`] renames them all. Dropped
/// without a commit it removes what it made.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    workspace: &'a Workspace,
    open: Option<(File, String)>,
    written: Vec<Written>,
    made_dirs: Vec<PathBuf>,
    bytes: u64,
}

#[derive(Debug)]
struct Written {
    parent: Dir,
    temporary: PathBuf,
    name: PathBuf,
    path: String,
    renamed: bool,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(workspace: &'a Workspace) -> Self {
        Self { workspace, open: None, written: Vec::new(), made_dirs: Vec::new(), bytes: 0 }
    }

    /// Adds one part: the beginning of a file, or more of the one that was begun.
    pub(crate) fn add(&mut self, part: v1::FilePart) -> Result<(), Kind> {
        if let Some(head) = part.head {
            self.begin(&String::from_utf8_lossy(&head.path), head.mode)?;
        }
        self.append(&part.data)
    }

    fn begin(&mut self, path: &str, mode: Option<u32>) -> Result<(), Kind> {
        if self.written.len() >= MAX_FILES_PER_WRITE {
            return Err(Kind::LimitReached(v1::LimitReached {
                limit: "files in one write".into(),
                value: MAX_FILES_PER_WRITE as u64,
            }));
        }
        let fail = |error: io::Error| fault(path, &error);
        if path.ends_with('/') || path.ends_with("/.") {
            return Err(not_a_file(path));
        }
        let target = self.target(path)?;
        let name = target.file_name().map(PathBuf::from).ok_or_else(|| not_a_file(path))?;
        let parent_path = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let parent = self.open_parent(parent_path).map_err(fail)?;
        if is_taken(&parent, &name) {
            return Err(not_a_file(path));
        }
        let temporary = PathBuf::from(format!(".sandbox-write-{:016x}", random()));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let file = parent.open_with(&temporary, &options).map_err(fail)?;
        self.written.push(Written { parent, temporary, name, path: path.into(), renamed: false });
        let mode = mode.unwrap_or(DEFAULT_MODE) & MODE_MASK;
        file.set_permissions(Permissions::from_mode(mode)).map_err(fail)?;
        self.open = Some((file, path.into()));
        Ok(())
    }

    fn append(&mut self, data: &Bytes) -> Result<(), Kind> {
        if data.is_empty() {
            return Ok(());
        }
        let Some((file, path)) = &mut self.open else {
            return Err(Kind::FieldInvalid(v1::FieldInvalid {
                field: "head".into(),
                problem: "is missing in the first part".into(),
            }));
        };
        file.write_all(data).map_err(|error| fault(path, &error))?;
        self.bytes += data.len() as u64;
        Ok(())
    }

    /// Puts every file in its place.
    pub(crate) fn commit(mut self) -> Result<v1::WriteFilesReply, Kind> {
        self.open = None;
        // One file's place may have become the directory of a later one.
        if let Some(file) = self.written.iter().find(|file| is_taken(&file.parent, &file.name)) {
            return Err(not_a_file(&file.path));
        }
        for file in &mut self.written {
            file.parent
                .rename(&file.temporary, &file.parent, &file.name)
                .map_err(|error| fault(&file.path, &error))?;
            file.renamed = true;
        }
        self.made_dirs.clear();
        Ok(v1::WriteFilesReply {
            files: self.written.len() as u32,
            bytes: self.bytes,
            ..v1::WriteFilesReply::default()
        })
    }

    /// Where a write to `path` goes: through a link to a file inside the workspace, refused where the
    /// link leads out or nowhere.
    fn target(&self, path: &str) -> Result<PathBuf, Kind> {
        let relative = self.workspace.relative(path)?;
        let dir = &self.workspace.dir;
        let followed = match dir.symlink_metadata(&relative) {
            Ok(meta) if meta.is_symlink() => dir.canonicalize(&relative),
            Err(error) if leads_out(&error) => Err(error),
            // What else is wrong shows again where the file is made.
            Ok(_) | Err(_) => return Ok(relative),
        };
        followed.or_else(|error| match self.workspace.real(&relative, &error) {
            Some(real) => Ok(real),
            None if error.kind() == io::ErrorKind::NotFound => Err(not_a_file(path)),
            None => Err(fault(path, &error)),
        })
    }

    /// Opens the directory a file goes to, making what is missing of it.
    fn open_parent(&mut self, parent: &Path) -> io::Result<Dir> {
        let root = &self.workspace.dir;
        match root.open_dir(parent) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found_or_refused => return found_or_refused,
        }
        let missing: Vec<PathBuf> = parent
            .ancestors()
            .take_while(|dir| !dir.as_os_str().is_empty() && root.symlink_metadata(dir).is_err())
            .map(Path::to_owned)
            .collect();
        self.made_dirs.extend(missing.into_iter().rev());
        root.create_dir_all(parent)?;
        root.open_dir(parent)
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        // What cannot be removed now is the sandbox's own to find; the write has failed either way.
        for file in self.written.iter().filter(|file| !file.renamed) {
            let _ = file.parent.remove_file(&file.temporary);
        }
        for dir in self.made_dirs.iter().rev() {
            let _ = self.workspace.dir.remove_dir(dir);
        }
    }
}

/// Whether something other than a file has this name.
fn is_taken(parent: &Dir, name: &Path) -> bool {
    parent.symlink_metadata(name).is_ok_and(|meta| !meta.is_file())
}

fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::files::tests::{Fixture, fixture, part};

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn files_appear_together_with_their_parents() {
        let Fixture { dir, workspace } = fixture();
        let mut batch = Batch::new(&workspace);
        batch.add(part("a/b/one", b"1")).unwrap();
        batch.add(part(dir.path().join("two").to_str().unwrap(), b"22")).unwrap();
        assert_eq!(names(dir.path()).iter().filter(|n| *n == "two").count(), 0);
        let reply = batch.commit().unwrap();
        assert_eq!((reply.files, reply.bytes), (2, 3));
        assert_eq!(std::fs::read(dir.path().join("a/b/one")).unwrap(), b"1");
        assert_eq!(names(dir.path()), ["a", "two"]);
    }

    #[test]
    fn a_batch_that_fails_leaves_nothing() {
        let Fixture { dir, workspace } = fixture();
        std::fs::write(dir.path().join("kept"), b"old").unwrap();
        let mut batch = Batch::new(&workspace);
        batch.add(part("kept", b"new")).unwrap();
        batch.add(part("made/here", b"x")).unwrap();
        assert!(matches!(batch.add(part("../out", b"x")), Err(Kind::OutsideWorkspace(_))));
        drop(batch);
        assert_eq!(names(dir.path()), ["kept"]);
        assert_eq!(std::fs::read(dir.path().join("kept")).unwrap(), b"old");
    }

    #[test]
    fn a_link_inside_is_followed() {
        let Fixture { dir, workspace } = fixture();
        std::fs::write(dir.path().join("real"), b"old").unwrap();
        symlink("real", dir.path().join("link")).unwrap();
        symlink(dir.path().join("real"), dir.path().join("absolute")).unwrap();
        symlink(dir.path(), dir.path().join("here")).unwrap();
        for (path, content) in [("link", b"1"), ("absolute", b"2"), ("here/real", b"3"), ("here/link", b"4")]
        {
            let mut batch = Batch::new(&workspace);
            batch.add(part(path, content)).unwrap();
            batch.commit().unwrap();
            assert_eq!(std::fs::read(dir.path().join("real")).unwrap(), content, "{path}");
            assert!(workspace.open_file(path, 9).is_ok(), "{path}");
        }
        let mut batch = Batch::new(&workspace);
        batch.add(part("here/made/file", b"new")).unwrap();
        batch.commit().unwrap();
        assert_eq!(names(dir.path()), ["absolute", "here", "link", "made", "real"]);
        assert!(dir.path().join("link").is_symlink() && dir.path().join("absolute").is_symlink());
    }

    #[test]
    fn a_link_to_nothing_is_no_place_for_a_file() {
        let Fixture { dir, workspace } = fixture();
        symlink("missing", dir.path().join("link")).unwrap();
        symlink(dir.path().join("missing"), dir.path().join("absolute")).unwrap();
        for path in ["link", "absolute"] {
            let write = Batch::new(&workspace).add(part(path, b"x"));
            assert!(matches!(write, Err(Kind::NotAFile(_))), "{path}: {write:?}");
        }
        assert_eq!(names(dir.path()), ["absolute", "link"]);
    }

    #[test]
    fn files_that_exclude_each_other_are_not_written() {
        for paths in [["both", "both/file"], ["both/file", "both"]] {
            let Fixture { dir, workspace } = fixture();
            let mut batch = Batch::new(&workspace);
            batch.add(part("other", b"x")).unwrap();
            let added = paths.into_iter().try_for_each(|path| batch.add(part(path, b"x")));
            let done = added.and_then(|()| batch.commit().map(drop));
            assert!(matches!(done, Err(Kind::NotAFile(_))), "{paths:?}: {done:?}");
            assert_eq!(names(dir.path()), [""; 0], "{paths:?}");
        }
    }
}
