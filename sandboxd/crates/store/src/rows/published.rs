//! Names in the database only grow, because a later version reads the rows of earlier ones. `published.txt` lists the
//! names that were published. New ones are added to the file with
//! `PUBLISH=1 cargo test -p sandboxd-store --lib published`.

use std::collections::BTreeSet;
use std::path::Path;

use sandbox_api::port::LinkStyle;
use sandboxd_model::preview::{LinkEnd, style_name};
use sandboxd_model::{NetworkMode, OrphanKind, Runtime, SnapshotState, Stage, Transport};

use super::{commands, context_entries};

/// One line for each column and name: `sandboxes.stage running`.
fn names() -> BTreeSet<String> {
    let mut names = [commands::names(), context_entries::names()].concat();
    let mut add = |column: &str, values: &[&str]| {
        names.extend(values.iter().map(|value| format!("{column} {value}")));
    };
    add("sandboxes.stage", &Stage::ALL.map(Stage::as_str));
    add("sandboxes.transport", &Transport::ALL.map(Transport::as_str));
    add("sandboxes.runtime", &Runtime::ALL.map(Runtime::as_str));
    add("sandboxes.network", &NetworkMode::ALL.map(NetworkMode::as_str));
    add("snapshots.state", &SnapshotState::ALL.map(SnapshotState::as_str));
    add("links.style", &[LinkStyle::Host, LinkStyle::Port].map(style_name));
    add("links.ended", &LinkEnd::ALL.map(LinkEnd::as_str));
    add("orphans.kind", &OrphanKind::ALL.map(OrphanKind::as_str));
    names.into_iter().collect()
}

/// Reads the published lines. A missing file is an error, because an empty list would permit every change.
fn read(file: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(file)
        .unwrap_or_else(|error| panic!("{}: {error}; restore the published list", file.display()));
    text.lines().map(str::to_owned).collect()
}

#[test]
fn no_published_name_is_changed_or_removed() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("published.txt");
    let published = read(&file);
    let now = names();
    let gone: Vec<_> = published.difference(&now).collect();
    assert!(gone.is_empty(), "databases hold these names; add new ones beside them:\n{gone:#?}");
    if std::env::var_os("PUBLISH").is_some() {
        let text: String = now.iter().map(|name| format!("{name}\n")).collect();
        std::fs::write(&file, text).unwrap();
        return;
    }
    let new: Vec<_> = now.difference(&published).collect();
    assert!(new.is_empty(), "not in published.txt yet (PUBLISH=1 adds them):\n{new:#?}");
}

#[test]
#[should_panic(expected = "no-such-list.txt")]
fn a_missing_list_is_an_error() {
    read(Path::new("no-such-list.txt"));
}
