//! Every change of a record is found.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use sandboxd_audit::Head;
use sandboxd_audit::verify::FaultKind;

use crate::{SMALL, check, files, kinds, write};

/// A change that a user with access to the files can make.
#[derive(Debug, Clone)]
enum Change {
    /// Changes a byte.
    Byte(prop::sample::Index, u8),
    RemoveLine(prop::sample::Index),
    RepeatLine(prop::sample::Index),
    SwapLines(prop::sample::Index),
    /// Adds a line in the form of one.
    Forge(prop::sample::Index),
    RemoveFile(prop::sample::Index),
    RenameFile(prop::sample::Index),
    /// Removes the end of the last file.
    Cut(prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        (index(), 1_u8..).prop_map(|(at, by)| Change::Byte(at, by)),
        index().prop_map(Change::RemoveLine),
        index().prop_map(Change::RepeatLine),
        index().prop_map(Change::SwapLines),
        index().prop_map(Change::Forge),
        index().prop_map(Change::RemoveFile),
        index().prop_map(Change::RenameFile),
        index().prop_map(Change::Cut),
    ]
}

impl Change {
    fn apply(&self, dir: &Path) {
        let files = files(dir);
        let all: Vec<u8> = files.iter().flat_map(|file| fs::read(file).unwrap()).collect();
        let lines = all.iter().filter(|byte| **byte == b'\n').count();
        match self {
            Self::Byte(at, by) => {
                let mut at = at.index(all.len());
                for file in &files {
                    let mut bytes = fs::read(file).unwrap();
                    if at < bytes.len() {
                        bytes[at] = bytes[at].wrapping_add(*by);
                        return fs::write(file, bytes).unwrap();
                    }
                    at -= bytes.len();
                }
            }
            Self::RemoveLine(at) => change_lines(dir, at.index(lines), |lines, at| drop(lines.remove(at))),
            Self::RepeatLine(at) => {
                change_lines(dir, at.index(lines), |lines, at| lines.insert(at, lines[at].clone()));
            }
            Self::SwapLines(at) => change_lines(dir, at.index(lines), |lines, at| {
                let other = if at + 1 < lines.len() { at + 1 } else { at - 1 };
                lines.swap(at, other);
            }),
            Self::Forge(at) => change_lines(dir, at.index(lines), |lines, at| {
                let line = lines[at].replace("test.act", "project.create");
                lines.insert(at + 1, line);
            }),
            Self::RemoveFile(at) => fs::remove_file(at.get(&files)).unwrap(),
            Self::RenameFile(at) => {
                let file = at.get(&files);
                fs::rename(file, file.with_file_name("audit-00000099.ndjson")).unwrap();
            }
            Self::Cut(at) => {
                let last = files.last().unwrap();
                let bytes = fs::read(last).unwrap();
                fs::write(last, &bytes[..at.index(bytes.len())]).unwrap();
            }
        }
    }
}

/// Changes the lines of the file that has line number `at` of all.
fn change_lines(dir: &Path, mut at: usize, change: impl Fn(&mut Vec<String>, usize)) {
    for file in files(dir) {
        let text = fs::read_to_string(&file).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        if at < lines.len() {
            change(&mut lines, at);
            return fs::write(&file, lines.iter().map(|line| format!("{line}\n")).collect::<String>())
                .unwrap();
        }
        at -= lines.len();
    }
}

fn snapshot(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let name = |file: &Path| file.file_name().unwrap().to_str().unwrap().to_owned();
    files(dir).iter().map(|file| (name(file), fs::read(file).unwrap())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_changed_record_is_not_intact(change in change()) {
        let dir = tempfile::tempdir().unwrap();
        let head = write(dir.path(), SMALL, 30);
        let before = snapshot(dir.path());
        change.apply(dir.path());
        prop_assume!(snapshot(dir.path()) != before);
        let report = check(dir.path(), Some(head));
        prop_assert!(!report.is_intact(), "{change:?}: {report:?}");
    }
}

fn line_of(
    dir: &Path,
    at: usize,
    change: impl Fn(&mut Vec<String>, usize),
    head: Head,
) -> Vec<(u64, FaultKind)> {
    change_lines(dir, at, change);
    check(dir, Some(head)).faults.iter().map(|fault| (fault.line, fault.kind)).collect()
}

#[test]
fn a_fault_names_the_line() {
    let dir = tempfile::tempdir().unwrap();
    let head = write(dir.path(), SMALL, 4);
    let name = files(dir.path())[0].file_name().unwrap().to_owned();
    let found =
        line_of(dir.path(), 2, |lines, at| lines[at] = lines[at].replace("test.act", "test.cat"), head);
    assert_eq!(found, [(3, FaultKind::Changed)]);
    assert_eq!(check(dir.path(), Some(head)).faults[0].file.as_str(), name);
    // Without the changed line, the one after it does not follow the one before.
    let found = line_of(dir.path(), 2, |lines, at| drop(lines.remove(at)), head);
    assert_eq!(found, [(3, FaultKind::OutOfOrder { expected: 3, found: 4 }), (3, FaultKind::Changed)]);
}

#[test]
fn only_the_stored_head_shows_that_the_last_lines_are_missing() {
    let dir = tempfile::tempdir().unwrap();
    let head = write(dir.path(), SMALL, 4);
    change_lines(dir.path(), 4, |lines, at| lines.truncate(at));
    assert!(check(dir.path(), None).is_intact());
    assert_eq!(kinds(&check(dir.path(), Some(head))), [FaultKind::EndMissing { stored: 5 }]);
    for file in files(dir.path()) {
        fs::remove_file(file).unwrap();
    }
    assert_eq!(kinds(&check(dir.path(), Some(head))), [FaultKind::EndMissing { stored: 5 }]);
}

#[test]
fn a_second_record_of_the_same_key_is_not_the_stored_one() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let head = write(dir.path(), SMALL, 4);
    write(other.path(), SMALL, 8);
    assert!(kinds(&check(other.path(), Some(head))).contains(&FaultKind::NotAsStored));
}
