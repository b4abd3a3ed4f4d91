//! A daemon that is killed, and one that has lost its store, while sandboxes wait for sessions.

use bollard::query_parameters::KillContainerOptions;
use sandbox_api::SandboxId;
use sandbox_client::Client;

use super::{notes_of, of_session, until_waiting_at, waiting, with_pool};
use crate::support::engine_view::objects_of;
use crate::support::harness::{DaemonProcess, Home, docker, free_port, outcome, script, until};

const SEAMS: [&str; 4] = ["pool.noted", "pool.started", "claim.note", "claim.row"];

async fn says(client: &Client, sandbox: &SandboxId, text: &str) -> String {
    outcome(client.run(sandbox, &script(text)).await.unwrap()).await.text()
}

/// Waits until exactly one sandbox waits, and nothing else is there than the sandboxes of these sessions.
async fn until_settled(home: &Home, sandboxes: &[&SandboxId]) {
    until("one sandbox waits, and nothing is left over", || async {
        let waiting = waiting(home).await;
        let sessions = sandboxes.iter().map(|id| id.to_string());
        let expected: Vec<String> = waiting.iter().cloned().chain(sessions).collect();
        let objects = objects_of(home).await;
        let known = objects.iter().filter(|name| expected.iter().any(|id| name.contains(id)));
        waiting.iter().all(|id| !sandboxes.iter().any(|of| of.as_str() == id))
            && waiting.len() == 1
            && known.count() == objects.len()
    })
    .await;
}

fn lose_store(home: &Home) {
    for name in ["sandboxd.db", "sandboxd.db-wal", "sandboxd.db-shm"] {
        let _ = std::fs::remove_file(home.path().join("state").join(name));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_step_leaves_one_sandbox_for_the_session() {
    let home = with_pool("1");
    let seam_file = home.path().join("seam");
    let home = home.set("SANDBOXD_SEAM_FILE", seam_file.to_str().unwrap());
    let port = free_port();
    let mut daemon = DaemonProcess::start(&home, port).await;
    let mut sandboxes = Vec::new();
    for (number, seam) in SEAMS.into_iter().enumerate() {
        until_waiting_at(port, &home).await;
        let key = format!("chat:{number}");
        std::fs::write(&seam_file, seam).unwrap();
        // The pool reaches its seams when another one is started for this one.
        let answer = daemon.client.create_or_reconnect(&of_session(&key)).await;
        assert_eq!(answer.is_ok(), seam.starts_with("pool."), "{seam}: {answer:?}");
        daemon.child.wait().await.unwrap();
        std::fs::remove_file(&seam_file).unwrap();
        daemon = DaemonProcess::start(&home, port).await;
        let made = daemon.client.create_or_reconnect(&of_session(&key)).await.unwrap();
        // Also one whose creator has no answer is the session's.
        assert!(!made.created, "{seam}");
        assert!(answer.is_err() || answer.is_ok_and(|answer| answer.sandbox_id == made.sandbox_id), "{seam}");
        let id = made.sandbox_id;
        assert_eq!(says(&daemon.client, &id, "ls; echo here >file; cat file").await, "here\n", "{seam}");
        sandboxes.push(id);
    }
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waited_is_removed_after_a_kill() {
    let home = with_pool("1");
    let port = free_port();
    let daemon = DaemonProcess::start(&home, port).await;
    until_waiting_at(port, &home).await;
    let id = daemon.client.create_or_reconnect(&of_session("chat:1")).await.unwrap().sandbox_id;
    says(&daemon.client, &id, "echo mine >file").await;
    let before = until_waiting_at(port, &home).await;
    daemon.kill().await;
    let daemon = DaemonProcess::start(&home, port).await;
    assert_eq!(says(&daemon.client, &id, "cat file").await, "mine\n");
    until("a new one waits", || async {
        let now = waiting(&home).await;
        now.len() == 2 && now.contains(id.as_str()) && now != before
    })
    .await;
    daemon.client.delete(&id).await.unwrap();
    until_settled(&home, &[]).await;
    until("only one note is left", || async { notes_of(&home).await.len() == 1 }).await;
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_finds_its_sandbox_after_the_store_was_lost() {
    let home = with_pool("1");
    let port = free_port();
    for is_parked in [false, true] {
        let key = format!("chat:{is_parked}");
        let daemon = DaemonProcess::start(&home, port).await;
        let waited = until_waiting_at(port, &home).await;
        let id = daemon.client.create_or_reconnect(&of_session(&key)).await.unwrap().sandbox_id;
        assert!(waited.contains(id.as_str()));
        says(&daemon.client, &id, "echo mine >file").await;
        if is_parked {
            daemon.client.park(&id, false).await.unwrap();
        }
        daemon.kill().await;
        lose_store(&home);
        let daemon = DaemonProcess::start(&home, port).await;
        let found = daemon.client.create_or_reconnect(&of_session(&key)).await.unwrap();
        assert_eq!((&found.sandbox_id, found.created), (&id, false), "parked: {is_parked}");
        assert_eq!(says(&daemon.client, &id, "cat file").await, "mine\n");
        daemon.client.delete(&id).await.unwrap();
        until_settled(&home, &[]).await;
        daemon.kill().await;
    }
}

/// The store is lost, and the first start after that has no disks to read notes from.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_disks_does_not_lose_the_sessions_of_the_pool() {
    let home = with_pool("1");
    let port = free_port();
    let daemon = DaemonProcess::start(&home, port).await;
    until_waiting_at(port, &home).await;
    let id = daemon.client.create_or_reconnect(&of_session("chat:1")).await.unwrap().sandbox_id;
    says(&daemon.client, &id, "echo mine >file").await;
    daemon.kill().await;
    lose_store(&home);
    let home = home.set("SANDBOXD_DISK_QUOTA", "off");
    let daemon = DaemonProcess::start(&home, port).await;
    assert!(daemon.client.orphans().await.unwrap().orphans.is_empty(), "it could not be read whose they are");
    daemon.kill().await;
    let home = home.set("SANDBOXD_DISK_QUOTA", "auto");
    let daemon = DaemonProcess::start(&home, port).await;
    let found = daemon.client.create_or_reconnect(&of_session("chat:1")).await.unwrap();
    assert_eq!((&found.sandbox_id, found.created), (&id, false));
    assert_eq!(says(&daemon.client, &id, "cat file").await, "mine\n");
    daemon.kill().await;
}

/// Killed while one that waited is removed: its disk is left, and then nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_removal_that_was_cut_off_is_completed() {
    let home = with_pool("1");
    let seam_file = home.path().join("seam");
    let home = home.set("SANDBOXD_SEAM_FILE", seam_file.to_str().unwrap());
    let port = free_port();
    let mut daemon = DaemonProcess::start(&home, port).await;
    for seam in ["remove.container", "remove.volume"] {
        let waited = until_waiting_at(port, &home).await.pop_last().unwrap();
        std::fs::write(&seam_file, seam).unwrap();
        let container = format!("remcochat-sandbox-{waited}");
        docker().await.kill_container(&container, None::<KillContainerOptions>).await.unwrap();
        daemon.child.wait().await.unwrap();
        std::fs::remove_file(&seam_file).unwrap();
        daemon = DaemonProcess::start(&home, port).await;
        until_waiting_at(port, &home).await;
        until_settled(&home, &[]).await;
        until("only one note is left", || async { notes_of(&home).await.len() == 1 }).await;
        assert!(daemon.client.orphans().await.unwrap().orphans.is_empty(), "{seam}");
    }
    daemon.kill().await;
}

/// Without its note, it may be a session's.
#[tokio::test(flavor = "multi_thread")]
async fn one_without_a_note_is_kept_and_reported() {
    let home = with_pool("1");
    let port = free_port();
    let daemon = DaemonProcess::start(&home, port).await;
    let before = until_waiting_at(port, &home).await;
    daemon.kill().await;
    for note in notes_of(&home).await {
        std::fs::remove_file(note).unwrap();
    }
    let daemon = DaemonProcess::start(&home, port).await;
    until("another one waits", || async { waiting(&home).await.len() == 2 }).await;
    assert!(waiting(&home).await.is_superset(&before));
    let orphans = daemon.client.orphans().await.unwrap().orphans;
    let names: Vec<&str> = orphans.iter().map(|orphan| orphan.name.as_str()).collect();
    assert!(before.iter().all(|id| names.contains(&id.as_str())), "{names:?}");
    daemon.kill().await;
}
