//! Very many files, and a very large sparse one.

use std::time::{Duration, Instant};

use sandbox_api::command::StartCommand;
use sandbox_api::sandbox::{CreateSandbox, Resources, WorkspaceSource};
use sandbox_api::snapshot::{MakeSnapshot, RestoreSnapshot};
use sandbox_api::{SandboxId, SnapshotId};

use super::bases::is_over_base;
use crate::support::harness::{Daemon, Home, outcome, script};

/// `SANDBOXD_TEST_FILES` sets another number. A million take minutes, and more time than nextest gives a test.
const FILES: &str = "50000";

const LIMIT: Duration = Duration::from_secs(20 * 60);

const DISK_MB: u64 = 16384;

/// A thousand files in each directory.
const MANY: &str = r#"
import os, sys
for number in range(int(sys.argv[1])):
    if number % 1000 == 0:
        os.makedirs(f"many/{number // 1000}")
    with open(f"many/{number // 1000}/{number}", "w") as file:
        file.write(str(number))
"#;

/// Names, modes, times, sizes and contents.
const MANY_STATE: &str = r"
find many -printf '%p %y %m %T@\n' | LC_ALL=C sort | sha256sum
find many -type f -printf '%p %s\n' | LC_ALL=C sort | sha256sum
find many -type f -print0 | LC_ALL=C sort -z | xargs -0 cat | sha256sum";

/// 10 GiB with three pieces of data.
const SPARSE: &str = r#"
with open("sparse", "wb") as sparse:
    sparse.truncate(10 << 30)
    for offset in (0, 5 << 30, (10 << 30) - 4):
        sparse.seek(offset)
        sparse.write(b"data")
"#;

/// Its size and time, its three pieces, and whether it takes less than a megabyte.
const SPARSE_STATE: &str = r"
stat -c '%s %Y' sparse
for offset in 0 5368709120 10737418236; do tail -c +$((offset + 1)) sparse | head -c 4; done
(( $(du --block-size=1 sparse | cut -f1) < 1000000 )) && echo ' sparse'";

async fn daemon() -> Daemon {
    Daemon::start_in(Home::new().set("SANDBOXD_MAX_COMMAND_TIMEOUT_MS", &LIMIT.as_millis().to_string())).await
}

async fn run(daemon: &Daemon, sandbox: &SandboxId, text: &str) -> String {
    let command = StartCommand { timeout_ms: Some(LIMIT.as_millis() as u64), ..script(text) };
    let ended = outcome(daemon.client.run(sandbox, &command).await.unwrap()).await;
    assert_eq!(ended.exit_code, 0, "{}", String::from_utf8_lossy(&ended.stderr));
    ended.text()
}

async fn create(daemon: &Daemon, session_key: &str, snapshot: Option<&SnapshotId>) -> SandboxId {
    let request = CreateSandbox {
        session_key: session_key.into(),
        resources: Some(Resources { disk_mb: Some(DISK_MB), ..Resources::default() }),
        workspace: snapshot.map(|snapshot_id| WorkspaceSource::snapshot(snapshot_id.clone())),
        ..CreateSandbox::default()
    };
    // The client's own deadline is shorter than what a million files take. A repeated request waits for the first.
    let deadline = Instant::now() + LIMIT;
    loop {
        match daemon.client.create_or_reconnect(&request).await {
            Ok(created) => return created.sandbox_id,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    }
}

/// Makes a snapshot, changes the files, restores them, and creates another sandbox with them.
async fn comes_back(daemon: &Daemon, fill: &str, state: &str, change: &str) -> SandboxId {
    let original = create(daemon, "chat:1", None).await;
    run(daemon, &original, fill).await;
    let before = run(daemon, &original, state).await;
    let made = daemon.client.make_snapshot(&original, &MakeSnapshot::default()).await.unwrap().snapshot;
    run(daemon, &original, change).await;
    assert_ne!(run(daemon, &original, state).await, before);
    let restore = RestoreSnapshot { snapshot_id: made.snapshot_id.clone(), force: None };
    daemon.client.restore_snapshot(&original, &restore).await.unwrap();
    assert_eq!(run(daemon, &original, state).await, before);
    let copy = create(daemon, "chat:2", Some(&made.snapshot_id)).await;
    assert_eq!(run(daemon, &copy, state).await, before);
    copy
}

fn python(program: &str, argument: &str) -> String {
    format!("python3 - {argument} <<'END'\n{program}\nEND")
}

#[tokio::test(flavor = "multi_thread")]
async fn very_many_files_come_back() {
    let daemon = daemon().await;
    let files = std::env::var("SANDBOXD_TEST_FILES").unwrap_or_else(|_| FILES.into());
    let copy =
        comes_back(&daemon, &python(MANY, &files), MANY_STATE, "rm -r many/3; echo other > many/5/5005")
            .await;
    assert!(is_over_base(&copy).await);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sparse_file_of_ten_gibibytes_comes_back() {
    let daemon = daemon().await;
    let change = "printf xxxx | dd of=sparse bs=1 seek=5368709120 conv=notrunc status=none";
    let copy = comes_back(&daemon, &python(SPARSE, ""), SPARSE_STATE, change).await;
    let state = run(&daemon, &copy, SPARSE_STATE).await;
    assert!(state.starts_with("10737418240 ") && state.ends_with("\ndatadatadata sparse\n"), "{state}");
    daemon.stop().await;
}
