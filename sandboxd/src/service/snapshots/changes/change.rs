//! A change of one entry.

use super::patch::Diff;
use crate::model::layout::WORKSPACE_NAME;

/// How an entry differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// Only the later snapshot has it.
    Added,
    /// Both have it, with another content, mode or target.
    Modified,
    /// Only the earlier snapshot has it.
    Deleted,
    /// The later snapshot has it at another path, with the same content.
    Renamed,
}

/// An entry that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Path from the root of the snapshot, such as `workspace/a`.
    pub path: Vec<u8>,
    /// How it differs.
    pub kind: ChangeKind,
    /// Its earlier path, if it was renamed.
    pub from: Option<Vec<u8>>,
    /// How its text differs, if that was requested. A directory has none.
    pub diff: Option<Diff>,
}

/// The path in the workspace.
pub(super) fn in_workspace(path: &[u8]) -> Option<&[u8]> {
    path.strip_prefix(WORKSPACE_NAME.as_bytes())?.strip_prefix(b"/")
}
