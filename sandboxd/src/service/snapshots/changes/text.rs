//! Reads the texts of a change, and compares them.

use snapshot_format::{Change, ContentReader, Entry, Kind, ReadError, Segment};
use tokio::task::spawn_blocking;

use super::super::chunks::PackSource;
use super::change::{FileChange, in_workspace};
use super::patch::{Diff, Mode, Omitted, Side, patch};
use super::renames::Sides;
use crate::model::limits;
use crate::packs::Packs;
use crate::service::Error;

/// Bytes that are read for the diff of a change.
pub(super) fn bytes_of(change: &Change) -> u64 {
    let sizes = [&change.old, &change.new].map(|entry| entry.as_ref().map_or(0, size_of));
    if sizes.into_iter().any(|size| size > limits::MAX_DIFF_FILE_BYTES) { 0 } else { sizes.into_iter().sum() }
}

fn size_of(entry: &Entry) -> u64 {
    entry.content.as_ref().filter(|_| entry.kind() == Kind::File).map_or(0, |content| content.size)
}

/// The diff of a change. `None` if there is nothing to compare, as for a directory.
pub(super) async fn diff(packs: &Packs, change: &FileChange, sides: Sides) -> Result<Option<Diff>, Error> {
    let file = |entry: Option<Entry>| entry.filter(|entry| entry.kind() != Kind::Directory);
    let (old, new) = (file(sides.old), file(sides.new));
    if old.is_none() && new.is_none() {
        return Ok(None);
    }
    let paths = (change.from.as_ref().unwrap_or(&change.path), &change.path);
    let (Some(old_name), Some(new_name)) = (in_workspace(paths.0), in_workspace(paths.1)) else {
        return Ok(Some(Diff::Omitted(Omitted::Outside)));
    };
    if [old_name, new_name].into_iter().any(is_of_git) {
        return Ok(Some(Diff::Omitted(Omitted::Git)));
    }
    let has_same_content = is_same_content(old.as_ref(), new.as_ref());
    let texts = async |entry: Option<&Entry>| match entry {
        Some(entry) => text_of(packs, entry, has_same_content).await.map(Some),
        None => Ok(None),
    };
    let (old, new) = match (texts(old.as_ref()).await, texts(new.as_ref()).await) {
        (Ok(old), Ok(new)) => (old, new),
        (Err(Unreadable::Omitted(omitted)), _) | (_, Err(Unreadable::Omitted(omitted))) => {
            return Ok(Some(Diff::Omitted(omitted)));
        }
        (Err(Unreadable::Failed(error)), _) | (_, Err(Unreadable::Failed(error))) => return Err(error),
    };
    let (old_name, new_name) = (old_name.to_vec(), new_name.to_vec());
    let compared = spawn_blocking(move || {
        let old = old.as_ref().map(|(mode, text)| Side { name: &old_name, mode: *mode, text });
        let new = new.as_ref().map(|(mode, text)| Side { name: &new_name, mode: *mode, text });
        patch(old, new)
    });
    compared.await.map(Some).map_err(|source| Error::Task { source })
}

/// Whether a file belongs to git itself. `git apply` rejects a whole patch because of such a name, and `patch` would write
/// hooks that git then runs.
fn is_of_git(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|name| name.eq_ignore_ascii_case(b".git"))
}

fn is_same_content(old: Option<&Entry>, new: Option<&Entry>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => {
            (old.kind, &old.content) == (new.kind, &new.content) && old.kind() == Kind::File
        }
        _ => false,
    }
}

/// Why a text cannot be compared.
enum Unreadable {
    Omitted(Omitted),
    Failed(Error),
}

/// The mode and the text of an entry. If both sides have the same content, it is not read.
async fn text_of(packs: &Packs, entry: &Entry, is_same: bool) -> Result<(Mode, Vec<u8>), Unreadable> {
    let mode = Mode::of(entry).ok_or(Unreadable::Omitted(Omitted::Special))?;
    let text = match entry.kind() {
        _ if is_same => Vec::new(),
        Kind::File => read(packs, entry).await?,
        _ => entry.target.to_vec(),
    };
    Ok((mode, text))
}

async fn read(packs: &Packs, entry: &Entry) -> Result<Vec<u8>, Unreadable> {
    if size_of(entry) > limits::MAX_DIFF_FILE_BYTES {
        return Err(Unreadable::Omitted(Omitted::TooLarge));
    }
    let source = PackSource(packs.clone());
    let content = entry.content.clone().unwrap_or_default();
    let failed = |error: Error| Unreadable::Failed(error);
    let mut reader =
        ContentReader::new(&content).map_err(|error| failed(ReadError::Content(error).into()))?;
    let mut text = Vec::new();
    while let Some(segment) = reader.next(&source).await.map_err(|error| failed(error.into()))? {
        let Segment::Chunk { hash, .. } = segment else { return Err(Unreadable::Omitted(Omitted::Binary)) };
        text.extend_from_slice(&packs.get(hash).await.map_err(|error| failed(error.into()))?);
    }
    if text.contains(&0) { Err(Unreadable::Omitted(Omitted::Binary)) } else { Ok(text) }
}
