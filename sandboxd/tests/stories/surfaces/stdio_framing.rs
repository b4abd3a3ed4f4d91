//! `sandboxd mcp`: both framings, and input that is not a message.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::mcp_client::LEGACY;
use crate::support::harness::{Daemon, Home, SOON, until};

/// How much memory a message that is too large may take, with that of the program itself.
const MAX_MEMORY_KIB: u64 = 120 * 1024;

/// A host that writes bytes.
struct Host {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    has_headers: bool,
}

impl Host {
    /// Starts the program without a daemon.
    fn start(home: &Home, has_headers: bool) -> Self {
        let mut command = home.program(&["mcp", "--url", "http://127.0.0.1:9"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout, has_headers }
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.stdin.write_all(bytes).await.unwrap();
    }

    async fn send(&mut self, text: &[u8]) {
        if self.has_headers {
            self.write(format!("Content-Length: {}\r\n\r\n", text.len()).as_bytes()).await;
            self.write(text).await;
        } else {
            self.write(text).await;
            self.write(b"\n").await;
        }
    }

    /// The next message, in the framing of the input.
    async fn message(&mut self) -> Value {
        let read = async {
            let mut line = String::new();
            self.stdout.read_line(&mut line).await.unwrap();
            let Some(length) = line.strip_prefix("Content-Length: ") else {
                assert!(!self.has_headers, "{line}");
                return serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
            };
            let mut text = vec![0; length.trim().parse::<usize>().unwrap() + 2];
            self.stdout.read_exact(&mut text).await.unwrap();
            assert!(self.has_headers && text.starts_with(b"\r\n"));
            serde_json::from_slice(&text[2..]).unwrap()
        };
        timeout(SOON, read).await.expect("no message arrives")
    }

    async fn ask(&mut self, id: u64, method: &str, params: Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.send(message.to_string().as_bytes()).await;
        let answer = self.message().await;
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// The code of the answer to bytes that are not a request. It has no id.
    async fn refused(&mut self, text: &[u8]) -> i64 {
        self.send(text).await;
        let answer = self.message().await;
        assert!(answer["id"].is_null(), "{answer}");
        answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}"))
    }

    fn memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id().unwrap())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_framings_survive_invalid_messages() {
    let home = Home::new();
    for has_headers in [false, true] {
        let mut host = Host::start(&home, has_headers);
        // Before the handshake, a request needs the fields of the modern revision.
        assert_eq!(host.ask(1, "tools/list", json!({})).await["error"]["code"], -32602);
        // These get no answer.
        for notification in ["notifications/cancelled", "notifications/unknown", "textDocument/didOpen"] {
            let message = json!({ "jsonrpc": "2.0", "method": notification, "params": {} });
            host.send(message.to_string().as_bytes()).await;
        }
        let client = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": { "name": "story", "version": "1" } });
        assert_eq!(host.ask(2, "initialize", client).await["result"]["protocolVersion"], LEGACY);
        host.send(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;

        for garbage in [&b"garbage"[..], b"\xff\xfe\x00", b"{\"jsonrpc\":\"2.0\",", b"{} {}"] {
            assert_eq!(host.refused(garbage).await, -32700, "{garbage:?}");
        }
        for other in [&b"[1, 2]"[..], b"\"text\"", b"{}", b"null"] {
            assert_eq!(host.refused(other).await, -32600, "{other:?}");
        }
        host.send(br#"{"id": 3, "value": 1}"#).await;
        let answer = host.message().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(3), &json!(-32600)));
        assert_eq!(host.ask(4, "nope", json!({})).await["error"]["code"], -32601);
        let unknown_tool = json!({ "name": "nope", "arguments": {} });
        assert_eq!(host.ask(5, "tools/call", unknown_tool).await["error"]["code"], -32602);

        let before = host.memory_kib();
        assert_eq!(host.refused(&vec![b'x'; 64 * 1024 * 1024]).await, -32600);
        let after = host.memory_kib();
        assert!(after < MAX_MEMORY_KIB, "{before} KiB before a message of 64 MiB, {after} KiB after it");
        let tools = host.ask(6, "tools/list", json!({})).await["result"]["tools"].clone();
        assert!(tools.as_array().unwrap().len() > 10, "{tools}");

        // A daemon that cannot be reached is a failed call.
        let call = host.ask(7, "tools/call", json!({ "name": "sandbox_info", "arguments": {} })).await;
        assert_eq!(call["result"]["isError"], true, "{call}");
        // Half a message is none.
        host.write(if has_headers { b"Content-Length: 99\r\n\r\n{\"json" } else { b"{\"json" }).await;
        drop(host.stdin);
        assert!(timeout(SOON, host.child.wait()).await.unwrap().unwrap().success());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_stops_reading_or_dies_leaves_no_process() {
    let daemon = Daemon::start().await;
    let program = daemon.home.program(&["mcp"]).as_std().get_program().to_owned();
    // Bash is the host: it holds both pipes.
    let script = r#"
        coproc MCP { exec "$PROGRAM" mcp --url "$URL"; }
        echo "$MCP_PID"
        while read -r line; do printf '%s\n' "$line" >&"${MCP[1]}"; done
        read -r -u "${MCP[0]}" line
        echo "$line"
        exec sleep 600
    "#;
    let mut command = Command::new("bash");
    command.args(["-c", script]).env("PROGRAM", program).env("URL", &daemon.base);
    command.env("SANDBOXD_ADMIN_TOKEN", crate::support::harness::TOKEN).kill_on_drop(true);
    let mut host = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let client = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": { "name": "story", "version": "1" } });
    let call = json!({ "name": "bash", "arguments": { "command": "sleep 600" } });
    let mut stdin = host.stdin.take().unwrap();
    for message in [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call }),
    ] {
        stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
    drop(stdin);
    let mut lines = BufReader::new(host.stdout.take().unwrap()).lines();
    let pid = lines.next_line().await.unwrap().unwrap();
    assert!(lines.next_line().await.unwrap().unwrap().contains(LEGACY));
    until("the command runs", || async {
        let sandboxes = daemon.client.list(&Default::default()).await.unwrap().sandboxes;
        sandboxes.first().is_some_and(|sandbox| sandbox.running_commands == 1)
    })
    .await;
    assert!(is_alive(&pid));
    host.kill().await.unwrap();
    until("the server has ended", || async { !is_alive(&pid) }).await;
    daemon.stop().await;

    // The host holds its end of the input, but no longer reads.
    let home = Home::new();
    let mut host = self::Host::start(&home, false);
    host.write(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await;
    assert_eq!(host.message().await["id"], 1);
    drop(host.stdout);
    host.stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\n").await.unwrap();
    timeout(Duration::from_secs(20), host.child.wait()).await.unwrap().unwrap();
}

/// Whether the process runs. One that has ended may still wait for its new parent to notice.
fn is_alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}
