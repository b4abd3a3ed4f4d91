//! Surfaces with project tokens: the sandboxes of another owner are out of reach, and a revoked token reaches nothing.

use sandbox_api::project::{CreateToken, TokenCreated};
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes};
use sandbox_client::Client;
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

/// Only the project's own token can know the session keys of its surfaces, so a subject needs luck or a leak for this.
#[tokio::test(flavor = "multi_thread")]
async fn a_subject_cannot_put_its_sandbox_in_the_place_of_its_projects() {
    let daemon = Daemon::start().await;
    let of_bob = token(&daemon, "lab", "bob").await;
    let of_lab = daemon.client.create_token("lab", &CreateToken::default()).await.unwrap().token;
    let (lab, bob) =
        (Client::new(&daemon.base, &of_lab).unwrap(), Client::new(&daemon.base, &of_bob.token).unwrap());
    let http = reqwest::Client::new();
    let ask = |method: &str, path: &str| {
        let url = format!("{}/open-terminal{path}", daemon.base);
        let request = http.request(method.parse().unwrap(), url).bearer_auth(&of_lab);
        request.header("x-user-id", "ann").header("x-session-id", "chat-1")
    };
    let command = serde_json::json!({ "command": "echo of the project > file" });
    let ran = ask("POST", "/execute?wait=60").json(&command).send().await.unwrap();
    assert_eq!(ran.status(), 200);
    let own = lab.list(&ListSandboxes::default()).await.unwrap().sandboxes.remove(0);
    lab.delete(&own.sandbox_id).await.unwrap();
    let session_key = own.session_key;
    let of_bob = CreateSandbox { session_key, ..CreateSandbox::default() };
    let of_bob = bob.create_or_reconnect(&of_bob).await.unwrap().sandbox_id;
    bob.put_file(&of_bob, "file", "of bob", Default::default()).await.unwrap();
    let read = ask("GET", "/files/view?path=file").send().await.unwrap();
    assert_eq!(read.status(), 404, "{}", read.text().await.unwrap());
    daemon.stop().await;
}
