//! Disks and databases that fail, before the start and while the store is open.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use sandboxd_model::{CommandRecord, Stage, limits};
use sandboxd_store::{ErrorKind, Store};

use super::fault_injection::{Immutable, SmallDisk, connect, execute};
use super::new_store;
use crate::contract::outages::TOLERANCE;
use crate::contract::records::{command, ended, sandbox, sandbox_id};

#[tokio::test]
async fn a_database_of_a_newer_version_is_not_changed() {
    let (dir, store) = new_store().await;
    store.close().await;
    let mut conn = connect(dir.path()).await;
    let later = "INSERT INTO _sqlx_migrations VALUES (4711, 'later', CURRENT_TIMESTAMP, 1, x'00', 0)";
    execute(&mut conn, later).await;
    let error = Store::open(dir.path()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Newer, "{error:?}");
    let message = error.to_string();
    let problem = "has schema 4711; this sandboxd supports schemas up to ";
    let (_, known) = message.split_once(problem).unwrap_or_else(|| panic!("{message}"));
    assert!((1..4711).contains(&known.parse().unwrap()), "{message}");
    assert!(error.advice().unwrap().contains("move the database away"));
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_rejected_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(
        dir.path().join("sandboxd.db"),
        "This is not a database, and long enough to be one. ".repeat(400),
    )
    .unwrap();
    let error = Store::open(dir.path()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    assert!(error.advice().unwrap().contains("restored from the engine's labels"));
    assert!(!error.is_unavailable());
}

#[tokio::test]
async fn corrupt_pages_after_a_valid_header_are_found_at_the_start() {
    for from in [100, 4096] {
        let (dir, store) = new_store().await;
        for number in 0..50 {
            store.begin(&sandbox(number)).await.unwrap();
        }
        store.close().await;
        garble(&dir.path().join("sandboxd.db"), from);
        let error = Store::open(dir.path()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "from {from}: {error:?}");
        assert!(error.advice().is_some(), "from {from}: {error:?}");
    }
}

/// Overwrites everything from the offset `from`, and returns the previous contents of the file.
fn garble(path: &Path, from: u64) -> Vec<u8> {
    let before = fs::read(path).unwrap();
    let garbage = vec![0xa5; before.len() - from as usize];
    fs::OpenOptions::new().write(true).open(path).unwrap().write_all_at(&garbage, from).unwrap();
    before
}

#[tokio::test]
async fn corruption_at_run_time_is_reported_and_ends_with_its_cause() {
    let (dir, store) = new_store().await;
    for number in 0..50 {
        store.begin(&sandbox(number)).await.unwrap();
    }
    store.close().await;
    let store = Store::open(dir.path()).await.unwrap();
    let path = dir.path().join("sandboxd.db");
    let before = garble(&path, 4096);
    let error = store.sandboxes().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::BadRow), "{error:?}");
    fs::OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&before, 0).unwrap();
    assert_eq!(store.sandboxes().await.unwrap().len(), 50);
    store.begin(&sandbox(51)).await.unwrap();
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_named() {
    let (dir, store) = new_store().await;
    store.begin(&sandbox(1)).await.unwrap();
    execute(&mut connect(dir.path()).await, "UPDATE sandboxes SET resources = 'vcpus=900'").await;
    let error = store.sandboxes().await.unwrap_err();
    assert!(error.kind() == ErrorKind::BadRow && error.advice().is_some(), "{error:?}");
    let message = error.to_string();
    assert!(message.contains(sandbox_id(1).as_str()) && message.contains("`resources`"), "{message}");
}

#[tokio::test]
async fn a_read_only_database_fails_in_time_and_works_again() {
    let (dir, store) = new_store().await;
    store.begin(&sandbox(1)).await.unwrap();
    let immutable = Immutable::new(dir.path(), &["sandboxd.db", "sandboxd.db-wal"]);
    for number in 2..5 {
        let begun = Instant::now();
        let error = store.begin(&sandbox(number)).await.unwrap_err();
        assert!(error.is_unavailable() && error.advice().is_some(), "{error:?}");
        assert!(begun.elapsed() < limits::STORE_BUSY + TOLERANCE, "{:?}", begun.elapsed());
    }
    assert!(store.check().await.unwrap_err().is_unavailable());
    assert_eq!(store.sandboxes().await.unwrap(), [sandbox(1)]);
    drop(immutable);
    store.check().await.unwrap();
    store.begin(&sandbox(2)).await.unwrap();
    store.close().await;

    let _immutable = Immutable::new(dir.path(), &["sandboxd.db"]);
    let error = Store::open(dir.path()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error:?}");
}

#[tokio::test]
async fn a_file_that_was_moved_away_is_reported() {
    let (dir, store) = new_store().await;
    store.check().await.unwrap();
    fs::rename(dir.path().join("sandboxd.db"), dir.path().join("away")).unwrap();
    let error = store.check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error:?}");
    assert!(error.to_string().contains("was moved away or deleted"), "{error}");
    fs::rename(dir.path().join("away"), dir.path().join("sandboxd.db")).unwrap();
    store.check().await.unwrap();
}

#[tokio::test]
async fn a_closed_database_is_not_unavailable_even_if_its_file_is_gone() {
    let (dir, store) = new_store().await;
    store.close().await;
    fs::rename(dir.path().join("sandboxd.db"), dir.path().join("away")).unwrap();
    let error = store.check().await.unwrap_err();
    assert!(error.kind() == ErrorKind::Refused && !error.is_unavailable(), "{error:?}");
}

/// Sandboxes on the small disk, the second of them with a long history.
const ON_DISK: u32 = 300;

async fn store_on(disk: &SmallDisk) -> Store {
    let store = Store::open(disk.path()).await.unwrap();
    for number in 0..ON_DISK {
        store.begin(&sandbox(number)).await.unwrap();
    }
    for number in 0..1000 {
        let argv = vec!["x".repeat(1000)];
        let ended = Some(ended(0));
        store.history().started(CommandRecord { argv, ended, ..command(&sandbox_id(1), number) });
    }
    assert!(store.history().flush().await);
    store
}

#[tokio::test]
async fn on_a_full_disk_sandboxes_can_be_removed_but_not_created() {
    let disk = SmallDisk::new("16m");
    let store = store_on(&disk).await;
    let ballast = disk.path().join("sandboxd.ballast");
    assert!(ballast.exists());
    // An empty log must grow for every write.
    execute(&mut connect(disk.path()).await, "PRAGMA wal_checkpoint(TRUNCATE)").await;
    let filler = disk.fill();

    let error = store.begin(&sandbox(ON_DISK)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Full && error.is_unavailable(), "{error:?}");
    assert_eq!(store.check().await.unwrap_err().kind(), ErrorKind::Full);
    assert!(ballast.exists());
    for number in 0..ON_DISK {
        store.set_stage(&sandbox_id(number), Stage::Deleting).await.unwrap();
        store.remove(&sandbox_id(number)).await.unwrap();
    }
    assert_eq!(store.sandboxes().await.unwrap(), []);
    store.maintain().await;
    assert!(!ballast.exists());

    fs::remove_file(filler).unwrap();
    store.maintain().await;
    assert!(ballast.exists());
    store.begin(&sandbox(ON_DISK)).await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn a_store_opens_on_a_full_disk() {
    let disk = SmallDisk::new("16m");
    store_on(&disk).await.close().await;
    let _filler = disk.fill();
    let store = Store::open(disk.path()).await.unwrap();
    assert!(!disk.path().join("sandboxd.ballast").exists());
    assert_eq!(store.sandboxes().await.unwrap().len(), ON_DISK as usize);
    store.remove(&sandbox_id(1)).await.unwrap();
    assert_eq!(store.sandboxes().await.unwrap().len(), ON_DISK as usize - 1);
    store.close().await;
}

/// The variable that tells the child of the next test its directory.
const CHILD_DIR: &str = "SANDBOXD_TEST_STORE_DIR";

#[tokio::test]
async fn acknowledged_writes_survive_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["sqlite::faults::child_that_is_killed", "--exact", "--ignored", "--nocapture"])
        .env(CHILD_DIR, dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut written = 0;
    for line in lines.map_while(Result::ok) {
        if let Some(number) = line.strip_prefix("written ") {
            written = number.parse().unwrap();
        }
        if written == 200 {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(written >= 200, "{written}");
    let store = Store::open(dir.path()).await.unwrap();
    let found = store.sandboxes().await.unwrap();
    for number in 0..=written {
        let id = sandbox_id(number);
        let record = found.iter().find(|record| record.id == id).expect("acknowledged");
        assert_ne!(record.stage, Stage::Creating, "{number}");
    }
}

#[tokio::test]
#[ignore = "run by the test above"]
async fn child_that_is_killed() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else { return };
    let store = Store::open(Path::new(&dir)).await.unwrap();
    for number in 0..1900 {
        let record = sandbox(number);
        store.begin(&record).await.unwrap();
        store.set_stage(&record.id, Stage::Running).await.unwrap();
        let mut out = std::io::stdout();
        writeln!(out, "written {number}").unwrap();
        out.flush().unwrap();
    }
}
