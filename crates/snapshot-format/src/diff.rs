//! Compares two trees.
//!
//! Both are read in parallel, in the order of their names. A directory that has the same content in both is not read at
//! all, so the work depends on what differs. Memory is needed for one chunk of each directory on the way to the current
//! one.

use std::error::Error;

use crate::content::InvalidContent;
use crate::reader::{ChunkSource, ReadError, TreeReader};
use crate::{Content, Entry, Kind};

/// Maximum depth of a tree that is compared. A snapshot's own limit is lower.
pub const MAX_DEPTH: usize = 130;

/// A difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// A directory with another content than before, or one that only one tree has. Its differences follow, until its
    /// [`Difference::Leave`]. The directory is read after this was returned.
    Enter(Change),
    /// The end of a directory.
    Leave(Change),
    /// An entry. If both trees have it, it is not a directory, or is a directory of which only the metadata differs.
    Entry(Change),
}

/// An entry of the old and the new tree. At least one of them has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Path from the root.
    pub path: Vec<u8>,
    /// The entry in the old tree.
    pub old: Option<Entry>,
    /// The entry in the new tree.
    pub new: Option<Entry>,
}

/// Why trees cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum DiffError<E: Error + 'static> {
    /// One of them cannot be read.
    #[error("{}: {error}", String::from_utf8_lossy(path))]
    Read {
        /// The directory.
        path: Vec<u8>,
        /// What is wrong.
        #[source]
        error: ReadError<E>,
    },
    /// They are deeper than [`MAX_DEPTH`].
    #[error("{}: deeper than {MAX_DEPTH} levels", String::from_utf8_lossy(path))]
    TooDeep {
        /// The directory.
        path: Vec<u8>,
    },
}

/// Compares two trees, one difference after the other.
#[derive(Debug)]
pub struct Differ<S> {
    source: S,
    levels: Vec<Level>,
    path: Vec<u8>,
    /// The directory that was returned last and is not open yet.
    entering: Option<(Option<Entry>, Option<Entry>)>,
}

/// A directory that both trees may have.
#[derive(Debug)]
struct Level {
    old: Side,
    new: Side,
    /// The directory's own entries. The root has none.
    entries: (Option<Entry>, Option<Entry>),
    /// Length of the path without this directory's name.
    parent_path: usize,
}

/// The directory in one tree.
#[derive(Debug, Default)]
struct Side {
    reader: Option<TreeReader>,
    next: Option<Entry>,
}

impl Side {
    fn new(content: Option<&Content>) -> Result<Self, InvalidContent> {
        Ok(Self { reader: content.map(TreeReader::new).transpose()?, next: None })
    }

    async fn fill<S: ChunkSource>(&mut self, source: &S) -> Result<(), ReadError<S::Error>> {
        if self.next.is_none()
            && let Some(reader) = &mut self.reader
        {
            self.next = reader.next(source).await?;
            if self.next.is_none() {
                self.reader = None;
            }
        }
        Ok(())
    }

    fn is_before(&self, other: &Self) -> bool {
        match (&self.next, &other.next) {
            (Some(own), Some(other)) => own.name < other.name,
            (own, _) => own.is_some(),
        }
    }
}

impl<S: ChunkSource> Differ<S> {
    /// Compares the trees whose root directories have these contents. Without one, everything in the other is reported.
    pub fn new(source: S, old: Option<&Content>, new: Option<&Content>) -> Result<Self, DiffError<S::Error>> {
        let mut differ = Self { source, levels: Vec::new(), path: Vec::new(), entering: None };
        if old != new {
            differ.open(old, new, (None, None), 0)?;
        }
        Ok(differ)
    }

    fn open(
        &mut self,
        old: Option<&Content>,
        new: Option<&Content>,
        entries: (Option<Entry>, Option<Entry>),
        parent_path: usize,
    ) -> Result<(), DiffError<S::Error>> {
        if self.levels.len() >= MAX_DEPTH {
            return Err(DiffError::TooDeep { path: self.path.clone() });
        }
        let failed = |error: InvalidContent| DiffError::Read { path: self.path.clone(), error: error.into() };
        let (old, new) = (Side::new(old).map_err(failed)?, Side::new(new).map_err(failed)?);
        self.levels.push(Level { old, new, entries, parent_path });
        Ok(())
    }

    /// Skips what differs in the directory that was returned last, and its end.
    pub fn skip_directory(&mut self) {
        if self.entering.take().is_some() {
            self.leave_path();
        }
    }

    /// Returns the next difference.
    pub async fn next(&mut self) -> Result<Option<Difference>, DiffError<S::Error>> {
        if let Some(entries) = self.entering.take() {
            let parent_path = self.parent_path();
            let (old, new) = (content_of(&entries.0).cloned(), content_of(&entries.1).cloned());
            self.open(old.as_ref(), new.as_ref(), entries, parent_path)?;
        }
        loop {
            let Some(level) = self.levels.last_mut() else { return Ok(None) };
            let filled = async {
                level.old.fill(&self.source).await?;
                level.new.fill(&self.source).await
            };
            if let Err(error) = filled.await {
                return Err(DiffError::Read { path: self.path.clone(), error });
            }
            let (old, new) = if level.old.is_before(&level.new) {
                (level.old.next.take(), None)
            } else if level.new.is_before(&level.old) {
                (None, level.new.next.take())
            } else {
                (level.old.next.take(), level.new.next.take())
            };
            if old.is_none() && new.is_none() {
                return Ok(self.leave());
            }
            if old != new {
                return Ok(Some(self.report(old, new)));
            }
        }
    }

    /// Reports an entry. One that is a directory in only one tree is reported as removed, and then as new.
    fn report(&mut self, old: Option<Entry>, mut new: Option<Entry>) -> Difference {
        if let (Some(before), Some(after)) = (&old, &new)
            && is_directory(before) != is_directory(after)
            && let Some(level) = self.levels.last_mut()
        {
            // Nothing is before it, so it comes next.
            level.new.next = new.take();
        }
        let name = old.as_ref().or(new.as_ref()).map_or_else(Default::default, |entry| entry.name.clone());
        let is_entered =
            old.as_ref().or(new.as_ref()).is_some_and(is_directory) && content_of(&old) != content_of(&new);
        let path = self.child_path(&name);
        let change = Change { path, old, new };
        if !is_entered {
            return Difference::Entry(change);
        }
        self.path.clone_from(&change.path);
        self.entering = Some((change.old.clone(), change.new.clone()));
        Difference::Enter(change)
    }

    fn leave(&mut self) -> Option<Difference> {
        let level = self.levels.pop()?;
        let path = self.path.clone();
        self.path.truncate(level.parent_path);
        let (old, new) = level.entries;
        (old.is_some() || new.is_some()).then_some(Difference::Leave(Change { path, old, new }))
    }

    fn child_path(&self, name: &[u8]) -> Vec<u8> {
        if self.path.is_empty() { name.to_vec() } else { [&self.path, &b"/"[..], name].concat() }
    }

    fn parent_path(&self) -> usize {
        self.path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)
    }

    fn leave_path(&mut self) {
        let parent = self.parent_path();
        self.path.truncate(parent);
    }
}

fn is_directory(entry: &Entry) -> bool {
    entry.kind() == Kind::Directory
}

fn content_of(entry: &Option<Entry>) -> Option<&Content> {
    entry.as_ref()?.content.as_ref()
}
