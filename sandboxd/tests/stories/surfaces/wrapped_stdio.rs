//! `sandboxd mcp --wrap`: a wrapped server on standard input and output.

use serde_json::{Value, json};
use tokio::process::Child;

use super::stdio::Host;
use super::wrapped::PROGRAM;
use crate::support::harness::{DaemonProcess, Home, free_port, until};
use crate::support::network::{home as network_home, reaches};

/// The arguments that wrap the server of these stories.
fn arguments(pins: &str, before: &[&str]) -> Vec<String> {
    let arguments = [&["--wrap", "--pins", pins], before, &["--", "python3", "-c", PROGRAM]].concat();
    arguments.into_iter().map(str::to_owned).collect()
}

fn start(home: &Home, port: u16, arguments: &[String]) -> Host {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Host::start(home, port, &arguments)
}

async fn call(host: &mut Host, id: u64, tool: &str, arguments: Value) -> Value {
    host.ask(id, "tools/call", json!({ "name": tool, "arguments": arguments })).await["result"].clone()
}

/// The only text of a result.
fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

async fn end(mut child: Child) {
    child.start_kill().unwrap();
    child.wait().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_serves_a_server_that_runs_in_a_sandbox() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let pins = home.path().join("pins.json");
    let pins = pins.to_str().unwrap();
    let with_session = arguments(pins, &["--session", "wrapped"]);
    let mut host = start(&home, port, &with_session);
    host.initialize().await;
    let echoed = call(&mut host, 1, "echo", json!({ "text": "hi" })).await;
    assert_eq!(text(&echoed), "hi");
    let tools = host.ask(2, "tools/list", json!({})).await["result"]["tools"].clone();
    assert_eq!(tools[0]["name"], "echo");
    assert_eq!(text(&call(&mut host, 3, "capabilities", json!({})).await), "{}");
    // It runs in the sandbox of the session, whose tools see the same files.
    assert_eq!(text(&call(&mut host, 4, "change", json!({})).await), "changed");
    let mut tools = Host::start(&home, port, &["--session", "wrapped"]);
    tools.initialize().await;
    let listed = tools.ask(
        1,
        "tools/call",
        json!({ "name": "bash", "arguments": { "command": "ls; pgrep -c python3" } }),
    );
    let listed = listed.await["result"]["structuredContent"]["stdout"].clone();
    assert_eq!(listed, "description\n1\n");
    // The tools have changed: now, and for the next process.
    let refused = call(&mut host, 5, "echo", json!({})).await;
    assert!(refused["isError"] == true && text(&refused).contains("--tools-hash "), "{refused}");
    let hash = text(&refused).rsplit(' ').next().unwrap().to_owned();
    // The process of the server ends with the program.
    end(host.into_child()).await;
    until_none(&mut tools, "python3").await;
    let mut host = start(&home, port, &with_session);
    host.initialize().await;
    assert_eq!(call(&mut host, 1, "echo", json!({})).await["isError"], true);
    drop(host);
    let mut host = start(&home, port, &arguments(pins, &["--session", "wrapped", "--tools-hash", &hash]));
    host.initialize().await;
    assert_eq!(text(&call(&mut host, 1, "echo", json!({ "text": "x" })).await), "x");
    // The approval is stored.
    let mut next = start(&home, port, &with_session);
    next.initialize().await;
    assert_eq!(text(&call(&mut next, 1, "echo", json!({ "text": "y" })).await), "y");
    daemon.kill().await;
}

/// Waits until no process of a program is left in the sandbox of a host.
async fn until_none(host: &mut Host, program: &str) {
    let host = tokio::sync::Mutex::new(host);
    until("no process stays", || async { running(&mut **host.lock().await, program).await == "0" }).await;
}

/// Number of processes of a program in the sandbox of a host.
async fn running(host: &mut Host, program: &str) -> String {
    let command = format!("pgrep -c {program} || true");
    let ran = host.ask(9, "tools/call", json!({ "name": "bash", "arguments": { "command": command } })).await;
    ran["result"]["structuredContent"]["stdout"].as_str().unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_the_program_stays_out_of_results_and_of_the_session() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let pins = home.path().join("pins.json");
    let secret = ["--session", "secret", "--env", "STORY_KEY=s3cret-of-a-story"];
    let mut host = start(&home, port, &arguments(pins.to_str().unwrap(), &secret));
    host.initialize().await;
    let shown = call(&mut host, 1, "environ", json!({ "name": "STORY_KEY" })).await;
    assert_eq!(text(&shown), "[STORY_KEY]");
    let mut tools = Host::start(&home, port, &["--session", "secret"]);
    tools.initialize().await;
    assert_eq!(running(&mut tools, "python3").await, "0");
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_call_works_after_a_restart_of_the_daemon() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let pins = home.path().join("pins.json");
    let mut host = start(&home, port, &arguments(pins.to_str().unwrap(), &["--session", "restart"]));
    host.initialize().await;
    assert_eq!(text(&call(&mut host, 1, "echo", json!({ "text": "x" })).await), "x");
    daemon.kill().await;
    let daemon = DaemonProcess::start(&home, port).await;
    assert_eq!(text(&call(&mut host, 2, "echo", json!({ "text": "y" })).await), "y");
    let mut tools = Host::start(&home, port, &["--session", "restart"]);
    tools.initialize().await;
    let tools = tokio::sync::Mutex::new(tools);
    until("the earlier process is gone", || async {
        running(&mut *tools.lock().await, "python3").await == "1"
    })
    .await;
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_package_gets_a_version_at_its_first_start() {
    if !reaches("registry.npmjs.org").await {
        return;
    }
    let (home, port) = (network_home(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let pins = home.path().join("pins.json");
    let package = "@modelcontextprotocol/server-filesystem";
    let wrapped = ["--wrap", "--pins", pins.to_str().unwrap(), "--", "npx", "-y", package, "."];
    let mut host = Host::start(&home, port, &wrapped);
    host.initialize().await;
    let written = call(&mut host, 1, "write_file", json!({ "path": "a.txt", "content": "hello" })).await;
    assert_ne!(written["isError"], true, "{written}");
    let read = call(&mut host, 2, "read_text_file", json!({ "path": "a.txt" })).await;
    assert!(text(&read).contains("hello"), "{read}");
    let pinned: Value = serde_json::from_str(&std::fs::read_to_string(&pins).unwrap()).unwrap();
    let pin = pinned.as_object().unwrap().values().next().unwrap();
    assert!(pin["version"].as_str().unwrap().split('.').count() >= 3, "{pinned}");
    assert_eq!(pin["toolsHash"].as_str().unwrap().len(), 64);
    daemon.kill().await;
}
