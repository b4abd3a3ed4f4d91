//! Changes of a trial in the copy of a directory.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use sandbox_api::snapshot::{ChangeKind, SnapshotChange};

use sandboxd_model::layout::WORKSPACE_NAME;

/// The workspace's prefix in the paths of a snapshot.
const PREFIX: &str = WORKSPACE_NAME;

/// How the directory must change, by paths from it. All are plain: without `..` and not absolute.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Removed entries, in the order of a walk: a directory before its entries.
    pub(super) removed: Vec<PathBuf>,
    /// Written entries, in the same order.
    pub(super) written: Vec<PathBuf>,
    /// The new names of what is removed because it was renamed.
    pub(super) renamed: HashMap<PathBuf, PathBuf>,
    /// Entries that cannot be applied, because their names are not UTF-8.
    pub(super) unnamed: Vec<String>,
}

/// The changes of the workspace. The caches and outputs beside it are not part of the copy.
pub(super) fn of_workspace(changes: Vec<SnapshotChange>) -> Vec<SnapshotChange> {
    let inside = |path: &str| inside(path).map(str::to_owned);
    let changes = changes.into_iter().filter_map(|change| {
        let (path, from) = (inside(&change.path), change.from.as_deref().and_then(inside));
        // A file may have been moved to the caches, or from there.
        let kind = match (&path, &from, change.change) {
            (None, Some(_), _) => ChangeKind::Deleted,
            (Some(_), None, ChangeKind::Renamed) => ChangeKind::Added,
            (_, _, kind) => kind,
        };
        let (path, from) = match path {
            Some(path) => (path, from),
            None => (from?, None),
        };
        Some(SnapshotChange { path, from, change: kind, ..change })
    });
    changes.collect()
}

/// The path from the workspace, if it is in it.
fn inside(path: &str) -> Option<&str> {
    path.strip_prefix(PREFIX)?.strip_prefix('/')
}

impl Plan {
    pub(super) fn new(changes: &[SnapshotChange]) -> Self {
        let mut plan = Self::default();
        for change in changes {
            let path = plan.named(&change.path);
            let from = change.from.as_ref().and_then(|from| plan.named(from));
            match (change.change, path, from) {
                (ChangeKind::Deleted, Some(path), _) => plan.removed.push(path),
                // The file is removed under its old name only if it has its new one.
                (ChangeKind::Renamed, Some(path), Some(from)) => {
                    plan.written.push(path.clone());
                    plan.removed.push(from.clone());
                    plan.renamed.insert(from, path);
                }
                (ChangeKind::Added | ChangeKind::Modified | ChangeKind::Renamed, Some(path), _) => {
                    plan.written.push(path);
                }
                (_, None, _) => {}
            }
        }
        plan.written.sort();
        plan.removed.sort();
        plan
    }

    /// The path, if it can be applied.
    fn named(&mut self, path: &str) -> Option<PathBuf> {
        // The daemon replaces what is not UTF-8 by this character.
        let named = plain(Path::new(path)).filter(|_| !path.contains(char::REPLACEMENT_CHARACTER));
        if named.is_none() {
            self.unnamed.push(path.to_owned());
        }
        named
    }
}

/// Whether git on this machine runs programs that a file with this path names: the configuration of a repository, its
/// hooks and its attributes, or a file that says where a repository is.
pub(super) fn runs_programs(path: &Path) -> bool {
    let names: Vec<String> = path.iter().map(|name| name.to_string_lossy().to_ascii_lowercase()).collect();
    let Some(at) = names.iter().position(|name| name == ".git") else { return false };
    let inside = &names[at + 1..];
    let last = inside.last().map(String::as_str);
    inside.iter().any(|name| name == "hooks" || name == "info")
        || matches!(last, Some("config" | "config.worktree" | "commondir" | "gitdir"))
}

/// The path, if it names something below the directory without leaving it. `None` for the directory itself.
pub(super) fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!plain.as_os_str().is_empty()).then_some(plain)
}

/// Whether a link at this path names something outside of the directory, judged by the names alone.
pub(super) fn leaves_the_directory(path: &Path, link: &Path) -> bool {
    let mut depth = path.components().count().saturating_sub(1);
    let mut is_below = false;
    for component in link.components() {
        match component {
            // What comes before `..` may be a link itself, and lead anywhere.
            Component::Normal(_) => is_below = true,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 && !is_below => depth -= 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return true,
        }
    }
    false
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn a_link_leaves_the_directory_by_its_names() {
        let leaves = |path: &str, link: &str| leaves_the_directory(Path::new(path), Path::new(link));
        assert!(!leaves("a/b", "../c") && !leaves("a/b/c", "../../d") && !leaves("a", "./b/c"));
        assert!(leaves("a/b", "../../c") && leaves("a", "..") && leaves("a", "/"));
        assert!(leaves("a", "x/x/../../.."), "`x` may be a link to its own directory");
    }

    pub(in crate::trial) fn change(change: ChangeKind, path: &str, from: Option<&str>) -> SnapshotChange {
        let (path, from) = (path.into(), from.map(str::to_owned));
        SnapshotChange { path, change, from, diff: None, diff_base64: None, diff_omitted: None }
    }

    #[test]
    fn only_the_workspace_counts() {
        let changes = vec![
            change(ChangeKind::Added, ".local/bin/tool", None),
            change(ChangeKind::Modified, "workspace", None),
            change(ChangeKind::Added, "workspacex/a", None),
            change(ChangeKind::Renamed, "workspace/b", Some("workspace/a")),
        ];
        assert_eq!(of_workspace(changes), [change(ChangeKind::Renamed, "b", Some("a"))]);
    }

    #[test]
    fn a_rename_is_a_removal_and_a_write() {
        let plan = Plan::new(&[
            change(ChangeKind::Renamed, "b", Some("a")),
            change(ChangeKind::Deleted, "d", None),
            change(ChangeKind::Modified, "m", None),
        ]);
        assert_eq!(plan.removed, ["a", "d"].map(PathBuf::from));
        assert_eq!(plan.written, ["b", "m"].map(PathBuf::from));
    }

    #[test]
    fn a_path_out_of_the_directory_is_in_no_plan() {
        let hostile = ["../a", "/etc/passwd", "a/../../b", "..", "bad\u{fffd}name"];
        let plan = Plan::new(&hostile.map(|path| change(ChangeKind::Added, path, None)));
        assert_eq!((plan.written, plan.unnamed.len()), (Vec::new(), hostile.len()));
    }
}
