//! The disk of the audit record is full: what must be recorded is refused, and everything else works.

use sandbox_api::ErrorCode;
use sandbox_api::command::StartCommand;
use sandbox_api::project::CreateToken;
use sandbox_api::sandbox::CreateSandbox;

use super::{checked, lines_of};
use crate::support::fault_injection::SmallDisk;
use crate::support::harness::{Daemon, Home, outcome, script, until};
use crate::support::http::HttpClient;

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_acts_and_stops_nothing_else() {
    let disk = SmallDisk::new("3m");
    let home = Home::new().set("SANDBOXD_AUDIT_DIR", &disk.path().join("audit").to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    let (sandbox, parked) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    daemon.client.put_file(&parked, "file", "kept", Default::default()).await.unwrap();
    daemon.client.park(&parked, false).await.unwrap();
    let waits =
        StartCommand { detached: Some(true), ..script("until [ -e go ]; do sleep 0.1; done; echo done") };
    let running = daemon.client.start(&sandbox, &waits).await.unwrap().command_id;
    let stream = daemon.client.logs(&sandbox, &running, 0, true).await.unwrap();

    let filler = disk.fill();
    // A line may still fit into the last page of the file.
    until("an act is refused", || async { daemon.client.create_project("lab").await.is_err() }).await;
    let refused = daemon.client.create_project("other").await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::AuditUnavailable), "{refused:?}");
    for refused in [
        daemon.client.create_token("default", &CreateToken::default()).await.err(),
        daemon.client.start(&sandbox, &script("true")).await.err(),
    ] {
        assert_eq!(refused.unwrap().code(), Some(ErrorCode::AuditUnavailable));
    }
    let answer = HttpClient::of(&daemon).get("/v1/projects").await.json();
    assert!(!answer["projects"].to_string().contains("other"), "a refused act was done: {answer}");

    // A read wakes the other sandbox, a file can be written, and the stream of a running command continues.
    assert_eq!(daemon.client.read_file(&parked, "file").await.unwrap().as_deref(), Some(&b"kept"[..]));
    daemon.client.put_file(&sandbox, "go", "", Default::default()).await.unwrap();
    let done = outcome(stream).await;
    assert_eq!((done.exit_code, done.stdout.as_slice()), (0, &b"done\n"[..]));
    assert!(daemon.client.ready().await.is_ok());

    std::fs::remove_file(filler).unwrap();
    daemon.client.create_project("other").await.unwrap();
    daemon.client.delete(&sandbox).await.unwrap();
    // What happened meanwhile is recorded now.
    assert_eq!(lines_of(&daemon.client, "sandbox.wake").await.len(), 1);
    let report = checked(&daemon.home).await;
    assert!(report.is_intact() && report.omitted == 0, "{report:?}");
    let home = daemon.stop().await;
    assert!(checked(&home).await.is_intact());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_nothing_that_frees_space() {
    let disk = SmallDisk::new("3m");
    let home = Home::new().set("SANDBOXD_AUDIT_DIR", &disk.path().join("audit").to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    let client = &daemon.client;
    let (first, second) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    let token = client.create_token("default", &CreateToken::default()).await.unwrap().properties.token_id;
    // Twice, because the reserve is whole again when there is space.
    for sandbox in [&first, &second] {
        let filler = disk.fill();
        until("an act is refused", || async { client.create_project("lab").await.is_err() }).await;
        client.park(sandbox, false).await.unwrap();
        client.delete(sandbox).await.unwrap();
        client.revoke_token("default", &token).await.unwrap();
        let request = CreateSandbox { session_key: "chat:3".into(), ..CreateSandbox::default() };
        let refused = client.create_or_reconnect(&request).await.unwrap_err();
        assert_eq!(refused.code(), Some(ErrorCode::AuditUnavailable), "{refused:?}");
        std::fs::remove_file(filler).unwrap();
        client.create_or_reconnect(&request).await.unwrap();
    }
    // The outcomes waited until there was space.
    let deleted = lines_of(client, "sandbox.delete").await;
    let outcomes = deleted.iter().filter(|line| line.outcome.as_deref() == Some("ok"));
    assert_eq!((deleted.len(), outcomes.count()), (4, 2));
    let report = checked(&daemon.home).await;
    assert!(report.is_intact() && report.omitted == 0, "{report:?}");
    daemon.stop().await;
}
