//! A disk that does not take what was written: the record does not believe the next sync.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sandboxd_audit::{Entry, Options, Record};

use crate::{check, key};

const MIB: u64 = 1024 * 1024;

/// A file system on a loop device. Its file is sparse, on a file system that can be filled: then blocks that were not written
/// before fail, as those of a broken disk do.
struct FailingDisk {
    dir: tempfile::TempDir,
}

impl FailingDisk {
    /// `None` if this user may not mount one.
    fn mount() -> Option<Self> {
        let disk = Self { dir: tempfile::tempdir().unwrap() };
        let (below, image) = (disk.dir.path().join("below"), disk.image());
        for dir in [&below, &disk.path()] {
            fs::create_dir(dir).unwrap();
        }
        if !run("mount", &["-t", "tmpfs", "-o", "size=8m", "none", text(&below)]) {
            return None;
        }
        File::create(&image).unwrap().set_len(32 * MIB).unwrap();
        // Without a journal, whose blocks would fail too.
        let made = run("mkfs.ext4", &["-q", "-F", "-O", "^has_journal", text(&image)]);
        (made && disk.mount_image()).then_some(disk)
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("below/image")
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("disk")
    }

    fn mount_image(&self) -> bool {
        run("mount", &["-o", "loop", text(&self.image()), text(&self.path())])
    }

    fn unmount(&self) {
        run("umount", &[text(&self.path())]);
    }

    /// Lets new blocks fail, until the file is removed.
    fn fail(&self) -> PathBuf {
        let ballast = self.dir.path().join("below/ballast");
        let full = fs::write(&ballast, vec![1; 16 * MIB as usize]);
        assert!(full.is_err(), "the file system below is not full");
        ballast
    }
}

impl Drop for FailingDisk {
    fn drop(&mut self) {
        self.unmount();
        run("umount", &[text(&self.dir.path().join("below"))]);
    }
}

fn run(program: &str, args: &[&str]) -> bool {
    let status = Command::new(program).args(args).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn write(record: &Record, acts: u64) {
    for act in 0..acts {
        let text = "x".repeat(1_000);
        record.append(&Entry::new("test.act").with("act", act).with("text", text)).unwrap();
    }
}

#[test]
fn a_sync_after_a_failed_one_is_not_believed() {
    let Some(disk) = FailingDisk::mount() else { return };
    let dir = disk.path().join("record");
    let options = Options { max_file_bytes: 200_000, kept_files: 0, reserve_bytes: 0 };
    let record = Record::open(&dir, key(), options, None).unwrap();
    write(&record, 10);
    record.sync().unwrap();
    let ballast = disk.fail();
    // Also into a second file.
    write(&record, 250);
    for _ in 0..3 {
        record.sync().unwrap_err();
        let refused = record.append(&Entry::new("test.next")).unwrap_err();
        assert!(!refused.is_full() && refused.to_string().contains("not on the disk"), "{refused}");
    }
    fs::remove_file(ballast).unwrap();
    let head = record.sync().unwrap();
    record.append(&Entry::new("test.next")).unwrap();
    drop(record);
    // Nothing of it is only in the page cache, and no block counts as never written.
    disk.unmount();
    assert!(disk.mount_image());
    let report = check(&dir, Some(head));
    assert!(report.is_intact(), "{report:?}");
    assert_eq!((report.head.seq, report.lines), (head.seq + 1, head.seq + 1));
}
