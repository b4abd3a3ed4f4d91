//! Wrapped servers over HTTP: MCP servers of third parties that run in a sandbox.

use sandbox_api::mcp::{ApproveMcpServer, McpServer, RegisterMcpServer};
use sandbox_api::sandbox::{CreateSandbox, SandboxState};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::WriteOptions;
use serde_json::{Value, json};

use super::mcp_client::Mcp;
use crate::support::harness::{Daemon, until};

/// The server of these stories.
pub(super) const PROGRAM: &str = include_str!("wrapped_server.py");

/// Writes the program of the server into a sandbox.
pub(super) async fn install(daemon: &Daemon, sandbox: &SandboxId) {
    daemon.client.put_file(sandbox, "server.py", PROGRAM, WriteOptions::default()).await.unwrap();
}

/// A request that registers the server in this mode.
pub(super) fn request(name: &str, mode: &str) -> RegisterMcpServer {
    RegisterMcpServer {
        name: name.to_owned(),
        cmd: "python3".into(),
        args: Some(vec!["server.py".into(), mode.to_owned()]),
        ..RegisterMcpServer::default()
    }
}

/// Registers a server with a new sandbox. Returns the sandbox, the server and a client of it.
pub(super) async fn registered(daemon: &Daemon, request: &RegisterMcpServer) -> (SandboxId, McpServer, Mcp) {
    let sandbox = daemon.sandbox("chat:1").await;
    install(daemon, &sandbox).await;
    let server = daemon.client.register_mcp_server(&sandbox, request).await.unwrap();
    let client = Mcp::of(daemon).at_path(&server.path);
    (sandbox, server, client)
}

pub(super) async fn text_of(client: &Mcp, tool: &str, arguments: Value) -> String {
    let called = client.call(tool, arguments).await;
    assert!(!called.is_error, "{called:?}");
    called.text
}

/// Number of processes of the server in its sandbox.
pub(super) async fn processes(daemon: &Daemon, sandbox: &SandboxId) -> String {
    daemon.output(sandbox, "pgrep -fc '[s]erver.py' || true").await.trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_called_with_and_without_a_handshake() {
    let daemon = Daemon::start().await;
    let (sandbox, server, client) = registered(&daemon, &request("story", "")).await;
    assert_eq!(server.path, format!("/mcp/{sandbox}/story"));
    assert_eq!((server.tools_hash, server.version), (None, None));
    for client in [client.clone(), client.legacy().await] {
        assert_eq!(text_of(&client, "echo", json!({ "text": "héllo\n" })).await, "héllo\n");
        let tools = client.ask("tools/list", json!({})).await["result"]["tools"].clone();
        assert_eq!(
            (&tools[0]["name"], &tools[0]["description"]),
            (&json!("echo"), &json!("Returns the text."))
        );
        let prompts = client.ask("prompts/list", json!({})).await;
        assert_eq!(prompts["result"]["prompts"][0]["name"], "greet", "{prompts}");
        let unknown = client.ask("tools/call", json!({ "name": "nope", "arguments": {} })).await;
        assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
        let working = client.call_with_progress("work", json!({})).await;
        assert_eq!((working.text.as_str(), working.notifications.len()), ("worked", 3), "{working:?}");
        assert_eq!(working.notifications[2]["params"]["progressToken"], "p");
    }
    let discovered = client.ask("server/discover", json!({})).await["result"].clone();
    assert_eq!(discovered["instructions"], "Read this.", "{discovered}");
    assert!(
        discovered["capabilities"]["prompts"].is_object()
            && discovered["capabilities"]["resources"].is_null()
    );
    // One process serves all hosts.
    assert_eq!(processes(&daemon, &sandbox).await, "1");
    let known = daemon.client.mcp_server(&sandbox, "story").await.unwrap();
    assert!(known.tools_hash.is_some_and(|hash| hash.len() == 64) && known.tools.contains_key("echo"));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_server_ends_with_its_sandbox_and_the_next_call_starts_it() {
    let daemon = Daemon::start().await;
    let (sandbox, _, client) = registered(&daemon, &request("story", "")).await;
    let first = text_of(&client, "pid", json!({})).await;
    assert_eq!(text_of(&client, "pid", json!({})).await, first, "it keeps running");
    daemon.client.park(&sandbox, false).await.unwrap();
    assert_eq!(daemon.client.get(&sandbox).await.unwrap().state, SandboxState::Parked);
    assert_eq!(text_of(&client, "echo", json!({ "text": "again" })).await, "again");
    assert_eq!(daemon.client.get(&sandbox).await.unwrap().state, SandboxState::Running);
    // By itself too, even though the server runs.
    daemon.client.touch(&sandbox, Some(10_000)).await.unwrap();
    assert_eq!(text_of(&client, "echo", json!({ "text": "once" })).await, "once");
    until("the idle sandbox is parked", || async {
        daemon.client.get(&sandbox).await.unwrap().state == SandboxState::Parked
    })
    .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_meets_a_park_is_sent_again_or_was_not_run() {
    let daemon = Daemon::start().await;
    let (sandbox, _, client) = registered(&daemon, &request("story", "")).await;
    text_of(&client, "echo", json!({})).await;
    for number in 0..8 {
        let arguments = json!({ "text": number.to_string() });
        let (parked, called) =
            tokio::join!(daemon.client.park(&sandbox, false), client.call("echo", arguments));
        // The server may have got the call and been parked before it answered. It must not be run twice.
        let was_running = called.text.contains("its sandbox was parked");
        assert!(called.text == number.to_string() || was_running, "{parked:?} {called:?}");
    }
    // Straight after a park.
    daemon.client.park(&sandbox, false).await.unwrap();
    assert_eq!(text_of(&client, "echo", json!({ "text": "again" })).await, "again");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_keeps_the_sandbox_in_use() {
    let daemon = Daemon::start().await;
    let (sandbox, _, client) = registered(&daemon, &request("story", "")).await;
    text_of(&client, "echo", json!({})).await;
    let waiting = client.clone();
    let call = tokio::spawn(async move { waiting.call("never", json!({})).await });
    until("the call is a use", || async { daemon.client.get(&sandbox).await.unwrap().expires_at.is_none() })
        .await;
    call.abort();
    until("the call is over", || async { daemon.client.get(&sandbox).await.unwrap().expires_at.is_some() })
        .await;
    // The server receives a cancellation.
    until("the server has the cancellation", || async {
        text_of(&client, "cancelled", json!({})).await == "the caller has left"
    })
    .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_tools_are_refused_until_they_are_approved() {
    let daemon = Daemon::start().await;
    let (sandbox, _, client) = registered(&daemon, &request("story", "")).await;
    text_of(&client, "echo", json!({})).await;
    // While it runs.
    assert_eq!(text_of(&client, "change", json!({})).await, "changed");
    let refused = client.failure("echo", json!({ "text": "x" })).await;
    assert!(refused.contains("have changed") && refused.contains("changed: `echo`"), "{refused}");
    let listed = client.ask("tools/list", json!({})).await;
    assert!(listed["error"]["message"].as_str().unwrap().contains(":approve"), "{listed}");
    // After a restart of the server too.
    daemon.client.park(&sandbox, false).await.unwrap();
    assert_eq!(client.failure("echo", json!({})).await, refused);
    let hash = refused.split("\"toolsHash\":\"").nth(1).unwrap().split('"').next().unwrap();
    let approval = ApproveMcpServer { tools_hash: Some(hash.to_owned()), ..ApproveMcpServer::default() };
    daemon.client.approve_mcp_server(&sandbox, "story", &approval).await.unwrap();
    assert_eq!(text_of(&client, "echo", json!({ "text": "x" })).await, "x");
    // The way back is a change as well.
    daemon.output(&sandbox, "rm description").await;
    daemon.client.park(&sandbox, false).await.unwrap();
    let refused = client.failure("echo", json!({})).await;
    assert!(refused.contains("changed: `echo`"), "{refused}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn registrations_are_listed_limited_and_removed() {
    let daemon = Daemon::start().await;
    let (sandbox, first, client) = registered(&daemon, &request("a", "")).await;
    assert_eq!(daemon.client.register_mcp_server(&sandbox, &request("a", "")).await.unwrap(), first);
    let other = daemon.client.register_mcp_server(&sandbox, &request("a", "other")).await.unwrap_err();
    assert_eq!(other.code(), Some(ErrorCode::AlreadyExists));
    for number in 1..16 {
        daemon.client.register_mcp_server(&sandbox, &request(&format!("b{number}"), "")).await.unwrap();
    }
    let full = daemon.client.register_mcp_server(&sandbox, &request("c", "")).await.unwrap_err();
    assert_eq!(full.code(), Some(ErrorCode::CapacityExhausted), "{full}");
    assert_eq!(daemon.client.mcp_servers(&sandbox).await.unwrap().servers.len(), 16);
    for name in ["", "a/b", "..", "a:b", &"x".repeat(65)] {
        let refused = daemon.client.register_mcp_server(&sandbox, &request(name, "")).await.unwrap_err();
        assert_eq!(refused.code(), Some(ErrorCode::InvalidRequest), "{name}");
    }
    text_of(&client, "echo", json!({})).await;
    daemon.client.remove_mcp_server(&sandbox, "a").await.unwrap();
    daemon.client.remove_mcp_server(&sandbox, "a").await.unwrap();
    // By itself.
    until("its process has ended", || async { processes(&daemon, &sandbox).await == "0" }).await;
    assert!(client.failure("echo", json!({})).await.contains("there is no server at /mcp/"));
    daemon.client.delete(&sandbox).await.unwrap();
    let gone = daemon.client.mcp_servers(&sandbox).await.unwrap_err();
    assert_eq!(gone.code(), Some(ErrorCode::NotFound));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn registrations_outlive_the_daemon_and_processes_do_not() {
    let daemon = Daemon::start().await;
    let (sandbox, _, client) = registered(&daemon, &request("story", "")).await;
    text_of(&client, "echo", json!({})).await;
    let legacy = client.legacy().await;
    let daemon = Daemon::start_in(daemon.stop().await).await;
    until("the earlier process is gone", || async { processes(&daemon, &sandbox).await == "0" }).await;
    let path = daemon.client.mcp_server(&sandbox, "story").await.unwrap().path;
    for client in [client, legacy] {
        let client = client.moved_to(&daemon).at_path(&path);
        assert_eq!(text_of(&client, "echo", json!({ "text": "back" })).await, "back");
    }
    assert_eq!(processes(&daemon, &sandbox).await, "1");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_is_deleted_takes_its_servers_along() {
    let daemon = Daemon::start().await;
    let (sandbox, _, client) = registered(&daemon, &request("story", "")).await;
    text_of(&client, "echo", json!({})).await;
    daemon.client.delete(&sandbox).await.unwrap();
    assert!(client.failure("echo", json!({})).await.contains("there is no server at /mcp/"));
    let again = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let again = daemon.client.create_or_reconnect(&again).await.unwrap().sandbox_id;
    assert!(daemon.client.mcp_servers(&again).await.unwrap().servers.is_empty());
    daemon.stop().await;
}
