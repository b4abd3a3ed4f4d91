//! Tests that a change that fails after any step leaves the original state.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use agent_protocol::fault::Kind;
use agent_protocol::v1;
use bytes::Bytes;

use super::batch::Batch;
use super::journal::RECOVERED;
use super::seam::{self, Step};
use super::tests::{Fixture, fixture};

const STAGING: &str = ".sandbox-staging";

fn part(path: &str, durable: bool) -> v1::FilePart {
    let path = Bytes::copy_from_slice(path.as_bytes());
    let head = v1::FileHead { path, durable, ..v1::FileHead::default() };
    v1::FilePart { head: Some(head), data: Bytes::from_static(b"after"), end: false }
}

fn write(fixture: &Fixture, paths: &[&str], durable: bool) -> Result<(), Kind> {
    let mut batch = Batch::new(Arc::clone(&fixture.workspace));
    paths.iter().try_for_each(|path| batch.add(part(path, durable)))?;
    batch.commit(&fixture.workspace.change_now()).map(drop)
}

fn unpack(fixture: &Fixture, paths: &[&str]) -> Result<(), Kind> {
    let mut builder = tar::Builder::new(Vec::new());
    for path in paths {
        let mut header = tar::Header::new_gnu();
        header.set_size(5);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, &b"after"[..]).unwrap();
    }
    let archive = builder.into_inner().unwrap();
    fixture.workspace.unpack(&fixture.path(""), &archive[..]).map(drop)
}

/// Returns every path with its content, including the staging directory.
fn content(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                found.extend((name != STAGING).then(|| (name, Vec::new())));
                waiting.push(path);
            } else {
                found.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn with_files() -> Fixture {
    let fixture = fixture();
    fs::create_dir(fixture.dir.path().join("dir")).unwrap();
    for file in ["one", "dir/two"] {
        fs::write(fixture.dir.path().join(file), b"before").unwrap();
    }
    fixture
}

/// Makes the change fail after its first step, then after its second and so on, until it succeeds.
fn check_every_step(change: impl Fn(&Fixture) -> Result<(), Kind>) {
    for step in 0.. {
        let fixture = with_files();
        let before = content(fixture.dir.path());
        let mut left = step;
        let failing = seam::on(move |_| {
            left -= 1;
            if left == -1 { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
        });
        let changed = change(&fixture);
        drop(failing);
        if changed.is_ok() {
            assert!(step >= 2, "no step failed");
            assert_eq!(fs::read_dir(fixture.dir.path().join(STAGING)).unwrap().count(), 0);
            return;
        }
        assert!(matches!(changed, Err(Kind::FileFailed(_))), "{changed:?}");
        assert_eq!(content(fixture.dir.path()), before, "after step {step}");
    }
}

#[test]
fn a_change_that_fails_after_any_step_leaves_the_original_state() {
    check_every_step(|fixture| write(fixture, &["one"], true));
    check_every_step(|fixture| write(fixture, &["new/sub/file"], false));
    check_every_step(|fixture| write(fixture, &["one", "new/sub/file", "dir/two"], false));
    check_every_step(|fixture| write(fixture, &["one", "new/sub/file", "dir/two"], true));
    check_every_step(|fixture| unpack(fixture, &["dir/two", "new/sub/file", "one"]));
}

/// Runs `act`, as a command might, when the second file is at its destination, and then makes that step fail.
fn fail_beside(act: impl Fn() + 'static) -> impl Drop {
    let mut placed = 0;
    seam::on(move |step| {
        placed += u8::from(step == Step::Placed);
        if placed == 2 {
            act();
            placed += 1;
            return Err(io::ErrorKind::Other.into());
        }
        Ok(())
    })
}

fn recovered(root: &Path) -> Vec<(String, Vec<u8>)> {
    let found = content(&root.join(RECOVERED)).into_iter().filter(|(_, content)| !content.is_empty());
    found.map(|(name, content)| (name.rsplit('/').next().unwrap().to_owned(), content)).collect()
}

#[test]
fn files_that_cannot_be_put_back_are_kept_and_reported() {
    let fixture = with_files();
    let root = fixture.dir.path().to_owned();
    let failing = fail_beside(move || fs::rename(root.join("dir"), root.join("elsewhere")).unwrap());
    let changed = write(&fixture, &["one", "dir/two"], false);
    drop(failing);
    let Err(Kind::NotPutBack(fault)) = changed else { panic!("{changed:?}") };
    assert_eq!((&*fault.path, fault.files, &*fault.kept_in), ("dir/two", 1, RECOVERED));
    let root = fixture.dir.path();
    assert_eq!(fs::read(root.join("one")).unwrap(), b"before");
    assert_eq!(recovered(root), [("two".to_owned(), b"before".to_vec())]);
    assert_eq!(fs::read_dir(root.join(STAGING)).unwrap().count(), 0);
}

#[test]
fn files_that_a_command_wrote_meanwhile_are_kept() {
    let fixture = with_files();
    let root = fixture.dir.path().to_owned();
    let failing = fail_beside(move || {
        fs::write(root.join("one"), b"command's").unwrap();
        fs::write(root.join("new"), b"command's").unwrap();
    });
    let changed = write(&fixture, &["one", "new", "dir/two"], false);
    drop(failing);
    assert!(matches!(changed, Err(Kind::NotPutBack(_))), "{changed:?}");
    let root = fixture.dir.path();
    assert_eq!(fs::read(root.join("one")).unwrap(), b"command's");
    assert_eq!(fs::read(root.join("new")).unwrap(), b"command's");
    assert_eq!(recovered(root), [("one".to_owned(), b"before".to_vec())]);
}

#[test]
fn a_directory_that_a_command_has_used_is_not_removed() {
    let fixture = with_files();
    let root = fixture.dir.path().to_owned();
    let failing = fail_beside(move || {
        let changed_at = |path: &Path| changed_at_of(path);
        let placed_at = changed_at(&root.join("fresh"));
        // Waits for a tick of the file system's clock, so that the times differ.
        while changed_at(&root.join("fresh/command's")) <= placed_at {
            fs::write(root.join("fresh/command's"), b"command's").unwrap();
        }
    });
    let changed = unpack(&fixture, &["fresh/file", "one"]);
    drop(failing);
    assert!(changed.is_err());
    let kept = fs::read(fixture.dir.path().join("fresh/command's")).unwrap();
    assert_eq!(kept, b"command's");
    assert_eq!(fs::read(fixture.dir.path().join("one")).unwrap(), b"before");
}

fn changed_at_of(path: &Path) -> (i64, i64) {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).map_or((0, 0), |meta| (meta.ctime(), meta.ctime_nsec()))
}

#[test]
fn the_mode_of_the_staging_directory_is_restored() {
    let fixture = with_files();
    let root = fixture.dir.path().to_owned();
    let failing = fail_beside(move || {
        fs::set_permissions(root.join(STAGING), fs::Permissions::from_mode(0o000)).unwrap();
    });
    let changed = write(&fixture, &["one", "dir/two"], false);
    drop(failing);
    assert!(matches!(changed, Err(Kind::FileFailed(_))), "{changed:?}");
    assert_eq!(fs::read(fixture.dir.path().join("one")).unwrap(), b"before");
    assert_eq!(fs::read_dir(fixture.dir.path().join(STAGING)).unwrap().count(), 0);
}

#[test]
fn files_kept_by_an_earlier_agent_are_recovered() {
    let fixture = with_files();
    let staging = fixture.dir.path().join(STAGING);
    fs::create_dir(&staging).unwrap();
    fs::write(staging.join("kept-1"), b"before").unwrap();
    fs::write(staging.join("rubbish"), b"").unwrap();
    super::open(fixture.dir.path()).unwrap();
    assert_eq!(recovered(fixture.dir.path()), [("kept-1".to_owned(), b"before".to_vec())]);
    assert_eq!(fs::read_dir(staging).unwrap().count(), 0);
}
