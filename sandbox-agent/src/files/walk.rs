//! Walks through directories in the order of their names, without following links.
//!
//! The caller decides which directory is entered. Each is opened from its parent and must not be a link, so changes
//! in the tree cannot lead the walk elsewhere. Depth and number of names are limited, because a tree may be built to
//! make the walk endless. The walk reports whether it skipped anything.
use std::collections::BinaryHeap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;

use super::dirs::open_no_follow;
use crate::limits::{MAX_WALK_BYTES, MAX_WALK_DEPTH};

/// A walk through a tree.
#[derive(Debug)]
pub(super) struct Walk {
    levels: Vec<Level>,
    /// Maximum number of names that are kept of each directory. The first ones are kept.
    keep: usize,
    /// The last path of an earlier walk. This walk continues after it.
    after: Option<PathBuf>,
    /// Size of the names of all levels in bytes.
    held: usize,
    max_bytes: usize,
    cut: bool,
    ended_early: bool,
}

#[derive(Debug)]
struct Level {
    dir: Arc<Dir>,
    path: PathBuf,
    names: std::vec::IntoIter<Name>,
    held: usize,
    /// Whether the directory has more names than were kept.
    is_cut: bool,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    name: OsString,
    is_dir: bool,
}

impl Name {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.name.len()
    }
}

/// An entry of a directory.
#[derive(Debug)]
pub(super) struct Entry {
    /// The directory that contains it.
    pub(super) dir: Arc<Dir>,
    pub(super) name: OsString,
    /// Relative to the workspace.
    pub(super) path: PathBuf,
    /// Whether it was a directory when its name was read.
    pub(super) is_dir: bool,
    /// 1 for an entry of the first directory.
    pub(super) depth: usize,
    /// Whether an earlier walk has returned this entry. Entries beneath it may still be missing.
    pub(super) seen: bool,
}

impl Walk {
    /// Creates a walk through a tree whose size was limited when it was created.
    pub(super) fn whole(dir: Dir) -> io::Result<Self> {
        let mut walk = Self { keep: usize::MAX, max_bytes: usize::MAX, ..Self::empty() };
        walk.open_level(dir, PathBuf::new())?;
        Ok(walk)
    }

    /// Creates an empty walk.
    pub(super) fn empty() -> Self {
        Self {
            levels: Vec::new(),
            keep: 0,
            after: None,
            held: 0,
            max_bytes: MAX_WALK_BYTES,
            cut: false,
            ended_early: false,
        }
    }

    /// Creates a walk that starts in `dir`, which is at `path`.
    pub(super) fn new(dir: Dir, path: PathBuf, keep: usize, after: Option<PathBuf>) -> io::Result<Self> {
        let mut walk = Self { keep, after, ..Self::empty() };
        walk.open_level(dir, path)?;
        Ok(walk)
    }

    /// Whether anything was skipped because of a limit.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Whether the walk ended before the end of the tree.
    pub(super) fn ended_early(&self) -> bool {
        self.ended_early
    }

    /// Returns the next entry. If a directory is entered, the entries beneath it follow.
    pub(super) fn next(&mut self) -> Option<Entry> {
        loop {
            let depth = self.levels.len();
            let level = self.levels.last_mut()?;
            let Some(Name { name, is_dir }) = level.names.next() else {
                if level.is_cut {
                    // All later entries come after the names that were not kept. If they were returned, a walk that
                    // continues after them would never return those names.
                    self.levels.clear();
                    self.ended_early = true;
                    return None;
                }
                self.held -= level.held;
                self.levels.pop();
                continue;
            };
            let path = level.path.join(&name);
            let seen = self.after.as_ref().is_some_and(|after| path <= *after);
            return Some(Entry { dir: Arc::clone(&level.dir), name, path, is_dir, depth, seen });
        }
    }

    /// Enters `entry`, the last one returned. A directory that is gone or not readable counts as empty.
    pub(super) fn enter(&mut self, entry: &Entry) {
        let _ = self.try_enter(entry);
    }

    /// Like [`Walk::enter`], but returns the error.
    pub(super) fn try_enter(&mut self, entry: &Entry) -> io::Result<()> {
        if self.levels.len() >= MAX_WALK_DEPTH {
            self.cut = true;
            return Ok(());
        }
        let dir = open_no_follow(&entry.dir, Path::new(&entry.name))?;
        self.open_level(dir, entry.path.clone())
    }

    fn open_level(&mut self, dir: Dir, path: PathBuf) -> io::Result<()> {
        let from = self.after.as_ref().and_then(|after| {
            Some(after.strip_prefix(&path).ok()?.components().next()?.as_os_str().to_owned())
        });
        let (names, is_cut) = self.first_names(&dir, from.as_deref())?;
        let held = names.iter().map(Name::bytes).sum();
        self.held += held;
        self.levels.push(Level { dir: Arc::new(dir), path, names: names.into_iter(), held, is_cut });
        Ok(())
    }

    /// Returns the first names that are not before `from`, without keeping all of them in memory.
    fn first_names(&mut self, dir: &Dir, from: Option<&OsStr>) -> io::Result<(Vec<Name>, bool)> {
        let mut first = BinaryHeap::new();
        let (mut bytes, mut is_cut) = (0, false);
        for entry in dir.entries()? {
            let entry = entry?;
            let name = entry.file_name();
            if from.is_some_and(|from| name.as_os_str() < from) {
                continue;
            }
            let is_dir = match entry.file_type() {
                // An entry that was removed meanwhile is skipped.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                kind => kind.is_ok_and(|kind| kind.is_dir()),
            };
            let name = Name { name, is_dir };
            bytes += name.bytes();
            first.push(name);
            if first.len() > self.keep || self.held + bytes > self.max_bytes {
                bytes -= first.pop().map_or(0, |last| last.bytes());
                is_cut = true;
            }
        }
        self.cut |= is_cut;
        Ok((first.into_sorted_vec(), is_cut))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::tests::fixture;
    use super::*;

    fn walked(root: &Path, keep: usize, after: Option<&str>) -> (Vec<String>, bool) {
        let dir = Dir::open_ambient_dir(root, cap_std::ambient_authority()).unwrap();
        let mut walk = Walk::new(dir, PathBuf::new(), keep, after.map(PathBuf::from)).unwrap();
        let mut paths = Vec::new();
        while let Some(entry) = walk.next() {
            if !entry.seen {
                paths.push(entry.path.to_str().unwrap().to_owned());
            }
            if entry.is_dir {
                walk.enter(&entry);
            }
        }
        (paths, walk.is_cut())
    }

    #[test]
    fn the_memory_of_a_walk_is_limited() {
        let root = fixture().dir;
        let name = "n".repeat(240);
        let levels = ["!", "!/!"];
        for dir in levels {
            fs::create_dir(root.path().join(dir)).unwrap();
            fs::write(root.path().join(dir).join("0"), b"").unwrap();
            let many = MAX_WALK_BYTES / (levels.len() * name.len());
            for at in 0..many {
                fs::hard_link(root.path().join(dir).join("0"), root.path().join(format!("{dir}/{name}{at}")))
                    .unwrap();
            }
        }
        let (walked, cut) = walked(root.path(), usize::MAX, None);
        assert!(cut && !walked.is_empty());
    }

    #[test]
    fn a_walk_can_continue_after_any_entry() {
        let root = fixture().dir;
        for file in ["a-b", "a/1", "a/2/x", "a/3", "b"] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"").unwrap();
        }
        std::os::unix::fs::symlink(".", root.path().join("link")).unwrap();
        let (all, cut) = walked(root.path(), 100, None);
        assert_eq!((all.len(), cut), (8, false));
        assert_eq!(all, ["a", "a/1", "a/2", "a/2/x", "a/3", "a-b", "b", "link"]);
        for (at, path) in all.iter().enumerate() {
            assert_eq!(walked(root.path(), 100, Some(path)).0, all[at + 1..], "after {path}");
        }
        assert_eq!(
            walked(root.path(), 2, None),
            (["a", "a/1", "a/2", "a/2/x"].map(str::to_owned).into(), true)
        );
    }
}
