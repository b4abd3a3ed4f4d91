//! A database that fails, while a daemon runs and before it starts.

use std::path::Path;
use std::time::{Duration, Instant};

use sandbox_api::sandbox::{CreateSandbox, ListSandboxes, SandboxState};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::Error;
use sandboxd::model::limits;

use crate::support::engine_view::objects_of;
use crate::support::fault_injection::{Immutable, SmallDisk, connect, execute};
use crate::support::harness::{Daemon, Home, until};

/// Time that a response may take beyond the store's own wait.
const A_LITTLE: Duration = Duration::from_secs(5);

async fn create(daemon: &Daemon, key: &str) -> Result<SandboxId, Error> {
    let request = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
    Ok(daemon.client.create_or_reconnect(&request).await?.sandbox_id)
}

/// Requests that write nothing succeed. Requests that write are rejected in time and leave nothing behind.
async fn only_reading_works(daemon: &Daemon, used: &SandboxId, refusal: ErrorCode) {
    let before = objects_of(&daemon.home).await;
    let began = Instant::now();
    let error = create(daemon, "chat:new").await.unwrap_err();
    assert_eq!(error.code(), Some(refusal), "{error:?}");
    assert!(began.elapsed() < limits::STORE_BUSY + A_LITTLE, "{:?}", began.elapsed());
    assert_eq!(daemon.output(used, "echo on >> file; tail -n 1 file").await, "on\n");
    assert_eq!(daemon.client.get(used).await.unwrap().state, SandboxState::Running);
    // The failed sandbox stays listed until the store has removed it.
    for sandbox in daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes {
        assert!(sandbox.sandbox_id == *used || sandbox.state == SandboxState::Failed, "{sandbox:?}");
    }
    assert_eq!(objects_of(&daemon.home).await, before);
}

async fn everything_works(daemon: &Daemon, used: &SandboxId) {
    until("a sandbox can be created", || async { create(daemon, "chat:new").await.is_ok() }).await;
    daemon.client.park(used, false).await.unwrap();
    assert_eq!(daemon.output(used, "tail -n 1 file").await, "on\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_database_blocks_creates_and_no_command() {
    let daemon = Daemon::start().await;
    let used = daemon.sandbox("chat:1").await;
    let mut other = connect(&daemon.home.path().join("state")).await;
    execute(&mut other, "BEGIN EXCLUSIVE").await;
    only_reading_works(&daemon, &used, ErrorCode::Unavailable).await;
    execute(&mut other, "ROLLBACK").await;
    everything_works(&daemon, &used).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_database_blocks_creates_and_no_command() {
    let daemon = Daemon::start().await;
    let used = daemon.sandbox("chat:1").await;
    let immutable = Immutable::new(&daemon.home.path().join("state"), &["sandboxd.db", "sandboxd.db-wal"]);
    only_reading_works(&daemon, &used, ErrorCode::Unavailable).await;
    drop(immutable);
    everything_works(&daemon, &used).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_sandboxes_can_be_used_and_deleted_but_not_created() {
    let disk = SmallDisk::new("16m");
    let home = Home::new().set("SANDBOXD_STATE_DIR", &disk.path().to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    let used = daemon.sandbox("chat:1").await;
    let filler = disk.fill();
    only_reading_works(&daemon, &used, ErrorCode::InsufficientStorage).await;
    daemon.client.delete(&used).await.unwrap();
    until("nothing is left", || async { objects_of(&daemon.home).await.is_empty() }).await;

    // A daemon also starts on a full disk, so that sandboxes can be deleted.
    let daemon = Daemon::start_in(daemon.stop().await).await;
    assert_eq!(daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes, []);
    std::fs::remove_file(filler).unwrap();
    until("a sandbox can be created", || async { create(&daemon, "chat:2").await.is_ok() }).await;
    daemon.stop().await;
}

/// Standard error of a daemon that does not start.
async fn refusal(home: &Home) -> String {
    let output = home.program(&["serve"]).env("SANDBOXD_PORT", "0").output().await.unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corrupt_database_stops_the_start_and_can_be_moved_away() {
    let daemon = Daemon::start().await;
    let (runs, parked) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    daemon.output(&parked, "echo kept > file").await;
    daemon.client.park(&parked, false).await.unwrap();
    let home = daemon.stop().await;
    let state = home.path().join("state");
    let before = objects_of(&home).await;

    let later = "INSERT INTO _sqlx_migrations VALUES (4711, 'later', CURRENT_TIMESTAMP, 1, x'00', 0)";
    execute(&mut connect(&state).await, later).await;
    let said = refusal(&home).await;
    assert!(said.contains("schema 4711") && said.contains("move the database away"), "{said}");
    std::fs::write(state.join("sandboxd.db"), "no database ".repeat(2000)).unwrap();
    let said = refusal(&home).await;
    assert!(said.contains("sandboxd.db") && said.contains("restored from the engine's labels"), "{said}");
    assert_eq!(objects_of(&home).await, before, "a daemon that does not start changes nothing");

    move_away(&state);
    let daemon = Daemon::start_in(home).await;
    assert_eq!(daemon.client.get(&runs).await.unwrap().state, SandboxState::Running);
    assert_eq!(daemon.client.get(&parked).await.unwrap().state, SandboxState::Parked);
    assert_eq!(daemon.output(&runs, "echo on").await, "on\n");
    assert_eq!(daemon.output(&parked, "cat file").await, "kept\n");
    daemon.stop().await;
}

/// Moves the database and its log away, as the advice says.
fn move_away(state: &Path) {
    for name in ["sandboxd.db", "sandboxd.db-wal", "sandboxd.db-shm"] {
        let _ = std::fs::rename(state.join(name), state.join(format!("{name}.away")));
    }
}
