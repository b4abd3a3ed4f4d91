//! Commands in repositories, described by a query.

use sandbox_api::repository::RepositoryRan;
use serde_json::json;
use test_git::GitServer;

use super::home;
use crate::support::harness::Daemon;
use crate::support::http::{Answer, HttpClient};

const PATH: &str = "/v1/repositories:run";

/// Longest script in bytes.
const MAX_SCRIPT: usize = 4096;

#[tokio::test]
async fn a_query_runs_what_a_body_runs() {
    let Some(server) = GitServer::start().await else { return };
    server.repository("owner/name", "echo 'a b' >file; git add .; git commit -qm x; git tag v1.0.0").await;
    let daemon = Daemon::start_in(home(&server)).await;
    let http = HttpClient::of(&daemon);

    let script = "cat file; echo '&+%' >&2; exit 3";
    let query =
        [("repository", "owner/name"), ("version", "1.0.0"), ("command", script), ("timeoutMs", "20000")];
    let answer = Answer::to(http.with_token("GET", PATH).query(&query)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let ran: RepositoryRan = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((ran.exit_code, ran.stdout.as_str(), ran.stderr.as_str()), (3, "a b\n", "&+%\n"), "{ran:?}");
    assert_eq!(ran.resolved_version.as_deref(), Some("1.0.0"));

    let body = json!({ "repository": "owner/name", "version": "1.0.0", "command": script });
    let of_body = http.post(PATH, &body).await.json();
    assert_eq!((of_body["stdout"].as_str(), of_body["cached"].as_bool()), (Some("a b\n"), Some(true)));
    assert_eq!(of_body["sandboxId"], ran.sandbox_id.as_str());
}

#[tokio::test]
async fn a_query_that_cannot_be_served_names_its_field() {
    let daemon = Daemon::start().await;
    let http = HttpClient::of(&daemon);
    let (long, limit) = ("x".repeat(MAX_SCRIPT + 1), "x".repeat(MAX_SCRIPT));
    for (query, field) in [
        (vec![("command", "true")], "repository"),
        (vec![("repository", "owner/name")], "command"),
        (vec![("repository", "owner/name"), ("command", &long)], "command"),
        (vec![("repository", "--upload-pack=x"), ("command", &limit)], "repository"),
        (vec![("repository", "owner/name"), ("command", "true"), ("timeoutMs", "soon")], "timeoutMs"),
        (vec![("repository", "owner/name"), ("command", "true"), ("ref", "a"), ("version", "1")], "version"),
    ] {
        let answer = Answer::to(http.with_token("GET", PATH).query(&query)).await;
        answer.faults(field, &format!("{query:?}"));
    }
    let query = [("repository", "owner/name"), ("command", "true")];
    assert_eq!(Answer::to(http.without_token("GET", PATH).query(&query)).await.status, 401);
    daemon.stop().await;
}
