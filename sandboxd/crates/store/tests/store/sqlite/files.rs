//! The files of the database.

use std::os::unix::fs::PermissionsExt;

use super::new_store;
use crate::contract::records::sandbox;

#[tokio::test]
async fn only_the_owner_may_read_the_files() {
    let (dir, store) = new_store().await;
    store.begin(&sandbox(1)).await.unwrap();
    for name in ["sandboxd.db", "sandboxd.db-wal", "sandboxd.db-shm", "sandboxd.ballast"] {
        let mode = std::fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn closing_removes_the_write_ahead_log() {
    let (dir, store) = new_store().await;
    store.begin(&sandbox(1)).await.unwrap();
    assert!(dir.path().join("sandboxd.db-wal").exists());
    store.close().await;
    assert!(!dir.path().join("sandboxd.db-wal").exists());
}
