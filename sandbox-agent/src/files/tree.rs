//! Creates, moves and removes files and directories.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

use agent_protocol::fault::Kind;
use cap_std::fs::Dir;
use rustix::fs::RenameFlags;
use rustix::io::Errno;

use super::dirs::{fresh_name, make_movable, remove_tree, remove_tree_counting, rename_with};
use super::info;
use super::path::{FilePath, invalid};
use super::seam::{self, Step};
use super::workspace::{Change, Workspace};

impl Workspace {
    /// Creates a directory and its missing parents. Returns whether it did not exist.
    pub(crate) fn make_dir(&self, path: &FilePath) -> Result<bool, Kind> {
        let mut made = Vec::new();
        let opened = self.open_dir_making(path.as_path(), &mut made);
        opened.map(|_| !made.is_empty()).map_err(|error| {
            self.remove_made(&made);
            match error.kind() {
                io::ErrorKind::NotADirectory => Kind::AlreadyThere(path.details(0)),
                _ => path.fault(&error),
            }
        })
    }

    /// Removes directories that were created for a change that failed, unless they are in use.
    pub(super) fn remove_made(&self, made: &[PathBuf]) {
        for dir in made.iter().rev() {
            let _ = self.dir.remove_dir(dir);
        }
    }

    /// Moves `from` to `to`, and creates the missing directories of `to`.
    pub(crate) fn rename(
        &self,
        from: &FilePath,
        to: &FilePath,
        overwrite: bool,
        _: &Change,
    ) -> Result<(), Kind> {
        let (from_dir, from_name) = from.split_dir()?;
        let (to_dir, to_name) = to.split_dir()?;
        let from_dir = self.open_dir(from_dir).map_err(|error| from.lookup_fault(&error))?;
        from_dir.symlink_metadata(from_name).map_err(|error| from.lookup_fault(&error))?;
        let mut made = Vec::new();
        let moved = self.open_dir_making(to_dir, &mut made).and_then(|to_dir| {
            let flags = if overwrite { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
            rename_with(&from_dir, from_name, &to_dir, to_name, flags)
        });
        moved.map_err(|error| {
            self.remove_made(&made);
            to.fault(&error)
        })
    }

    /// Removes what is at `path`, with `recursive` including everything beneath. Returns the number of removed files
    /// and directories. Everything disappears at once, and no link is followed. With `if_match` it removes only a
    /// file with this etag, or anything if it is `*`. In that case the caller passes the right to change files, which
    /// is released after the check.
    pub(crate) fn delete(
        &self,
        path: &FilePath,
        recursive: bool,
        if_match: Option<&str>,
        change: Option<Change>,
    ) -> Result<u64, Kind> {
        if path.is_workspace() {
            return Err(invalid("path", "is the workspace itself"));
        }
        let fail = |error: io::Error| match (error.kind(), if_match) {
            (io::ErrorKind::NotFound | io::ErrorKind::NotADirectory, Some(_)) => {
                Kind::ConditionFailed(path.details(0))
            }
            _ => path.lookup_fault(&error),
        };
        let (parent, name) = path.split_dir()?;
        let parent = self.open_dir(parent).map_err(fail)?;
        let meta = parent.symlink_metadata(name).map_err(fail)?;
        let is_meant = |wanted: &str| wanted == "*" || (meta.is_file() && wanted == info::etag(&meta));
        if !if_match.is_none_or(is_meant) {
            return Err(Kind::ConditionFailed(path.details(0)));
        }
        if !meta.is_dir() {
            parent.remove_file(name).map_err(fail)?;
            return Ok(1);
        }
        match parent.remove_dir(name) {
            Ok(()) => return Ok(1),
            Err(error) if recursive && Errno::from_io_error(&error) == Some(Errno::NOTEMPTY) => {}
            Err(error) => return Err(fail(error)),
        }
        drop(change);
        self.delete_tree(&parent, name).map_err(fail)
    }

    fn delete_tree(&self, parent: &Dir, name: &OsStr) -> io::Result<u64> {
        let gone = fresh_name();
        make_movable(parent, name);
        let Ok(staging) = self.staging.begin() else {
            // On a full disk the staging directory may not be available. The tree then stays in its own directory.
            parent.rename(name, parent, &gone)?;
            // On failure the rest gets its name back.
            return remove_tree(parent, gone.clone()).inspect_err(|_| {
                drop(rename_with(parent, gone.as_os_str(), parent, name, RenameFlags::NOREPLACE))
            });
        };
        parent.rename(name, &staging, &gone)?;
        let mut removed = 0;
        let cleared =
            seam::reached(Step::TakenAway).and_then(|()| remove_tree_counting(&staging, gone, &mut removed));
        if cleared.is_err() {
            // It has disappeared, so it counts as deleted. Its space is freed later.
            staging.mark_leftovers();
        }
        Ok(removed.max(1))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::tests::{Fixture, fixture};
    use super::*;

    #[test]
    fn a_directory_is_created_once() {
        let fixture = fixture();
        assert!(fixture.workspace.make_dir(&fixture.path("a/b/c")).unwrap());
        assert!(!fixture.workspace.make_dir(&fixture.path("a/b/c/")).unwrap());
        fs::write(fixture.dir.path().join("file"), b"").unwrap();
        for path in ["file", "file/x"] {
            let made = fixture.workspace.make_dir(&fixture.path(path));
            assert!(matches!(made, Err(Kind::AlreadyThere(_))), "{path}: {made:?}");
        }
    }

    #[test]
    fn a_move_replaces_only_if_allowed() {
        let fixture = fixture();
        let dir = fixture.dir.path();
        fs::write(dir.join("one"), b"1").unwrap();
        fs::write(dir.join("two"), b"2").unwrap();
        let moved = |from, to, overwrite| {
            fixture.workspace.rename(
                &fixture.path(from),
                &fixture.path(to),
                overwrite,
                &fixture.workspace.change_now(),
            )
        };
        assert!(matches!(moved("one", "two", false), Err(Kind::AlreadyThere(_))));
        moved("one", "two", true).unwrap();
        assert_eq!(fs::read(dir.join("two")).unwrap(), b"1");
        moved("two", "new/place/three", false).unwrap();
        assert_eq!(fs::read(dir.join("new/place/three")).unwrap(), b"1");
        assert!(matches!(moved("absent", "x/y", false), Err(Kind::FileUnknown(_))));
        assert!(!dir.join("x").exists());
        assert!(matches!(moved("new", "new/place/inside", false), Err(Kind::FileFailed(_))));
        assert!(matches!(moved("new", "../out", false), Err(Kind::OutsideWorkspace(_))));
    }

    #[test]
    fn a_delete_removes_links_and_not_their_targets() {
        let fixture = fixture();
        let dir = fixture.dir.path();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("kept"), b"").unwrap();
        fs::create_dir_all(dir.join("tree/sub")).unwrap();
        symlink(outside.path(), dir.join("tree/sub/out")).unwrap();
        fs::write(dir.join("tree/sub/file"), b"").unwrap();
        let delete = |path, recursive| fixture.workspace.delete(&fixture.path(path), recursive, None, None);
        assert!(matches!(delete("tree", false), Err(Kind::NotEmpty(_))));
        assert!(matches!(delete("", true), Err(Kind::FieldInvalid(_))));
        assert_eq!(delete("tree", true).unwrap(), 4);
        assert!(outside.path().join("kept").exists() && !dir.join("tree").exists());
        assert!(matches!(delete("tree", true), Err(Kind::FileUnknown(_))));
    }

    #[test]
    fn a_delete_removes_any_depth_and_read_only_directories() {
        let Fixture { dir, workspace } = fixture();
        let deep: PathBuf = std::iter::repeat_n("d", 1500).collect();
        fs::create_dir_all(dir.path().join(&deep)).unwrap();
        fs::write(dir.path().join(&deep).join("file"), b"").unwrap();
        fs::set_permissions(dir.path().join("d/d"), std::os::unix::fs::PermissionsExt::from_mode(0o555))
            .unwrap();
        let path = workspace.path(&bytes::Bytes::from_static(b"d")).unwrap();
        assert_eq!(workspace.delete(&path, true, None, None).unwrap(), 1501);
        assert!(!dir.path().join("d").exists());
    }

    #[test]
    fn a_conditional_delete_checks_the_etag() {
        let fixture = fixture();
        fs::write(fixture.dir.path().join("file"), b"1").unwrap();
        fs::create_dir(fixture.dir.path().join("dir")).unwrap();
        let etag = fixture.workspace.stat(&fixture.path("file")).unwrap().etag;
        let delete = |path, if_match| {
            let change = Some(fixture.workspace.change_now());
            fixture.workspace.delete(&fixture.path(path), false, Some(if_match), change)
        };
        for (path, if_match) in
            [("file", "other"), ("absent", "*"), ("absent/x", "*"), ("file/x", "*"), ("dir", &etag)]
        {
            let deleted = delete(path, if_match);
            assert!(matches!(deleted, Err(Kind::ConditionFailed(_))), "{path}: {deleted:?}");
        }
        assert_eq!(delete("file", &etag).unwrap(), 1);
        assert_eq!(delete("dir", "*").unwrap(), 1);
    }

    #[test]
    fn a_directory_is_created_completely_or_not_at_all() {
        let fixture = fixture();
        for step in 0..3 {
            let mut left = step;
            let _failing = seam::on(move |_| {
                left -= 1;
                if left < 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
            });
            let made = fixture.workspace.make_dir(&fixture.path("a/b/c"));
            assert!(matches!(made, Err(Kind::NoSpace(_) | Kind::FileFailed(_))), "{made:?}");
            assert!(!fixture.dir.path().join("a").exists(), "{step}");
        }
    }

    #[test]
    fn a_tree_that_has_left_the_workspace_is_deleted() {
        let fixture = fixture();
        fs::create_dir_all(fixture.dir.path().join("tree/sub")).unwrap();
        let failing = seam::on(|_| Err(io::ErrorKind::Other.into()));
        assert_eq!(fixture.workspace.delete(&fixture.path("tree"), true, None, None).unwrap(), 1);
        drop(failing);
        assert!(!fixture.dir.path().join("tree").exists());
        let staging = fixture.dir.path().join(".sandbox-staging");
        assert_eq!(fs::read_dir(staging).unwrap().count(), 0, "the space is freed");
    }
}
