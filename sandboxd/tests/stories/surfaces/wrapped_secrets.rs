//! Wrapped servers with secrets, and whose servers a caller may use.

use sandbox_api::ErrorCode;
use sandbox_api::mcp::RegisterMcpServer;
use sandbox_api::sandbox::{ListSandboxes, SandboxState};
use sandbox_client::WriteOptions;
use serde_json::json;

use super::mcp_client::Mcp;
use super::mcp_tokens::home_with_tokens;
use super::wrapped::{PROGRAM, install, request, text_of};
use crate::support::harness::{Daemon, until};
use crate::support::http::HttpClient;

const SECRET: &str = "s3cret-value-of-the-story";

/// A server that a shell downloads into its sandbox, which has none of the caller's files.
fn with_secret(name: &str) -> RegisterMcpServer {
    RegisterMcpServer {
        env: Some([("STORY_KEY".to_owned(), SECRET.to_owned())].into()),
        cmd: "python3".into(),
        args: Some(vec!["-c".into(), PROGRAM.into()]),
        ..request(name, "")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_secrets_has_a_sandbox_of_its_own() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let server = daemon.client.register_mcp_server(&sandbox, &with_secret("story")).await.unwrap();
    assert_eq!(server.env_keys, ["STORY_KEY"]);
    let client = Mcp::of(&daemon).at_path(&server.path);
    // It has the value, and its output does not.
    assert_eq!(text_of(&client, "environ", json!({ "name": "STORY_KEY" })).await, "[STORY_KEY]");
    assert_eq!(text_of(&client, "environ", json!({ "name": "OTHER" })).await, "unset");
    // The sandbox of the conversation sees neither the process nor the value.
    let search = "grep -la STORY_KEY /proc/*/environ 2>/dev/null; pgrep -c python3 || true";
    assert_eq!(daemon.output(&sandbox, search).await, "0\n");
    let api = HttpClient::of(&daemon);
    let listed = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    let own = listed.iter().find(|other| other.sandbox_id != sandbox).expect("there is no second sandbox");
    assert_eq!(own.session_key, format!("mcp-server:{sandbox}:story"));
    for path in [
        "/v1/sandboxes".to_owned(),
        format!("/v1/sandboxes/{sandbox}/mcp"),
        format!("/v1/sandboxes/{sandbox}/mcp/story"),
        format!("/v1/sandboxes/{}", own.sandbox_id),
        format!("/v1/sandboxes/{}/commands", own.sandbox_id),
    ] {
        let answer = api.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(!String::from_utf8_lossy(&answer.body).contains(SECRET), "{path}");
    }
    // No server can be registered with it, and no tool reaches it.
    let nested = daemon.client.register_mcp_server(&own.sandbox_id, &request("x", "")).await.unwrap_err();
    assert_eq!(nested.code(), Some(ErrorCode::Refused), "{nested}");
    let stolen = json!({ "command": "env", "sandbox": own.sandbox_id.as_str() });
    assert!(Mcp::of(&daemon).failure("bash", stolen).await.contains("there is no sandbox"));
    // It parks by itself, and ends with the sandbox that it belongs to.
    daemon.client.park(&own.sandbox_id, false).await.unwrap();
    assert_eq!(text_of(&client, "echo", json!({ "text": "x" })).await, "x");
    assert_eq!(daemon.client.get(&own.sandbox_id).await.unwrap().state, SandboxState::Running);
    daemon.client.delete(&sandbox).await.unwrap();
    until("its sandbox is deleted too", || async {
        daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes.is_empty()
    })
    .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_removed_takes_its_sandbox_along() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let server = daemon.client.register_mcp_server(&sandbox, &with_secret("story")).await.unwrap();
    text_of(&Mcp::of(&daemon).at_path(&server.path), "echo", json!({})).await;
    assert_eq!(daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes.len(), 2);
    // The values outlive a restart.
    let daemon = Daemon::start_in(daemon.stop().await).await;
    let client = Mcp::of(&daemon).at_path(&server.path);
    assert_eq!(text_of(&client, "environ", json!({ "name": "STORY_KEY" })).await, "[STORY_KEY]");
    daemon.client.remove_mcp_server(&sandbox, "story").await.unwrap();
    assert_eq!(daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes.len(), 1);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_uses_the_servers_of_its_own_sandboxes() {
    let daemon = Daemon::start_in(home_with_tokens()).await;
    let [ann, bob] = ["ann-token", "bob-token"].map(|token| Mcp::at(&daemon.base, token));
    let handle = ann.result("sandbox_open", json!({})).await["sandbox"].as_str().unwrap().to_owned();
    let sandbox = handle.parse().unwrap();
    install(&daemon, &sandbox).await;
    daemon.client.put_file(&sandbox, "mark", "x", WriteOptions::default()).await.unwrap();
    let server = daemon.client.register_mcp_server(&sandbox, &request("story", "")).await.unwrap();
    for owner in [&ann, &Mcp::of(&daemon)] {
        assert_eq!(text_of(&owner.at_path(&server.path), "echo", json!({ "text": "x" })).await, "x");
    }
    for stranger in [bob, ann.with("x-librechat-user-id", "eve")] {
        let failure = stranger.at_path(&server.path).failure("echo", json!({})).await;
        assert!(failure.contains("there is no server at /mcp/"), "{failure}");
    }
    let wrong = Mcp::at(&daemon.base, "eve-token").at_path(&server.path);
    assert_eq!(wrong.request("tools/list", json!({})).send().await.unwrap().status(), 401);
    daemon.stop().await;
}
