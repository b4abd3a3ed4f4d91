//! Tests of the audit record: its chain, what is found when it is changed, its recovery after a kill, and its pages.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod changes;
mod failed_sync;
mod full_disk;
mod pages;
mod recovery;

use std::fs;
use std::path::{Path, PathBuf};

use sandboxd_audit::verify::{Fault, FaultKind, Report, verify};
use sandboxd_audit::{Entry, Head, Key, Options, Record};

/// Small files, so that a few lines fill one.
const SMALL: Options = Options { max_file_bytes: 2_000, kept_files: 0, reserve_bytes: 0 };

fn key() -> Key {
    Key::new([7; 32])
}

fn open(dir: &Path, options: Options, stored: Option<Head>) -> Record {
    Record::open(dir, key(), options, stored).unwrap()
}

/// Writes a record with this many acts, and returns its head.
fn write(dir: &Path, options: Options, acts: u64) -> Head {
    let record = open(dir, options, None);
    for act in 0..acts {
        record.append(&Entry::new("test.act").with("act", act)).unwrap();
        // As the daemon does between acts.
        if act % 8 == 0 {
            record.sync().unwrap();
            record.remove_old().unwrap();
        }
    }
    record.remove_old().unwrap();
    record.sync().unwrap()
}

fn check(dir: &Path, stored: Option<Head>) -> Report {
    verify(dir, &key(), stored.as_slice()).unwrap()
}

fn kinds(report: &Report) -> Vec<FaultKind> {
    report.faults.iter().map(|Fault { kind, .. }| *kind).collect()
}

/// The files of a record, in order.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn an_untouched_record_is_intact() {
    let dir = tempfile::tempdir().unwrap();
    let head = write(dir.path(), SMALL, 50);
    let report = check(dir.path(), Some(head));
    assert!(report.is_intact(), "{report:?}");
    assert!(report.files > 3, "{report:?}");
    assert_eq!((report.lines, report.first_seq, report.head), (50 + report.files, 1, head));
}

#[test]
fn another_key_finds_every_line_changed() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), SMALL, 3);
    let report = verify(dir.path(), &Key::new([8; 32]), &[]).unwrap();
    assert_eq!(kinds(&report), [FaultKind::Changed; 4]);
}

#[test]
fn files_are_private_and_links_are_not_followed() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("record");
    write(&record, SMALL, 3);
    for (path, mode) in [(record.clone(), 0o700), (files(&record)[0].clone(), 0o600)] {
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode, "{}", path.display());
    }
    let link = dir.path().join("link");
    symlink(&record, &link).unwrap();
    assert!(Record::open(&link, key(), SMALL, None).is_err());
    let file = &files(&record)[0];
    fs::rename(file, dir.path().join("moved")).unwrap();
    symlink(dir.path().join("moved"), file).unwrap();
    assert!(Record::open(&record, key(), SMALL, None).is_err());
    assert!(verify(&record, &key(), &[]).is_err());
}

#[test]
fn a_directory_has_one_writer() {
    let dir = tempfile::tempdir().unwrap();
    let _first = open(dir.path(), SMALL, None);
    let second = Record::open(dir.path(), key(), SMALL, None).unwrap_err();
    assert!(second.to_string().contains("another daemon"), "{second}");
}

#[test]
fn old_files_are_removed_and_the_chain_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let head = write(dir.path(), Options { kept_files: 3, ..SMALL }, 80);
    assert_eq!(files(dir.path()).len(), 3);
    let report = check(dir.path(), Some(head));
    assert!(report.is_intact() && report.first_seq > 1, "{report:?}");
    fs::remove_file(&files(dir.path())[0]).unwrap();
    let report = check(dir.path(), Some(head));
    assert!(matches!(kinds(&report)[..], [FaultKind::FilesMissing { .. }]), "{report:?}");
}

#[test]
fn an_entry_that_is_too_long_loses_its_details() {
    let dir = tempfile::tempdir().unwrap();
    let record = open(dir.path(), SMALL, None);
    record.append(&Entry::new("test.act").with("text", "x".repeat(100_000))).unwrap();
    drop(record);
    let text = fs::read_to_string(&files(dir.path())[0]).unwrap();
    assert!(text.contains(r#""act":"test.act","details":{"tooLong":true}"#), "{text}");
    assert!(check(dir.path(), None).is_intact());
}

#[test]
fn many_threads_make_one_chain() {
    let dir = tempfile::tempdir().unwrap();
    let record = open(dir.path(), SMALL, None);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let record = &record;
            scope.spawn(move || {
                for act in 0..50 {
                    let seq = record.append(&Entry::new("test.act").with("act", [thread, act])).unwrap();
                    assert!(record.sync().unwrap().seq >= seq);
                }
            });
        }
    });
    let head = record.sync().unwrap();
    let report = check(dir.path(), Some(head));
    assert!(report.is_intact(), "{report:?}");
    assert_eq!(report.lines, 400 + report.files);
}
