//! Watches: changes are reported, and so are changes that could not be.

use std::time::Duration;

use futures::StreamExt;
use sandbox_api::ErrorCode;
use sandbox_api::files::WatchRecord;
use sandbox_client::FileChanges;
use tokio::time::timeout;

use crate::support::harness::{Daemon, SOON, over_each_transport, skipped_under_gvisor};

over_each_transport!(changes_are_reported_as_they_happen);

async fn next(changes: &mut FileChanges) -> WatchRecord {
    timeout(SOON, changes.next()).await.expect("no record comes").expect("the watch has ended").unwrap()
}

/// Everything up to the wanted record. It comes before the first heartbeat, which means that nothing more will be
/// reported.
async fn until(changes: &mut FileChanges, wanted: impl Fn(&WatchRecord) -> bool) -> Vec<WatchRecord> {
    let mut reported = Vec::new();
    while !reported.last().is_some_and(&wanted) {
        let next = next(changes).await;
        assert_ne!(next, WatchRecord::Heartbeat, "not reported, behind {} others", reported.len());
        reported.push(next);
    }
    reported
}

fn created(path: &str) -> WatchRecord {
    WatchRecord::Created { path: path.into(), path_base64: None }
}

async fn changes_are_reported_as_they_happen(daemon: &Daemon) {
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.output(&sandbox, "mkdir -p dir/sub").await;
    let mut changes = daemon.client.watch_files(&sandbox, "dir", true).await.unwrap();
    assert_eq!(next(&mut changes).await, WatchRecord::Ready);
    daemon.output(&sandbox, "mkdir -p dir/new/deep; echo 1 > dir/new/deep/file; echo 1 > elsewhere").await;
    until(&mut changes, |record| *record == created("dir/new/deep/file")).await;
    daemon
        .output(&sandbox, "mv dir/new/deep/file dir/sub/moved; echo 2 >> dir/sub/moved; rm dir/sub/moved")
        .await;
    let moved = |record: &WatchRecord| matches!(record, WatchRecord::Moved { path, from, .. } if path == "dir/sub/moved" && from == "dir/new/deep/file");
    until(&mut changes, moved).await;
    let deleted =
        |record: &WatchRecord| matches!(record, WatchRecord::Deleted { path, .. } if path == "dir/sub/moved");
    let reported = until(&mut changes, deleted).await;
    assert!(
        reported
            .iter()
            .any(|record| matches!(record, WatchRecord::Modified { path, .. } if path == "dir/sub/moved")),
        "{reported:?}"
    );
    // A file written by the API appears once, under its own name.
    daemon.client.put_file(&sandbox, "dir/put", "1", Default::default()).await.unwrap();
    let reported = until(&mut changes, |record| *record == created("dir/put")).await;
    assert_eq!(reported.len(), 1, "{reported:?}");
    daemon.output(&sandbox, "rm -r dir").await;
    until(&mut changes, |record| *record == WatchRecord::Gone).await;
    assert!(changes.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_that_come_too_fast_are_reported_as_an_overflow() {
    if skipped_under_gvisor("so many changes take longer there than a command may") {
        return;
    }
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let mut changes = daemon.client.watch_files(&sandbox, "", true).await.unwrap();
    assert_eq!(next(&mut changes).await, WatchRecord::Ready);
    let churn = "import os
for i in range(120000):
    open(f'{i % 100}-{\"n\" * 200}', 'w').close(); os.remove(f'{i % 100}-{\"n\" * 200}')";
    let request = sandbox_api::command::StartCommand {
        cmd: Some("python3".into()),
        args: Some(vec!["-c".into(), churn.into()]),
        ..Default::default()
    };
    let done = crate::support::harness::outcome(daemon.client.run(&sandbox, &request).await.unwrap()).await;
    assert_eq!(done.exit_code, 0, "{done:?}");
    until(&mut changes, |record| *record == WatchRecord::Overflow).await;
    // While the backlog lasts, there may be no room for the next change either. That is also reported.
    for turn in 0.. {
        let last = format!("last-{turn}");
        daemon.output(&sandbox, &format!("touch {last}")).await;
        let is_reported =
            |record: &WatchRecord| *record == created(&last) || *record == WatchRecord::Overflow;
        if until(&mut changes, is_reported).await.last() == Some(&created(&last)) {
            break;
        }
    }
    daemon.stop().await;
}

async fn ends_as_lost(mut changes: FileChanges) {
    let reported =
        timeout(Duration::from_secs(10), until(&mut changes, |record| *record == WatchRecord::Lost));
    reported.await.expect("the watch does not end");
    assert!(changes.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_with_its_sandbox_and_their_number_is_limited() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let mut watches = Vec::new();
    for _ in 0..16 {
        watches.push(daemon.client.watch_files(&sandbox, "", false).await.unwrap());
    }
    let more = daemon.client.watch_files(&sandbox, "", false).await.unwrap_err();
    assert_eq!(more.code(), Some(ErrorCode::CapacityExhausted));
    let mut last = watches.pop().unwrap();
    drop(watches);
    crate::support::harness::until("the others have ended", || async {
        daemon.client.watch_files(&sandbox, "", false).await.is_ok()
    })
    .await;
    assert_eq!(next(&mut last).await, WatchRecord::Ready);
    daemon.client.park(&sandbox, false).await.unwrap();
    ends_as_lost(last).await;
    let mut last = daemon.client.watch_files(&sandbox, "", true).await.unwrap();
    assert_eq!(next(&mut last).await, WatchRecord::Ready);
    daemon.client.delete(&sandbox).await.unwrap();
    ends_as_lost(last).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_passive_watch_does_not_use_the_sandbox() {
    let daemon = Daemon::start().await;
    let (watched, observed) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    let last_active = |sandbox| {
        let (client, sandbox) = (daemon.client.clone(), sandbox);
        async move { client.get(&sandbox).await.unwrap().last_active_at }
    };
    let mut passive = daemon.client.watch_files_passively(&observed, "").await.unwrap();
    assert_eq!(next(&mut passive).await, WatchRecord::Ready);
    let before = last_active(observed.clone()).await;
    let _active = daemon.client.watch_files(&watched, "", false).await.unwrap();
    crate::support::harness::until("a watch uses its sandbox", || async {
        last_active(watched.clone()).await > before
    })
    .await;
    assert_eq!(last_active(observed.clone()).await, before);
    daemon.output(&observed, "touch file").await;
    until(&mut passive, |record| *record == created("file")).await;
    daemon.client.park(&observed, false).await.unwrap();
    ends_as_lost(passive).await;
    // It does not wake the sandbox either.
    ends_as_lost(daemon.client.watch_files_passively(&observed, "").await.unwrap()).await;
    let state = daemon.client.get(&observed).await.unwrap().state;
    assert_eq!(state, sandbox_api::sandbox::SandboxState::Parked);
    daemon.stop().await;
}
