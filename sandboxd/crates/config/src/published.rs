//! Tests that no setting disappears without a notice.
//!
//! A setting that is no longer read has no effect, and its operator gets no notice. A removed one is therefore in
//! [`REMOVED_SETTINGS`](super::REMOVED_SETTINGS), whose message says what to do instead. `settings.txt` lists all
//! settings that were published, removed ones too. New ones are added to the file with
//! `PUBLISH=1 cargo test -p sandboxd-config published`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Config, REMOVED_SETTINGS};

/// Environment variables that are read and are not settings: they decide the default paths.
const OTHER_VARIABLES: [&str; 1] = ["HOME"];

/// The names of all settings that are read, with those that were removed.
pub(super) fn names_read() -> BTreeSet<String> {
    let requested = RefCell::new(BTreeSet::new());
    let find = |name: &str| {
        requested.borrow_mut().insert(name.to_owned());
        None
    };
    drop(Config::load(find, Vec::new()));
    let mut read = requested.into_inner();
    for name in OTHER_VARIABLES {
        assert!(read.remove(name), "{name} is no longer read");
    }
    read
}

fn list() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/settings.txt")
}

/// Reads the published names. A missing file is an error, because an empty list would permit every change.
fn read(file: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(file)
        .unwrap_or_else(|error| panic!("{}: {error}; restore the published list", file.display()));
    text.lines().map(str::to_owned).collect()
}

/// The published names that are not read any more.
fn gone<'a>(published: &'a BTreeSet<String>, now: &'a BTreeSet<String>) -> Vec<&'a String> {
    published.difference(now).collect()
}

#[test]
fn no_published_setting_disappears() {
    let (published, now) = (read(&list()), names_read());
    let gone = gone(&published, &now);
    assert!(gone.is_empty(), "these settings need an entry in REMOVED_SETTINGS:\n{gone:#?}");
    if std::env::var_os("PUBLISH").is_some() {
        let text: String = now.iter().map(|name| format!("{name}\n")).collect();
        std::fs::write(list(), text).unwrap();
        return;
    }
    let new: Vec<_> = now.difference(&published).collect();
    assert!(new.is_empty(), "not in settings.txt yet (PUBLISH=1 adds them):\n{new:#?}");
}

#[test]
fn a_setting_that_disappears_is_found() {
    let published = read(&list());
    let mut now = names_read();
    assert!(now.remove("SANDBOXD_RUNTIME"));
    assert_eq!(gone(&published, &now), ["SANDBOXD_RUNTIME"]);
    let (removed, _) = REMOVED_SETTINGS[0];
    assert!(now.remove(removed));
    assert_eq!(gone(&published, &now), [removed, "SANDBOXD_RUNTIME"]);
}

#[test]
#[should_panic(expected = "no-such-list.txt")]
fn a_missing_list_is_an_error() {
    read(Path::new("no-such-list.txt"));
}
