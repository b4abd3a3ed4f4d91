//! Requests that cannot be served, and servers that fail.

use std::time::{Duration, Instant};

use sandbox_api::ErrorCode;
use sandbox_api::repository::RunInRepository;
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes};
use serde_json::json;
use test_git::GitServer;

use super::{error_of, home, in_repository, run_at};
use crate::support::harness::Daemon;
use crate::support::http::HttpClient;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Time in which every request for a broken repository fails.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn what_names_no_repository_is_rejected_without_a_request() {
    let Some(server) = GitServer::start().await else { return };
    let daemon = Daemon::start_in(home(&server)).await;
    for repository in [
        "",
        "--upload-pack=touch /tmp/x",
        "--upload-pack=x/y",
        "file:///etc/passwd",
        "ssh://git@git.example/owner/name",
        "git@git.example:owner/name",
        "http://git.example/owner/name",
        "ext::sh -c x",
        "https://user:word@git.example/owner/name",
        "https://git.example/owner/name?x",
        "https://git.example/../name",
        "https://git.example",
        "owner/name\n",
        "owner/../name",
        "a/b/c",
    ] {
        let error = error_of(&daemon.client, repository, None).await;
        assert_eq!(error, ErrorCode::InvalidRequest, "{repository:?}");
    }
    for name in ["", "--upload-pack=x", "a b", "a..b", "-x", "HEAD~1"] {
        let error = error_of(&daemon.client, "owner/name", Some(name)).await;
        assert_eq!(error, ErrorCode::InvalidRequest, "{name:?}");
    }
    let both = RunInRepository {
        git_ref: Some("main".into()),
        version: Some("1.0.0".into()),
        ..in_repository("owner/name", "true")
    };
    let error = daemon.client.run_in_repository(&both).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::InvalidRequest));
    let (http, snapshot) = (HttpClient::of(&daemon), "snap_0123456789abcdef");
    for workspace in [
        json!({}),
        json!({ "ref": "main" }),
        json!({ "snapshotId": snapshot, "repository": "owner/name" }),
        json!({ "snapshotId": snapshot, "version": "1.0.0" }),
    ] {
        let body = json!({ "sessionKey": "chat:1", "workspace": workspace });
        http.post("/v1/sandboxes", &body).await.faults("workspace", &body.to_string());
    }
    let key = CreateSandbox { session_key: "fetched-repository:0".into(), ..CreateSandbox::default() };
    let error = daemon.client.create_or_reconnect(&key).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::InvalidRequest));
    assert_eq!(server.requests(), []);
}

#[tokio::test]
async fn what_does_not_exist_has_an_error_of_its_own() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("owner/name", "echo x >file; git add .; git commit -qm x").await;
    server.repository("owner/empty", "true").await;
    let daemon = Daemon::start_in(home(&server)).await;
    let client = &daemon.client;
    assert_eq!(error_of(client, "owner/nothing", None).await, ErrorCode::RepoNotFound);
    assert_eq!(error_of(client, "owner/nothing", Some(COMMIT)).await, ErrorCode::RepoNotFound);
    assert_eq!(error_of(client, "owner/name", Some("nothing")).await, ErrorCode::TagNotFound);
    assert_eq!(error_of(client, "owner/name", Some("0123456")).await, ErrorCode::TagNotFound);
    assert_eq!(error_of(client, "owner/name", Some(COMMIT)).await, ErrorCode::TagNotFound);
    assert_eq!(error_of(client, "owner/empty", None).await, ErrorCode::TagNotFound);
    let version = RunInRepository { version: Some("9.9.9".into()), ..in_repository("owner/name", "true") };
    let error = client.run_in_repository(&version).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::VersionNotFound));
    let left = client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn redirects_are_checked_again() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("owner/name", "echo x >file; git add .; git commit -qm x").await;
    let daemon = Daemon::start_in(home(&server)).await;
    for (kind, wanted) in [
        // An address of this machine that the operator has not opened.
        ("inside", ErrorCode::Refused),
        // No TLS.
        ("plain", ErrorCode::Refused),
    ] {
        let repository = format!("https://git.example/{kind}/owner/name.git");
        for name in [None, Some(COMMIT)] {
            assert_eq!(error_of(&daemon.client, &repository, name).await, wanted, "{kind} {name:?}");
        }
    }
}

#[tokio::test]
async fn a_server_of_the_first_protocol_is_enough() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("owner/name", "echo x >file; git add .; git commit -qm x; git tag -a -m y v1").await;
    let daemon = Daemon::start_in(home(&server)).await;
    for name in ["main", "v1"] {
        let ran = run_at(&daemon, "https://git.example/old/owner/name.git", name, "cat file").await;
        assert_eq!((ran.stdout.as_str(), ran.tags.as_slice()), ("x\n", &["v1".to_owned()][..]), "{ran:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_end_is_given_up() {
    let Some(server) = GitServer::start().await else { return };
    let daemon = Daemon::start_in(home(&server).set("SANDBOXD_REPOSITORY_MAX_MB", "1")).await;
    let began = Instant::now();
    let slow = async |name| error_of(&daemon.client, "https://git.example/slow/owner/name.git", name).await;
    let endless = async |name| error_of(&daemon.client, "https://git.example/endless/owner/name", name).await;
    let errors = tokio::join!(slow(None), slow(Some(COMMIT)), endless(None), endless(Some(COMMIT)));
    let (silent, large) = (ErrorCode::Unavailable, ErrorCode::TooLarge);
    assert_eq!(errors, (silent, silent, large, large));
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_server_that_permits_no_more_requests_says_when_to_retry() {
    let Some(server) = GitServer::start().await else { return };
    let daemon = Daemon::start_in(home(&server)).await;
    for (path, seconds) in [("limited", 90), ("spent", 60)] {
        let repository = format!("https://git.example/{path}/owner/name");
        let error = daemon.client.run_in_repository(&in_repository(&repository, "true")).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::RateLimited), "{path}: {error}");
        assert_eq!(error.retry_after(), Some(Duration::from_secs(seconds)), "{path}");
    }
    assert_eq!(server.requests().len(), 2, "neither is repeated by the daemon");
}
