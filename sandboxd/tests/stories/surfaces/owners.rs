//! Surfaces with project tokens: the sandboxes of another owner are out of reach, and a revoked token reaches nothing.

use sandbox_api::project::{CreateToken, TokenCreated};
use serde_json::json;

use super::mcp_client::Mcp;
use crate::support::harness::Daemon;

async fn token(daemon: &Daemon, project: &str, subject: &str) -> TokenCreated {
    daemon.client.create_project(project).await.unwrap();
    let request = CreateToken { subject: Some(subject.into()), ..CreateToken::default() };
    daemon.client.create_token(project, &request).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_handle_is_an_unknown_one_and_a_revoked_token_reaches_no_surface() {
    let daemon = Daemon::start().await;
    let of_ann = token(&daemon, "lab", "ann").await;
    let ann = Mcp::at(&daemon.base, &of_ann.token);
    let handle = ann.result("sandbox_open", json!({ "name": "x" })).await["sandbox"].clone();
    ann.in_session("1").output("touch of-ann").await;
    let unknown = json!("sbx_0000000000000000000000");
    for (project, subject) in [("lab", "bob"), ("press", "ann")] {
        let stranger = Mcp::at(&daemon.base, &token(&daemon, project, subject).await.token);
        let mut failures = Vec::new();
        for sandbox in [&handle, &unknown] {
            let failure = stranger.failure("bash", json!({ "command": "id", "sandbox": sandbox })).await;
            failures.push(failure.replace(sandbox.as_str().unwrap(), "ID"));
        }
        assert_eq!(failures[0], failures[1]);
        assert_eq!(stranger.in_session("1").output("ls").await, "");
    }
    daemon.client.revoke_token("lab", &of_ann.properties.token_id).await.unwrap();
    assert_eq!(ann.request("tools/list", json!({})).send().await.unwrap().status(), 401);
    for path in ["/tools/bash", "/open-terminal/api/config"] {
        let url = format!("{}{path}", daemon.base);
        let response = reqwest::Client::new().post(url).bearer_auth(&of_ann.token).send().await.unwrap();
        assert_eq!(response.status(), 401, "{path}");
    }
    daemon.stop().await;
}
