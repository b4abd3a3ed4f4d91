//! The steps that turn one tree into another.

use bytes::Bytes;

use crate::diff::{DiffError, Differ, Difference};
use crate::reader::ChunkSource;
use crate::{Change, Content, Entry, Kind};

/// A step in the current directory, which is first the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Make this directory the current one. It is created if it is missing.
    Enter(Bytes),
    /// Remove an entry with everything beneath it.
    Remove(Bytes),
    /// Replace what has the entry's name. A file's bytes must follow.
    Put(Entry),
    /// Set the metadata of an existing entry.
    Metadata(Entry),
    /// Set the current directory's metadata, and go back to its parent.
    Leave(Entry),
}

/// The steps from one tree to another.
#[derive(Debug)]
pub struct Plan<S> {
    differ: Differ<S>,
    /// The second step of a difference that takes two.
    next: Option<Step>,
}

impl<S: ChunkSource> Plan<S> {
    /// Plans the steps between the trees whose root directories have these contents. Without an old one, everything is
    /// created.
    pub fn new(source: S, old: Option<&Content>, new: &Content) -> Result<Self, DiffError<S::Error>> {
        Ok(Self { differ: Differ::new(source, old, Some(new))?, next: None })
    }

    /// Returns the next step.
    pub async fn next(&mut self) -> Result<Option<Step>, DiffError<S::Error>> {
        loop {
            if let Some(step) = self.next.take() {
                return Ok(Some(step));
            }
            let Some(difference) = self.differ.next().await? else { return Ok(None) };
            if let Some(step) = self.step(difference) {
                return Ok(Some(step));
            }
        }
    }

    fn step(&mut self, difference: Difference) -> Option<Step> {
        match difference {
            Difference::Enter(Change { new: Some(entry), .. }) => Some(Step::Enter(entry.name)),
            Difference::Enter(change) => {
                self.differ.skip_directory();
                removal(change)
            }
            Difference::Leave(change) => change.new.map(Step::Leave),
            Difference::Entry(Change { old, new: Some(entry), .. }) => Some(self.change(old, entry)),
            Difference::Entry(change) => removal(change),
        }
    }

    fn change(&mut self, old: Option<Entry>, entry: Entry) -> Step {
        if entry.kind() == Kind::Directory {
            let name = entry.name.clone();
            self.next = Some(Step::Leave(entry));
            return Step::Enter(name);
        }
        if entry.kind() == Kind::File && old.as_ref().is_some_and(|old| old.kind() == Kind::HardLink) {
            // A file with several links is written in place, which would change the file that it is a link of.
            let name = entry.name.clone();
            self.next = Some(Step::Put(entry));
            return Step::Remove(name);
        }
        let is_same = |old: &Entry| {
            (old.kind, &old.content, &old.target) == (entry.kind, &entry.content, &entry.target)
        };
        if old.as_ref().is_some_and(is_same) { Step::Metadata(entry) } else { Step::Put(entry) }
    }
}

/// Removes an entry that only the old tree has. The directories of the root always stay.
fn removal(change: Change) -> Option<Step> {
    let is_root = !change.path.contains(&b'/');
    let entry = change.old.filter(|_| !is_root)?;
    Some(Step::Remove(entry.name))
}
