//! Wrapped servers with secrets, and whose servers a caller may use.

use std::time::Duration;

use bollard::query_parameters::InspectContainerOptions;
use sandbox_api::command::StartCommand;
use sandbox_api::mcp::RegisterMcpServer;
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes, SandboxState};
use sandbox_api::{CommandId, ErrorCode, SandboxId};
use sandbox_client::WriteOptions;
use sandboxd::model::layout::{container_name, volume_name};
use serde_json::json;
use tokio::time::timeout;

use super::mcp_client::Mcp;
use super::mcp_tokens::home_with_tokens;
use super::wrapped::{PROGRAM, install, request, text_of};
use crate::support::engine_proxy::{EngineProxy, Fault};
use crate::support::fault_injection::{connect, execute};
use crate::support::harness::{Daemon, Home, docker, skipped_under_gvisor, until};
use crate::support::http::HttpClient;
use crate::support::network::network;

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

/// The sandbox that the only server of a sandbox has for itself.
async fn own_sandbox(daemon: &Daemon, sandbox: &SandboxId) -> SandboxId {
    let listed = daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    let prefix = format!("mcp-server:{sandbox}:");
    listed.into_iter().find(|other| other.session_key.starts_with(&prefix)).unwrap().sandbox_id
}

async fn network_of(daemon: &Daemon, sandbox: &SandboxId) -> (Option<String>, Option<Vec<String>>) {
    let network = daemon.client.get(sandbox).await.unwrap().network;
    (network.mode, network.allow)
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
    let own = own_sandbox(&daemon, &sandbox).await;
    // The values outlive a restart, and so does the sandbox.
    let daemon = Daemon::start_in(daemon.stop().await).await;
    let client = Mcp::of(&daemon).at_path(&server.path);
    assert_eq!(text_of(&client, "environ", json!({ "name": "STORY_KEY" })).await, "[STORY_KEY]");
    assert_eq!(own_sandbox(&daemon, &sandbox).await, own);
    daemon.client.remove_mcp_server(&sandbox, "story").await.unwrap();
    assert_eq!(daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes.len(), 1);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sandbox_of_a_server_has_the_network_of_the_other_one() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let server = daemon.client.register_mcp_server(&sandbox, &with_secret("story")).await.unwrap();
    let client = Mcp::of(&daemon).at_path(&server.path);
    text_of(&client, "echo", json!({})).await;
    let own = own_sandbox(&daemon, &sandbox).await;
    assert_eq!(network_of(&daemon, &own).await, (Some("default".to_owned()), Some(Vec::new())));
    // While the server runs, and while its sandbox is parked.
    for (mode, allow) in [("allowlist", &["example.com"][..]), ("none", &[])] {
        daemon.client.change_network(&sandbox, &network(mode, allow).unwrap()).await.unwrap();
        let expected = network_of(&daemon, &sandbox).await;
        assert_eq!(expected.0.as_deref(), Some(mode));
        until("its sandbox has the same network", || async { network_of(&daemon, &own).await == expected })
            .await;
        assert_eq!(text_of(&client, "echo", json!({ "text": "x" })).await, "x");
        daemon.client.park(&own, false).await.unwrap();
    }
    // By the next call too.
    daemon.client.change_network(&sandbox, &network("default", &[]).unwrap()).await.unwrap();
    assert_eq!(text_of(&client, "echo", json!({ "text": "x" })).await, "x");
    assert_eq!(network_of(&daemon, &own).await, network_of(&daemon, &sandbox).await);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_loses_an_open_network_with_the_other_sandbox() {
    if skipped_under_gvisor("its runtime is set up without a network") {
        return;
    }
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_ALLOW_OPEN_NETWORK", "1")).await;
    let sandbox = daemon.sandbox("chat:1").await;
    daemon.client.park(&sandbox, false).await.unwrap();
    daemon.client.change_network(&sandbox, &network("open", &[]).unwrap()).await.unwrap();
    let server = daemon.client.register_mcp_server(&sandbox, &with_secret("story")).await.unwrap();
    let client = Mcp::of(&daemon).at_path(&server.path);
    text_of(&client, "echo", json!({})).await;
    let own = own_sandbox(&daemon, &sandbox).await;
    assert_eq!(network_of(&daemon, &own).await.0.as_deref(), Some("open"));
    // Its container cannot keep its interface.
    daemon.client.change_network(&sandbox, &network("none", &[]).unwrap()).await.unwrap();
    until("its sandbox has no network", || async {
        network_of(&daemon, &own).await.0.as_deref() == Some("none")
    })
    .await;
    assert_eq!(text_of(&client, "echo", json!({ "text": "x" })).await, "x");
    assert_eq!(daemon.output(&own, "ls /sys/class/net").await, "lo\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_delete_of_a_server_delays_nothing_else() {
    let proxy = EngineProxy::start();
    let home = Home::new().set("SANDBOXD_DOCKER_SOCKET", &proxy.socket().to_string_lossy());
    let daemon = Daemon::start_in(home).await;
    let [sandbox, other] = [daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await];
    let server = daemon.client.register_mcp_server(&sandbox, &with_secret("story")).await.unwrap();
    text_of(&Mcp::of(&daemon).at_path(&server.path), "echo", json!({})).await;
    let own = own_sandbox(&daemon, &sandbox).await;
    daemon.client.touch(&other, Some(10_000)).await.unwrap();
    proxy.set(&volume_name(&own), Fault::Hang);
    daemon.client.delete(&sandbox).await.unwrap();
    let container = container_name(&own);
    until("the delete of its sandbox hangs", || async {
        docker().await.inspect_container(&container, None::<InspectContainerOptions>).await.is_err()
    })
    .await;
    let request = with_secret("story");
    let registered = daemon.client.register_mcp_server(&other, &request);
    timeout(Duration::from_secs(5), registered).await.expect("it waits for the delete").unwrap();
    let parked = until("the idle sandbox is parked", || async {
        daemon.client.get(&other).await.unwrap().state == SandboxState::Parked
    });
    timeout(Duration::from_secs(15), parked).await.expect("it waits for the delete");
    proxy.clear_faults();
    until("its sandbox is deleted", || async { daemon.client.get(&own).await.is_err() }).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_ends_even_if_the_record_of_its_command_is_lost() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    // As a server is started.
    let request = StartCommand {
        command_id: Some(CommandId::random().unwrap().to_string()),
        cmd: Some("sleep".into()),
        args: Some(vec!["1000".into()]),
        passive: Some(true),
        ..StartCommand::default()
    };
    daemon.client.start(&sandbox, &request).await.unwrap();
    let home = daemon.stop().await;
    // As if the daemon had been killed before it wrote the record.
    execute(&mut connect(&home.path().join("state")).await, "DELETE FROM commands").await;
    let daemon = Daemon::start_in(home).await;
    until("the leftover has ended", || async {
        daemon.output(&sandbox, "pgrep -c sleep || true").await == "0\n"
    })
    .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_session_key_of_a_servers_sandbox_is_reserved() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let session_key = format!("mcp-server:{sandbox}:story");
    let request = CreateSandbox { session_key, ..CreateSandbox::default() };
    let refused = daemon.client.create_or_reconnect(&request).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::InvalidRequest), "{refused}");
    assert!(refused.to_string().contains("sessionKey"), "{refused}");
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
