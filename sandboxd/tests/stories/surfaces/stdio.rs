//! `sandboxd mcp`: MCP on standard input and output.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::mcp_client::{LEGACY, MODERN};
use crate::support::harness::{DaemonProcess, Home, free_port};

/// A host that has started the program.
pub(super) struct Host {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Host {
    pub(super) fn start(home: &Home, port: u16, args: &[&str]) -> Self {
        let url = format!("http://127.0.0.1:{port}");
        let mut command = home.program(&["mcp", "--url", &url]);
        let mut child = command
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, stdin, lines }
    }

    /// Id of the program's process.
    pub(super) fn id(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// The process of the program.
    pub(super) fn into_child(self) -> Child {
        self.child
    }

    pub(super) async fn send(&mut self, message: &Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// The answer to a request. Notifications before it are skipped.
    pub(super) async fn answer(&mut self, id: u64) -> Value {
        loop {
            let line = timeout(Duration::from_secs(60), self.lines.next_line()).await.unwrap().unwrap();
            let message: Value = serde_json::from_str(&line.expect("the server has ended")).unwrap();
            if message["id"] == id {
                return message;
            }
        }
    }

    pub(super) async fn initialize(&mut self) {
        let params = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": { "name": "story", "version": "1" } });
        self.send(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })).await;
        assert_eq!(self.answer(0).await["result"]["protocolVersion"], LEGACY);
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    }

    /// Sends a request and returns its answer.
    pub(super) async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        self.answer(id).await
    }

    async fn bash(&mut self, id: u64, command: &str) -> Value {
        let params = json!({ "name": "bash", "arguments": { "command": command } });
        self.ask(id, "tools/call", params).await["result"]["structuredContent"].clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_process_has_its_own_sandbox() {
    let (home, port) = (Home::new(), free_port());
    let mut daemon = DaemonProcess::start(&home, port).await;
    let mut first = Host::start(&home, port, &[]);
    let mut second = Host::start(&home, port, &[]);
    let mut named = Host::start(&home, port, &["--session", "mine"]);
    for host in [&mut first, &mut second, &mut named] {
        host.initialize().await;
        assert_eq!(host.bash(1, "ls; touch mark").await["stdout"], "");
    }
    assert_eq!(first.bash(2, "ls").await["stdout"], "mark\n");
    let mut named_again = Host::start(&home, port, &["--session", "mine"]);
    named_again.initialize().await;
    assert_eq!(named_again.bash(1, "ls").await["stdout"], "mark\n");
    // A host that closes standard input ends the program.
    drop(first.stdin);
    assert!(timeout(Duration::from_secs(20), first.child.wait()).await.unwrap().unwrap().success());
    daemon.child.start_kill().unwrap();
    daemon.child.wait().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_call_works_after_a_restart_of_the_daemon() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let mut host = Host::start(&home, port, &[]);
    host.initialize().await;
    host.bash(1, "touch mark").await;
    daemon.kill().await;
    let daemon = DaemonProcess::start(&home, port).await;
    assert_eq!(host.bash(2, "ls").await["stdout"], "mark\n");
    daemon.kill().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn modern_requests_need_no_handshake() {
    let (home, port) = (Home::new(), free_port());
    let daemon = DaemonProcess::start(&home, port).await;
    let mut host = Host::start(&home, port, &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    host.send(
        &json!({ "jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": { "_meta": meta } }),
    )
    .await;
    assert_eq!(host.answer(1).await["result"]["resultType"], "complete");
    let params = json!({ "name": "bash", "arguments": { "command": "echo hi" }, "_meta": meta });
    host.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params })).await;
    assert_eq!(host.answer(2).await["result"]["structuredContent"]["stdout"], "hi\n");
    // Every message is JSON, whatever a command writes.
    let command = "head -c 512K /dev/zero; head -c 512K /dev/zero | tr '\\0' '\\377'";
    let params = json!({ "name": "bash", "arguments": { "command": command }, "_meta": meta });
    host.send(&json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params })).await;
    let result = host.answer(3).await["result"]["structuredContent"].clone();
    assert!(result["stdout"].as_str().unwrap().ends_with('\u{fffd}') && result["truncated"] == true);
    daemon.kill().await;
}
