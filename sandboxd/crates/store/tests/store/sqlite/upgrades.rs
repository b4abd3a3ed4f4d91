//! Databases of earlier versions.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sandboxd_model::Owner;
use sandboxd_store::Store;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tempfile::TempDir;

use super::fault_injection::{connect, execute};
use crate::contract::records::{command, sandbox, sandbox_id};

/// A database with three sandboxes, their commands, a link and a snapshot, as the version before the owners wrote it.
const SCHEMA_17: &str = include_str!("schema_17.sql");

/// The copy that is made of it.
const COPY: &str = "sandboxd.schema-17.db";

async fn before_owners() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new().filename(dir.path().join("sandboxd.db"));
    // The dump has the tables in the order of their names.
    let mut conn = options.create_if_missing(true).foreign_keys(false).connect().await.unwrap();
    execute(&mut conn, SCHEMA_17).await;
    dir
}

async fn open_file(dir: &Path, name: &str) -> SqliteConnection {
    SqliteConnectOptions::new().filename(dir.join(name)).connect().await.unwrap()
}

async fn number(conn: &mut SqliteConnection, query: &'static str) -> i64 {
    sqlx::query_scalar(query).fetch_one(conn).await.unwrap()
}

#[tokio::test]
async fn everything_from_before_the_owners_belongs_to_the_default_project() {
    let dir = before_owners().await;
    let store = Store::open(dir.path()).await.unwrap();
    let sandboxes = store.sandboxes().await.unwrap();
    assert_eq!(sandboxes.iter().map(|found| found.id.clone()).collect::<Vec<_>>(), [1, 2, 3].map(sandbox_id));
    for found in &sandboxes {
        assert_eq!(found.spec.owner, Owner::default());
        assert_eq!(found.spec.env["TOKEN"], "secret-value");
        let commands = store.commands(&found.id, 10).await.unwrap();
        let ids: Vec<_> = commands.iter().map(|found| found.id.clone()).collect();
        assert_eq!(ids, [3, 2, 1].map(|number| command(&found.id, number).id));
        assert!(commands[0].ended.is_none() && commands[1].ended.is_some());
    }
    assert_eq!(store.links().await.unwrap().len(), 1);
    assert_eq!(store.all_snapshots().await.unwrap()[0].owner, Owner::default());

    let mut same_key = sandbox(9);
    same_key.spec.session_key = sandbox(1).spec.session_key;
    store.begin(&same_key).await.unwrap_err();
    same_key.spec.owner.project = "lab".parse().unwrap();
    store.begin(&same_key).await.unwrap();
    // The commands still belong to their sandboxes.
    store.remove(&sandbox_id(1)).await.unwrap();
    assert_eq!(number(&mut connect(dir.path()).await, "SELECT count(*) FROM commands").await, 6);
}

#[tokio::test]
async fn a_database_is_copied_before_its_schema_changes() {
    let dir = before_owners().await;
    // Of an upgrade that was cut off.
    std::fs::write(dir.path().join("sandboxd.schema-17.new"), "half a copy").unwrap();
    std::fs::write(dir.path().join(COPY), "an old copy").unwrap();
    Store::open(dir.path()).await.unwrap().close().await;
    let mode = std::fs::metadata(dir.path().join(COPY)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(!dir.path().join("sandboxd.schema-17.new").exists());
    let mut copy = open_file(dir.path(), COPY).await;
    assert_eq!(number(&mut copy, "SELECT max(version) FROM _sqlx_migrations").await, 17);
    assert_eq!(number(&mut copy, "SELECT count(*) FROM commands").await, 9);

    // Only then, and not at each start.
    std::fs::remove_file(dir.path().join(COPY)).unwrap();
    Store::open(dir.path()).await.unwrap().close().await;
    assert!(!dir.path().join(COPY).exists());
}

#[tokio::test]
async fn a_database_that_cannot_be_copied_is_not_changed() {
    let dir = before_owners().await;
    let in_the_way = dir.path().join("sandboxd.schema-17.new");
    std::fs::create_dir(&in_the_way).unwrap();
    let error = Store::open(dir.path()).await.unwrap_err();
    assert!(error.to_string().contains("sandboxd.schema-17.new"), "{error}");
    let mut conn = connect(dir.path()).await;
    assert_eq!(number(&mut conn, "SELECT max(version) FROM _sqlx_migrations").await, 17);
    drop(conn);
    std::fs::remove_dir(&in_the_way).unwrap();
    assert_eq!(Store::open(dir.path()).await.unwrap().sandboxes().await.unwrap().len(), 3);
}
