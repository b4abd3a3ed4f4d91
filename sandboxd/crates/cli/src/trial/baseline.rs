//! A directory as it was when it was copied. What has changed since then is not overwritten.

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The entries of a directory, by their paths from it.
#[derive(Debug, Default)]
pub(super) struct Baseline {
    entries: HashMap<PathBuf, Stamp>,
    /// Directories that cannot be read.
    unreadable: Vec<PathBuf>,
}

/// What identifies the state of an entry. That of a directory does not include its entries.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    mode: u32,
    bytes: u64,
    modified: (i64, i64),
}

impl Baseline {
    /// Looks at everything in a directory, without following links.
    pub(super) fn of(dir: &Path) -> io::Result<Self> {
        let mut baseline = Self::default();
        let mut pending = vec![PathBuf::new()];
        while let Some(inside) = pending.pop() {
            let entries = match std::fs::read_dir(dir.join(&inside)) {
                Err(error) if inside.as_os_str().is_empty() => return Err(error),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    baseline.entries.remove(&inside);
                    baseline.unreadable.push(inside);
                    continue;
                }
                // It was removed meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let path = inside.join(entry?.file_name());
                let Some(stamp) = Stamp::of(&dir.join(&path))? else { continue };
                if stamp.is_dir() {
                    pending.push(path.clone());
                }
                baseline.entries.insert(path, stamp);
            }
        }
        Ok(baseline)
    }

    /// The paths of all entries, those of a directory after its own.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = self.entries.keys().cloned().collect();
        paths.sort();
        paths
    }

    /// Directories that cannot be read, and are not copied.
    pub(super) fn unreadable(&self) -> &[PathBuf] {
        &self.unreadable
    }

    /// Removes an entry that was not copied. It never counts as unchanged.
    pub(super) fn forget(&mut self, path: &Path) {
        self.entries.remove(path);
    }

    /// Whether an entry is as it was, or is absent as it was.
    pub(super) fn is_unchanged(&self, dir: &Path, path: &Path) -> io::Result<bool> {
        Ok(Stamp::of(&dir.join(path))?.as_ref() == self.entries.get(path))
    }
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Option<Self>> {
        let meta = match std::fs::symlink_metadata(path) {
            // In place of a directory above it there may be a file by now.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            meta => meta?,
        };
        let is_dir = meta.is_dir();
        Ok(Some(Self {
            mode: meta.mode(),
            bytes: if is_dir { 0 } else { meta.len() },
            modified: if is_dir { (0, 0) } else { (meta.mtime(), meta.mtime_nsec()) },
        }))
    }

    fn is_dir(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFDIR
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_entry_is_unchanged_until_it_is_written_or_removed() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path();
        fs::create_dir(dir.join("sub")).unwrap();
        for name in ["kept", "written", "removed", "sub/inside"] {
            fs::write(dir.join(name), "text").unwrap();
        }
        let baseline = Baseline::of(dir).unwrap();
        fs::write(dir.join("written"), "longer text").unwrap();
        fs::write(dir.join("sub/new"), "text").unwrap();
        fs::remove_file(dir.join("removed")).unwrap();
        let unchanged = |path: &str| baseline.is_unchanged(dir, Path::new(path)).unwrap();
        assert!(unchanged("kept") && unchanged("sub") && unchanged("sub/inside") && unchanged("absent"));
        assert!(!unchanged("written") && !unchanged("removed") && !unchanged("sub/new"));
        assert!(unchanged("kept/below"), "a file has no entries");
    }
}
