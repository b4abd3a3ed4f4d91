//! A record continues after a daemon that was killed, at whatever byte.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use sandboxd_audit::verify::FaultKind;
use sandboxd_audit::{Entry, Record};

use crate::{SMALL, check, files, key, kinds, open, write};

fn append(path: &Path, bytes: &[u8]) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn a_kill_at_any_byte_of_a_line_leaves_no_gap() {
    let dir = tempfile::tempdir().unwrap();
    let stored = write(dir.path(), SMALL, 2);
    let file = files(dir.path())[0].clone();
    let before = fs::read(&file).unwrap();
    let head = {
        let record = open(dir.path(), SMALL, Some(stored));
        record.append(&Entry::new("test.act")).unwrap();
        record.sync().unwrap()
    };
    let after = fs::read(&file).unwrap();
    for end in before.len()..=after.len() {
        fs::write(&file, &after[..end]).unwrap();
        let torn = end > before.len() && end < after.len();
        assert_eq!(check(dir.path(), Some(stored)).unfinished_bytes > 0, torn);
        let record = open(dir.path(), SMALL, Some(stored));
        let seq = record.append(&Entry::new("test.next")).unwrap();
        assert_eq!(seq, head.seq + u64::from(torn) + u64::from(end == after.len()), "{end}");
        drop(record);
        let report = check(dir.path(), Some(stored));
        assert!(report.is_intact() && report.unfinished_bytes == 0, "{end}: {report:?}");
        assert_eq!(report.torn, u64::from(torn), "{end}");
    }
}

#[test]
fn a_kill_before_the_first_line_of_a_file_leaves_no_gap() {
    let first = fs::read(&{
        let dir = tempfile::tempdir().unwrap().keep();
        write(&dir, SMALL, 1);
        files(&dir)[0].clone()
    })
    .unwrap();
    let first_line = first.split(|byte| *byte == b'\n').next().unwrap().len();
    for end in 0..=first_line {
        let dir = tempfile::tempdir().unwrap();
        let stored = write(dir.path(), SMALL, 2);
        fs::write(dir.path().join("audit-00000002.ndjson"), &first[..end]).unwrap();
        let record = open(dir.path(), SMALL, Some(stored));
        record.append(&Entry::new("test.next")).unwrap();
        drop(record);
        let report = check(dir.path(), Some(stored));
        assert!(report.is_intact() && report.files == 2, "{end}: {report:?}");
    }
}

#[test]
fn a_start_says_that_lines_are_missing_and_uses_no_number_twice() {
    let dir = tempfile::tempdir().unwrap();
    let stored = write(dir.path(), SMALL, 4);
    let file = files(dir.path())[0].clone();
    let text = fs::read_to_string(&file).unwrap();
    let cut = text.lines().take(3).map(|line| format!("{line}\n")).collect::<String>();
    fs::write(&file, cut).unwrap();
    let record = open(dir.path(), SMALL, Some(stored));
    assert_eq!(record.append(&Entry::new("test.next")).unwrap(), stored.seq + 2);
    let head = record.sync().unwrap();
    drop(record);
    // The head that the daemon stores from now on does not hide it.
    let faults = kinds(&check(dir.path(), Some(head)));
    assert_eq!(faults, [FaultKind::OutOfOrder { expected: 4, found: 6 }, FaultKind::FoundAtStart]);
}

#[test]
fn a_damaged_end_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let stored = write(dir.path(), SMALL, 4);
    let file = files(dir.path())[0].clone();
    append(&file, b"not a line\n");
    let before = fs::read(&file).unwrap();
    let record = Record::open(dir.path(), key(), SMALL, Some(stored)).unwrap();
    record.append(&Entry::new("test.next")).unwrap();
    drop(record);
    assert_eq!(fs::read(&file).unwrap(), before);
    let faults = kinds(&check(dir.path(), Some(stored)));
    assert_eq!(faults, [FaultKind::NotALine, FaultKind::FoundAtStart]);
}

#[test]
fn a_file_without_any_line_end_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let stored = write(dir.path(), SMALL, 4);
    let file = files(dir.path())[0].clone();
    fs::write(&file, vec![0; 300_000]).unwrap();
    drop(open(dir.path(), SMALL, Some(stored)));
    assert_eq!(fs::metadata(&file).unwrap().len(), 300_000);
    assert!(!check(dir.path(), Some(stored)).is_intact());
}
