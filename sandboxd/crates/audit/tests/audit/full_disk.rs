//! A full disk: what must be recorded fails, and the record continues without a gap when there is space again.

use std::fs;
use std::path::Path;
use std::process::Command;

use sandboxd_audit::{Entry, Options, Record};

use crate::{check, key};

/// A file system of 64 KiB that ends with this value.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// `None` if this user may not mount one.
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "none"]).arg(dir.path()).status();
        mounted.is_ok_and(|status| status.success()).then_some(Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

fn fill(record: &Record) -> u64 {
    for acts in 0..10_000 {
        if let Err(error) = record.append(&Entry::new("test.act").with("text", "x".repeat(700))) {
            assert!(error.is_full(), "{error}");
            return acts;
        }
    }
    panic!("the disk does not become full");
}

fn lines(path: &Path, act: &str) -> usize {
    let text = fs::read_to_string(path.join("audit-00000001.ndjson")).unwrap_or_default();
    text.lines().filter(|line| line.contains(act)).count()
}

#[test]
fn a_full_disk_leaves_no_gap_and_no_torn_line() {
    let Some(disk) = SmallDisk::mount() else { return };
    let dir = disk.0.path().join("record");
    fs::write(disk.0.path().join("ballast"), vec![1; 20_000]).unwrap();
    let options = Options { max_file_bytes: 1_000_000, kept_files: 0, reserve_bytes: 0 };
    let record = Record::open(&dir, key(), options, None).unwrap();
    let acts = fill(&record);
    assert!(acts > 10, "{acts}");
    // Nothing of the line that failed is left, and a second one fails too.
    assert!(record.append(&Entry::new("test.act").with("text", "x".repeat(700))).is_err());
    assert!(check(&dir, None).is_intact());
    let note = |number| record.note(Entry::new("test.note").with("number", number));
    // Short lines may fit into what is left of the last page.
    assert!((0..1_200).filter(|number| note(*number).is_err()).count() > 1_000);
    assert!(record.flush().is_err());
    fs::remove_file(disk.0.path().join("ballast")).unwrap();
    // They are more than the free space, so some of them wait again.
    let _ = record.append(&Entry::new("test.next"));
    let report = check(&dir, None);
    assert!(report.is_intact() && report.unfinished_bytes == 0, "{report:?}");
    assert!(lines(&dir, "test.note") > 10);
    drop(record);
    let record = Record::open(&dir, key(), options, None).unwrap();
    drop(record);
    assert!(check(&dir, None).is_intact());
}

#[test]
fn on_a_full_disk_acts_that_free_something_are_recorded() {
    let Some(disk) = SmallDisk::mount() else { return };
    let (dir, ballast) = (disk.0.path().join("record"), disk.0.path().join("ballast"));
    fs::write(&ballast, vec![1; 20_000]).unwrap();
    let options = Options { max_file_bytes: 1_000_000, kept_files: 0, reserve_bytes: 16_384 };
    let record = Record::open(&dir, key(), options, None).unwrap();
    fill(&record);
    let act = || Entry::new("test.act").with("text", "x".repeat(700));
    let frees = || Entry::new("test.delete").with("text", "x".repeat(700));
    for _ in 0..5 {
        record.append_freeing(&frees()).unwrap();
        // Nothing else gets the space that was released, and what waits does not take it.
        assert!(record.append(&act()).unwrap_err().is_full());
        let _ = record.note(Entry::new("test.note"));
    }
    assert!(!record.is_well());
    assert!(check(&dir, None).is_intact());
    fs::remove_file(&ballast).unwrap();
    record.append(&act()).unwrap();
    assert!(record.is_well());
    assert_eq!(fs::metadata(dir.join("reserve")).unwrap().len(), options.reserve_bytes);
    let kinds = ["test.delete", "test.note"].map(|act| lines(&dir, act));
    assert_eq!(kinds, [5, 5]);
    // Once more, because the reserve is whole again.
    fill(&record);
    record.append_freeing(&frees()).unwrap();
    drop(record);
    assert!(check(&dir, None).is_intact());
}

#[test]
fn the_reserve_is_bounded() {
    let Some(disk) = SmallDisk::mount() else { return };
    let options = Options { max_file_bytes: 1_000_000, kept_files: 0, reserve_bytes: 16_384 };
    let record = Record::open(&disk.0.path().join("record"), key(), options, None).unwrap();
    fill(&record);
    let frees = Entry::new("test.delete").with("text", "x".repeat(700));
    let recorded = (0..100).take_while(|_| record.append_freeing(&frees).is_ok()).count();
    assert!((15..25).contains(&recorded), "{recorded}");
}
