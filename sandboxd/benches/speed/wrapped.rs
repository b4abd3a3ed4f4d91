//! Calls of a wrapped MCP server, beside the same server without a sandbox.

use std::process::Stdio;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use sandbox_api::mcp::RegisterMcpServer;
use sandbox_api::sandbox::CreateSandbox;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::sleep;

use crate::home::{Home, TOKEN};
use crate::table::{heading, ratio, row};

const WARM_UP: usize = 20;
const BLOCK: usize = 50;
const BLOCKS: usize = 8;
const SETTLE: Duration = Duration::from_millis(300);

/// The server of all contenders.
const SERVER: &str = include_str!("wrapped_server.py");

/// Last revision with a handshake, and the one without.
const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

pub(crate) async fn measure() {
    let mut home = Home::new();
    home.start().await;
    let mut plain = Program::start(Command::new("python3").args(["-c", SERVER])).await;
    let mut wrapped = Program::start(&mut wrapping(&home)).await;
    let mut http = Http::connect(&home).await;
    let (mut by_plain, mut by_wrapped, mut by_http) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=BLOCKS {
        let calls = if round == 0 { WARM_UP } else { BLOCK };
        sleep(SETTLE).await;
        let direct = plain.calls(calls).await;
        sleep(SETTLE).await;
        let over_stdio = wrapped.calls(calls).await;
        sleep(SETTLE).await;
        let over_http = http.calls(calls).await;
        if round > 0 {
            by_plain.extend(direct);
            by_wrapped.extend(over_stdio);
            by_http.extend(over_http);
        }
    }
    heading(&format!("a tool of a Python MCP server, {} calls each", BLOCK * BLOCKS));
    let plain = row("the server without a sandbox", by_plain);
    let stdio = row("sandboxd mcp --wrap", by_wrapped);
    let http = row("POST /mcp/{sandbox}/{name}", by_http);
    ratio(
        "--wrap / without a sandbox",
        stdio.p50 / plain.p50,
        &format!("+1 ms, is {:+.2}", stdio.p50 - plain.p50),
    );
    ratio(
        "over HTTP / without a sandbox",
        http.p50 / plain.p50,
        &format!("+1 ms, is {:+.2}", http.p50 - plain.p50),
    );
}

fn wrapping(home: &Home) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandboxd"));
    let url = format!("http://127.0.0.1:{}", home.port);
    command.args(["mcp", "--url", &url, "--wrap", "--pins"]).arg(home.path("pins.json"));
    command.args(["--", "python3", "-c", SERVER]).env("SANDBOXD_ADMIN_TOKEN", TOKEN);
    command
}

fn call(id: u64, text: &str, meta: Value) -> Value {
    let params = json!({ "name": "echo", "arguments": { "text": text }, "_meta": meta });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

fn check(answer: &[u8], text: &str) {
    let answer: Value = serde_json::from_slice(answer).unwrap();
    assert_eq!(answer["result"]["content"][0]["text"], text, "{answer}");
}

/// A server on standard input and output.
struct Program {
    _child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    id: u64,
}

impl Program {
    async fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut program = Self { _child: child, stdin, lines, id: 0 };
        let client = json!({ "name": "bench", "version": "1" });
        let params = json!({ "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": client });
        program.send(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })).await;
        program.lines.next_line().await.unwrap().unwrap();
        program.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        program
    }

    async fn send(&mut self, message: &Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn calls(&mut self, count: usize) -> Vec<Duration> {
        let mut times = Vec::new();
        for _ in 0..count {
            self.id += 1;
            let message = call(self.id, "hello", json!({}));
            let began = Instant::now();
            self.send(&message).await;
            let answer = self.lines.next_line().await.unwrap().unwrap();
            times.push(began.elapsed());
            check(answer.as_bytes(), "hello");
        }
        times
    }
}

/// A kept-alive connection to the daemon.
struct Http {
    sender: SendRequest<Full<bytes::Bytes>>,
    host: String,
    path: String,
    id: u64,
}

impl Http {
    async fn connect(home: &Home) -> Self {
        let client = home.client();
        let request = CreateSandbox { session_key: "chat:bench".into(), ..CreateSandbox::default() };
        let sandbox = client.create_or_reconnect(&request).await.unwrap().sandbox_id;
        let server = RegisterMcpServer {
            name: "bench".into(),
            cmd: "python3".into(),
            args: Some(["-c", SERVER].map(str::to_owned).to_vec()),
            ..RegisterMcpServer::default()
        };
        let path = client.register_mcp_server(&sandbox, &server).await.unwrap().path;
        let host = format!("127.0.0.1:{}", home.port);
        let stream = TcpStream::connect(&host).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self { sender, host, path, id: 0 }
    }

    async fn calls(&mut self, count: usize) -> Vec<Duration> {
        let mut times = Vec::new();
        for _ in 0..count {
            let began = Instant::now();
            let answer = self.call().await;
            times.push(began.elapsed());
            check(&answer, "hello");
        }
        times
    }

    async fn call(&mut self) -> bytes::Bytes {
        self.id += 1;
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let request = Request::post(&self.path)
            .header("host", &self.host)
            .header("authorization", format!("Bearer {TOKEN}"))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", MODERN)
            .header("mcp-method", "tools/call")
            .header("mcp-name", "echo")
            .body(Full::new(call(self.id, "hello", meta).to_string().into()))
            .unwrap();
        self.sender.ready().await.unwrap();
        let response = self.sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        response.into_body().collect().await.unwrap().to_bytes()
    }
}
