//! Wrapped servers that misbehave.

use sandbox_api::mcp::RegisterMcpServer;
use serde_json::{Value, json};

use super::wrapped::{processes, registered, request, text_of};
use crate::support::harness::{Daemon, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_start_is_tried_less_and_less_often() {
    let daemon = Daemon::start().await;
    let (sandbox, _, client) = registered(&daemon, &request("story", "exit")).await;
    let first = client.failure("echo", json!({})).await;
    assert!(first.contains("it ended with exit code 1") && first.contains("it is broken"), "{first}");
    assert!(first.contains("The next attempt is possible in 1 s"), "{first}");
    let commands = daemon.client.commands(&sandbox, 100).await.unwrap().commands.len();
    let second = client.failure("echo", json!({})).await;
    assert!(second.contains("it is broken") && second.contains("The next attempt"), "{second}");
    assert_eq!(
        daemon.client.commands(&sandbox, 100).await.unwrap().commands.len(),
        commands,
        "it was started"
    );
    until("the pause doubles", || async {
        client.failure("echo", json!({})).await.contains("The next attempt is possible in 2 s")
    })
    .await;
    let missing = RegisterMcpServer { cmd: "no-such-program".into(), ..request("missing", "") };
    let server = daemon.client.register_mcp_server(&sandbox, &missing).await.unwrap();
    let failure = client.at_path(&server.path).failure("echo", json!({})).await;
    assert!(failure.contains("No such file or directory"), "{failure}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_floods_is_ended_and_started_again() {
    let daemon = Daemon::start().await;
    let (sandbox, _, client) = registered(&daemon, &request("story", "")).await;
    text_of(&client, "echo", json!({})).await;
    for (tool, reason) in [("flood", "that answer nothing"), ("long", "is longer than 4194304 bytes")] {
        let failure = client.failure(tool, json!({})).await;
        assert!(
            failure.contains("the server ended before it answered") && failure.contains(reason),
            "{failure}"
        );
        until("it is ended", || async { processes(&daemon, &sandbox).await == "0" }).await;
        // It had just been started, so this counts as a failed start.
        until("it is started again", || async {
            let called = client.call("echo", json!({ "text": "x" })).await;
            !called.is_error && called.text == "x"
        })
        .await;
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_gets_only_the_list_that_was_checked() {
    let daemon = Daemon::start().await;
    let (_, _, client) = registered(&daemon, &request("story", "")).await;
    assert_eq!(text_of(&client, "swap", json!({})).await, "announced");
    let listed = client.ask("tools/list", json!({})).await;
    assert!(listed["result"]["tools"].is_array() && !listed.to_string().contains("evil"), "{listed}");
    let listed = client.ask("tools/list", json!({})).await;
    assert!(listed["error"]["message"].as_str().unwrap().contains("have changed"), "{listed}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_say_what_has_changed_is_ended() {
    let daemon = Daemon::start().await;
    let (_, _, client) = registered(&daemon, &request("story", "")).await;
    let pid = text_of(&client, "pid", json!({})).await;
    assert_eq!(text_of(&client, "hide", json!({})).await, "announced");
    let failure = client.failure("echo", json!({ "text": "x" })).await;
    assert!(failure.contains("no list"), "{failure}");
    until("a new one is started", || async {
        let called = client.call("pid", json!({})).await;
        !called.is_error && called.text != pid
    })
    .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_other_than_messages_is_skipped() {
    let daemon = Daemon::start().await;
    let (_, _, client) = registered(&daemon, &request("story", "")).await;
    assert_eq!(text_of(&client, "garbage", json!({})).await, "after garbage");
    assert_eq!(text_of(&client, "echo", json!({ "text": "x" })).await, "x");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_learns_why_the_server_has_ended() {
    let daemon = Daemon::start().await;
    let (_, _, client) = registered(&daemon, &request("story", "")).await;
    let failure = client.failure("exit", json!({})).await;
    assert!(failure.contains("it ended with exit code 3"), "{failure}");
    assert!(failure.contains("the reason is written here"), "{failure}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_the_user_and_the_model_are_off_by_default() {
    let daemon = Daemon::start().await;
    let (sandbox, _, client) = registered(&daemon, &request("story", "")).await;
    let client = client.with_elicitation().legacy().await;
    assert_eq!(text_of(&client, "capabilities", json!({})).await, "{}");
    for tool in ["ask", "sample"] {
        let answer: Value = serde_json::from_str(&text_of(&client, tool, json!({})).await).unwrap();
        assert_eq!(answer["error"]["code"], -32601, "{tool}: {answer}");
    }
    // Allowed ones reach a host that offers them. This host offers no sampling.
    let allowed = RegisterMcpServer {
        allow_elicitation: Some(true),
        allow_sampling: Some(true),
        ..request("allowed", "")
    };
    let server = daemon.client.register_mcp_server(&sandbox, &allowed).await.unwrap();
    let client = client.at_path(&server.path);
    let sampled: Value = serde_json::from_str(&text_of(&client, "sample", json!({})).await).unwrap();
    assert_eq!(sampled["error"]["code"], -32603, "{sampled}");
    let capabilities: Value =
        serde_json::from_str(&text_of(&client, "capabilities", json!({})).await).unwrap();
    assert_eq!(capabilities, json!({ "elicitation": {}, "sampling": {} }));
    daemon.stop().await;
}
