//! Calls of the tool `bash` over MCP, beside the same command over the HTTP API.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use sandbox_api::SandboxId;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::home::{Home, TOKEN};
use crate::table::{heading, ratio, row};

const WARM_UP: usize = 20;
const BLOCK: usize = 50;
const BLOCKS: usize = 8;
const SETTLE: Duration = Duration::from_millis(300);

/// Calls of the load test, and how many of them run at once.
const LOAD_CALLS: u64 = 5000;
const LOAD_AT_ONCE: u64 = 50;

/// Revision of the protocol without a handshake.
const REVISION: &str = "2026-07-28";

/// Session of the sandbox that every contender uses.
const SESSION: &str = "bench";

pub(crate) async fn measure() {
    let mut home = Home::new();
    home.start().await;
    let mut mcp = Http::connect(home.port).await;
    mcp.call("bash", json!({ "command": "true" })).await;
    latency(&home, &mut mcp).await;
    load(&home).await;
}

async fn latency(home: &Home, mcp: &mut Http) {
    let info = mcp.call("sandbox_info", json!({})).await;
    let sandbox: SandboxId = info["sandbox"].as_str().unwrap().parse().unwrap();
    let mut api = Http::connect(home.port).await;
    let mut stdio = Program::start(home);
    let (mut by_api, mut by_http, mut by_stdio) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=BLOCKS {
        let calls = if round == 0 { WARM_UP } else { BLOCK };
        sleep(SETTLE).await;
        let ours = api.commands(&sandbox, calls).await;
        sleep(SETTLE).await;
        let over_http = mcp.calls(calls).await;
        sleep(SETTLE).await;
        let over_stdio = stdio.calls(calls).await;
        if round > 0 {
            by_api.extend(ours);
            by_http.extend(over_http);
            by_stdio.extend(over_stdio);
        }
    }
    heading(&format!("the tool `bash` with `true`, {} calls each", BLOCK * BLOCKS));
    let api = row("HTTP API, `commands:run`", by_api);
    let http = row("MCP over HTTP", by_http);
    let stdio = row("MCP over standard input and output", by_stdio);
    ratio("MCP over HTTP / HTTP API", http.p50 / api.p50, &format!("+0.7 ms, is {:+.2}", http.p50 - api.p50));
    ratio(
        "MCP over stdio / HTTP API",
        stdio.p50 / api.p50,
        &format!("+1.0 ms, is {:+.2}", stdio.p50 - api.p50),
    );
}

/// Many calls at once. Each must succeed.
async fn load(home: &Home) {
    let left = Arc::new(AtomicU64::new(LOAD_CALLS));
    let mut callers = JoinSet::new();
    let began = Instant::now();
    for _ in 0..LOAD_AT_ONCE {
        let (port, left) = (home.port, Arc::clone(&left));
        callers.spawn(async move {
            let mut mcp = Http::connect(port).await;
            let mut times = Vec::new();
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
            {
                times.extend(mcp.calls(1).await);
            }
            times
        });
    }
    let mut times = Vec::new();
    while let Some(caller) = callers.join_next().await {
        times.extend(caller.unwrap());
    }
    let rate = LOAD_CALLS as f64 / began.elapsed().as_secs_f64();
    heading(&format!("{LOAD_CALLS} calls over MCP, {LOAD_AT_ONCE} at a time, without an error"));
    row(&format!("MCP over HTTP, {rate:.0} calls a second"), times);
}

/// A call of a tool, in the revision without a handshake.
fn message(id: u64, tool: &str, arguments: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

/// The structured result of a call.
fn result_of(answer: &[u8]) -> Value {
    let answer: Value = serde_json::from_slice(answer).unwrap();
    assert_ne!(answer["result"]["isError"], true, "{answer}");
    answer["result"]["structuredContent"].clone()
}

/// A kept-alive connection to the daemon.
struct Http {
    sender: SendRequest<Full<Bytes>>,
    host: String,
    id: u64,
}

impl Http {
    async fn connect(port: u16) -> Self {
        let host = format!("127.0.0.1:{port}");
        let stream = TcpStream::connect(&host).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self { sender, host, id: 0 }
    }

    /// Calls a tool in the session's sandbox.
    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.id += 1;
        let message = message(self.id, tool, arguments);
        let request = Request::post("/mcp")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", REVISION)
            .header("mcp-method", "tools/call")
            .header("mcp-name", tool)
            .header("x-sandbox-session", SESSION);
        result_of(&self.send(request, message).await)
    }

    async fn calls(&mut self, count: usize) -> Vec<Duration> {
        let mut times = Vec::new();
        for _ in 0..count {
            let began = Instant::now();
            let ran = self.call("bash", json!({ "command": "true" })).await;
            times.push(began.elapsed());
            assert_eq!(ran["exitCode"], 0);
        }
        times
    }

    /// The same command, without a tool.
    async fn commands(&mut self, sandbox: &SandboxId, count: usize) -> Vec<Duration> {
        let mut times = Vec::new();
        for _ in 0..count {
            let began = Instant::now();
            let request = Request::post(format!("/v1/sandboxes/{sandbox}/commands:run"));
            let ran = self.send(request, json!({ "script": "true" })).await;
            times.push(began.elapsed());
            assert_eq!(serde_json::from_slice::<Value>(&ran).unwrap()["exitCode"], 0);
        }
        times
    }

    async fn send(&mut self, request: hyper::http::request::Builder, body: Value) -> Bytes {
        let request = request
            .header("host", &self.host)
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {TOKEN}"))
            .body(Full::new(body.to_string().into()))
            .unwrap();
        self.sender.ready().await.unwrap();
        let response = self.sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        response.into_body().collect().await.unwrap().to_bytes()
    }
}

/// `sandboxd mcp`, as a host starts it.
struct Program {
    _child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    id: u64,
}

impl Program {
    fn start(home: &Home) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sandboxd"))
            .args(["mcp", "--url", &format!("http://127.0.0.1:{}", home.port), "--session", SESSION])
            .env("SANDBOXD_ADMIN_TOKEN", TOKEN)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { _child: child, stdin, lines, id: 0 }
    }

    async fn calls(&mut self, count: usize) -> Vec<Duration> {
        let mut times = Vec::new();
        for _ in 0..count {
            self.id += 1;
            let message = message(self.id, "bash", json!({ "command": "true" }));
            let began = Instant::now();
            self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
            let answer = self.lines.next_line().await.unwrap().unwrap();
            times.push(began.elapsed());
            assert_eq!(result_of(answer.as_bytes())["exitCode"], 0);
        }
        times
    }
}
