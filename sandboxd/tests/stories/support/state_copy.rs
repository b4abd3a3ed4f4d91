//! Copies of a state dir, as a backup makes them.

use std::path::Path;

/// Copies a state dir that may be in use.
pub(crate) fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copy = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_dir(&path, &copy);
        } else if let Err(error) = std::fs::copy(&path, copy) {
            // SQLite removes the log of a database that is not in use.
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{}", path.display());
        }
    }
}
