//! Differences between two snapshots. [`renames`] joins changes of the same file, and [`text`] writes them as patches in
//! the form of git ([`patch`]).

mod change;
mod patch;
mod renames;
mod text;

use sandbox_api::SnapshotId;
use snapshot_format::{Change, Content, Differ, Difference, Entry, Kind};

pub use self::change::{ChangeKind, FileChange};
pub use self::patch::{Diff, Omitted};
use self::renames::{Found, with_renames};
use super::chunks::PackSource;
use super::{Snapshots, root_of};
use crate::model::limits;
use crate::service::Authorized;
use crate::service::Error;

/// Which changes are returned.
#[derive(Debug, Clone, Default)]
pub struct ChangeOptions {
    /// Path that all of them come after.
    pub after: Option<Vec<u8>>,
    /// Maximum number.
    pub limit: usize,
    /// Whether the differences of texts are returned too. A page may then have fewer changes.
    pub diff: bool,
}

/// Some of the changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangePage {
    /// In the order of the paths, except that what was renamed comes where its old name was.
    pub changes: Vec<FileChange>,
    /// The path after which the next page begins, if there is one.
    pub next_after: Option<Vec<u8>>,
}

impl Snapshots {
    /// The differences of snapshot `to` from snapshot `from`, or from nothing.
    pub async fn changes(
        &self,
        from: Option<&Authorized<SnapshotId>>,
        to: &Authorized<SnapshotId>,
        options: &ChangeOptions,
    ) -> Result<ChangePage, Error> {
        let (new, _new_pin) = self.pinned(to).await?;
        let (old, _old_pin) = match from {
            Some(from) => {
                let (old, pin) = self.pinned(from).await?;
                (Some(root_of(&old)?), Some(pin))
            }
            None => (None, None),
        };
        let (found, next_after) = self.found(old.as_ref(), &root_of(&new)?, options).await?;
        let packs = self.packs.packs().await?;
        let mut changes = Vec::with_capacity(found.len());
        for (change, sides) in with_renames(found) {
            let diff = if options.diff { text::diff(packs, &change, sides).await? } else { None };
            changes.push(FileChange { diff, ..change });
        }
        Ok(ChangePage { changes, next_after })
    }

    async fn found(
        &self,
        old: Option<&Content>,
        new: &Content,
        options: &ChangeOptions,
    ) -> Result<(Vec<Found>, Option<Vec<u8>>), Error> {
        let mut differ = Differ::new(PackSource(self.packs.packs().await?.clone()), old, Some(new))?;
        let mut found: Vec<Found> = Vec::new();
        let mut last_position = Vec::new();
        let mut text_bytes = 0;
        while let Some(difference) = differ.next().await? {
            let Some(change) = reported(difference) else { continue };
            let position = position_of(&change);
            if options.after.as_ref().is_some_and(|after| !is_after(&position, after)) {
                continue;
            }
            // The head of a patch has the name up to four times, quoted.
            text_bytes +=
                if options.diff { text::bytes_of(&change) + 16 * change.path.len() as u64 } else { 0 };
            let is_full = found.len() == options.limit || text_bytes > limits::MAX_DIFF_PAGE_BYTES;
            if is_full && !found.is_empty() {
                return Ok((found, Some(last_position)));
            }
            last_position = position;
            found.push(Found::new(change, options.diff));
        }
        Ok((found, None))
    }
}

/// The reported form of a difference. A directory whose entries differ is not reported itself.
fn reported(difference: Difference) -> Option<Change> {
    match difference {
        Difference::Leave(_) => None,
        Difference::Enter(change) => {
            let is_in_both = change.old.is_some() && change.new.is_some();
            (!is_in_both).then_some(change)
        }
        Difference::Entry(change) => is_visible(&change).then_some(change),
    }
}

/// Whether a change is reported. A change of the time alone is not.
fn is_visible(change: &Change) -> bool {
    let untimed =
        |entry: &Option<Entry>| entry.clone().map(|entry| Entry { modified_s: 0, modified_ns: 0, ..entry });
    untimed(&change.old) != untimed(&change.new)
}

/// Where a change comes in the order of a comparison. What takes the place of something else comes after it: a directory
/// after the file of the same name, and a file after the entries of the directory.
fn position_of(change: &Change) -> Vec<u8> {
    let mut position = change.path.clone();
    if let (None, Some(new)) = (&change.old, &change.new) {
        position.push(b'/');
        if new.kind() != Kind::Directory {
            // After every name, which has at most 255 bytes.
            position.extend([0xff; 256]);
        }
    }
    position
}

/// Whether a path comes after another in a walk, in which a directory's entries follow it at once.
fn is_after(path: &[u8], other: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').gt(other.split(|byte| *byte == b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_a_place_comes_after_what_was_there() {
        let entry = |kind: Kind| Some(Entry { kind: kind.into(), ..Entry::default() });
        let position = |path: &str, old: Option<Kind>, new: Option<Kind>| {
            let (old, new) = (old.and_then(entry), new.and_then(entry));
            position_of(&Change { path: path.into(), old, new })
        };
        let (file, directory) = (Some(Kind::File), Some(Kind::Directory));
        let order = [
            position("a", directory, None),
            position("a/\u{10ffff}", file, None),
            position("a", None, file),
            position("a-b", file, None),
            position("a-b", None, directory),
            position("a-b/c", None, file),
            position("b", file, file),
        ];
        for pair in order.windows(2) {
            assert!(is_after(&pair[1], &pair[0]) && !is_after(&pair[0], &pair[1]), "{pair:?}");
        }
    }

    #[test]
    fn a_walk_visits_the_entries_of_a_directory_before_its_neighbours() {
        assert!(is_after(b"a/b", b"a"));
        assert!(is_after(b"a-b", b"a/z"));
        assert!(is_after(b"b", b"a/z"));
        assert!(!is_after(b"a/z", b"a-b"));
        assert!(!is_after(b"a", b"a"));
    }
}
