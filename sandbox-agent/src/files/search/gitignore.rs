//! Reads `.gitignore` files.

use std::io::Read;
use std::path::Path;

use cap_std::fs::Dir;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::files::dirs::open_regular;
use crate::files::workspace::Workspace;
use crate::limits::MAX_GITIGNORE_BYTES;

/// The rules of `.gitignore` files, and their size.
pub(super) struct IgnoreRules {
    pub(super) files: Vec<Gitignore>,
    pub(super) bytes: usize,
    /// No file was cut because of the size limit.
    pub(super) is_complete: bool,
}

impl IgnoreRules {
    pub(super) fn none() -> Self {
        Self { files: Vec::new(), bytes: 0, is_complete: true }
    }

    /// Reads the rules that apply in `dir`: its own, and those of the directories above it up to the workspace.
    pub(super) fn down_to(workspace: &Workspace, dir: &Dir, path: &Path) -> Self {
        let mut rules = Self::none();
        for above in path.ancestors().skip(1).collect::<Vec<_>>().into_iter().rev() {
            let at = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            if let Ok(dir) = workspace.open_dir(at) {
                rules.add(read(&dir, above, MAX_GITIGNORE_BYTES - rules.bytes));
            }
        }
        rules.add(read(dir, path, MAX_GITIGNORE_BYTES - rules.bytes));
        rules
    }

    pub(super) fn add(&mut self, read: Option<(Gitignore, usize, bool)>) {
        if let Some((rules, bytes, is_complete)) = read {
            self.files.push(rules);
            self.bytes += bytes;
            self.is_complete &= is_complete;
        }
    }
}

/// Reads at most `max_bytes` of a directory's `.gitignore`. Returns its rules, its size, and whether that was all of it.
/// Returns `None` if there is no such file. Invalid lines are skipped.
pub(super) fn read(dir: &Dir, path: &Path, max_bytes: usize) -> Option<(Gitignore, usize, bool)> {
    let file = open_regular(dir, Path::new(".gitignore"))?;
    let mut text = Vec::new();
    file.take(max_bytes as u64 + 1).read_to_end(&mut text).ok()?;
    let is_complete = text.len() <= max_bytes;
    text.truncate(max_bytes);
    let mut builder = GitignoreBuilder::new(path);
    for line in String::from_utf8_lossy(&text).lines() {
        let _ = builder.add_line(None, line);
    }
    Some((builder.build().ok()?, text.len(), is_complete))
}
