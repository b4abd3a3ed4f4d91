//! Which files of the store name a database.

use std::fs;
use std::path::{Path, PathBuf};

/// The code that applies to every database: all of the crate but `sqlite`, and the root, which chooses the backend.
fn neutral_files(dir: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let neutral = paths.filter(|path| !path.ends_with("src/sqlite") && !path.ends_with("src/lib.rs"));
    neutral.flat_map(|path| if path.is_dir() { neutral_files(&path) } else { vec![path] }).collect()
}

#[test]
fn only_the_modules_of_a_backend_name_its_database() {
    let files = neutral_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(files.len() > 10, "{files:?}");
    for file in files {
        for (number, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
            let (code, _) = line.split_once("//").unwrap_or((line, ""));
            assert!(
                !code.to_lowercase().contains("sqlite"),
                "{}:{}: names SQLite; move it to `sqlite`",
                file.display(),
                number + 1
            );
        }
    }
}
