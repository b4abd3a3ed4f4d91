//! MCP over HTTP: requests that are wrong, too large or too many, and clients that do not read.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::mcp_client::{MODERN, Mcp, messages};
use crate::support::harness::{Daemon, TOKEN, until};

/// Memory that the bodies of all calls share, and the maximum length of one.
const ALL_BODIES: usize = 64 * 1024 * 1024;
const MAX_BODY: usize = 16 * 1024 * 1024;

/// Body length up to which a request needs no share.
const SMALL_BODY: usize = 64 * 1024;

/// Sends the head of a request with a body of this length, and `part` of the body.
async fn begin_request(daemon: &Daemon, headers: &str, length: usize, part: &[u8]) -> TcpStream {
    let address = daemon.base.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {TOKEN}\r\n{headers}\
        content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
        x-sandbox-session: raw\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(part).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_must_agree_with_the_body() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": "sandbox_open", "arguments": {}, "_meta": meta });
    let message = json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params });
    let right =
        [("mcp-protocol-version", MODERN), ("mcp-method", "tools/call"), ("mcp-name", "sandbox_open")];
    let wrong = [("mcp-protocol-version", "2025-11-25"), ("mcp-method", "tools/list"), ("mcp-name", "bash")];
    for changed in 0..right.len() {
        for value in [None, Some(wrong[changed].1)] {
            let mut request = client.post(&message);
            for (index, (name, text)) in right.into_iter().enumerate() {
                let text = if index == changed { value } else { Some(text) };
                if let Some(text) = text {
                    request = request.header(name, text);
                }
            }
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 400, "{} as {value:?}", right[changed].0);
            let (answer, _) = messages(response).await;
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32020)), "{answer}");
        }
    }
    let mut without_meta = message.clone();
    without_meta["params"]["_meta"] = json!({});
    let response = right
        .into_iter()
        .fold(client.post(&without_meta), |request, (name, value)| request.header(name, value));
    let response = response.send().await.unwrap();
    assert_eq!(response.status(), 400);
    assert_eq!(messages(response).await.0["error"]["code"], -32602);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_not_a_message_gets_an_error_of_the_protocol() {
    let daemon = Daemon::start().await;
    let request = |body: &'static [u8], content_type: &'static str| {
        let request = reqwest::Client::new().post(format!("{}/mcp", daemon.base)).bearer_auth(TOKEN);
        let accept = "application/json, text/event-stream";
        request.header("accept", accept).header("content-type", content_type).body(body).send()
    };
    let cases: [(&[u8], i64); 8] = [
        (b"garbage", -32700),
        (b"", -32700),
        (b"\xff\xfe\x00", -32700),
        (b"{} {}", -32700),
        (b"[1, 2]", -32600),
        (b"\"text\"", -32600),
        (b"{}", -32600),
        (b"null", -32600),
    ];
    for (body, code) in cases {
        let response = request(body, "application/json; charset=utf-8").await.unwrap();
        assert_eq!(response.status(), 400, "{body:?}");
        assert_eq!(response.headers()["content-type"], "application/json");
        let answer: Value = response.json().await.unwrap();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(null)), "{answer}");
        assert_eq!(answer["error"]["code"], code, "{body:?}: {answer}");
    }
    assert_eq!(request(b"{}", "text/plain").await.unwrap().status(), 415);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_share_a_limited_memory() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("bodies");
    client.output("true").await;
    let part = vec![b' '; 2 * SMALL_BODY];
    let mut stalled = Vec::new();
    for _ in 0..ALL_BODIES / MAX_BODY {
        stalled.push(begin_request(&daemon, "", MAX_BODY, &part).await);
    }
    let content = "x".repeat(1024 * 1024);
    let write = || client.result("write", json!({ "path": "large", "content": content }));
    until("the memory is full", || async { timeout(Duration::from_millis(300), write()).await.is_err() })
        .await;
    // Small calls do not wait, also those of the plain HTTP server, which shares the memory.
    assert_eq!(client.output("echo small").await, "small\n");
    drop(stalled.pop());
    assert_eq!(write().await["bytes"], content.len());
    drop(stalled);

    let too_large = "x".repeat(MAX_BODY);
    let response =
        client.request("tools/call", json!({ "name": "write", "arguments": { "content": too_large } }));
    let response = response.send().await.unwrap();
    assert_eq!(response.status(), 413);
    let (answer, _) = messages(response).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("16777216"), "{answer}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_disturbs_only_itself() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("raw");
    client.output("true").await;
    // An unread stream for notifications, and large unread answers.
    let stream = Mcp::of(&daemon).legacy().await.listen().await;
    let list = request_text("tools/list", json!({}));
    let headers = format!("mcp-protocol-version: {MODERN}\r\nmcp-method: tools/list\r\n");
    let mut unread = Vec::new();
    for _ in 0..8 {
        let mut stream = begin_request(&daemon, &headers, list.len(), list.as_bytes()).await;
        let address = daemon.base.trim_start_matches("http://");
        let again = format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {TOKEN}\r\n{headers}\
            content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
            content-length: {}\r\n\r\n{list}",
            list.len()
        );
        let pipelined = again.repeat(200);
        // The daemon stops reading when its answers are not read.
        let _ = timeout(Duration::from_millis(200), stream.write_all(pipelined.as_bytes())).await;
        unread.push(stream);
    }
    // A command whose output stays unread.
    let arguments = json!({ "command": "yes", "waitMs": 100_000 });
    let params = json!({ "name": "bash", "arguments": arguments, "_meta": { "progressToken": 1 } });
    let bash = request_text("tools/call", params);
    let headers = format!("mcp-protocol-version: {MODERN}\r\nmcp-method: tools/call\r\nmcp-name: bash\r\n");
    let command = begin_request(&daemon, &headers, bash.len(), bash.as_bytes()).await;
    let running = || async {
        let listed = client.result("bash_list", json!({})).await;
        listed["commands"].as_array().unwrap().iter().any(|command| command["running"] == true)
    };
    until("the command runs", running).await;
    assert_eq!(client.output("echo others").await, "others\n");
    // A closed connection ends the command.
    drop((command, unread, stream));
    until("the command has ended", || async { !running().await }).await;
    daemon.stop().await;
}

/// A message of the modern revision.
fn request_text(method: &str, mut params: Value) -> String {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn output_of_any_bytes_becomes_valid_json() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon).in_session("bytes");
    // `messages` parses the response. Control characters such as NUL are removed.
    let command = "head -c 5M /dev/zero; head -c 5M /dev/zero | tr '\\0' '\\377'";
    let result = client.result("bash", json!({ "command": command })).await;
    let stdout = result["stdout"].as_str().unwrap();
    assert!(stdout.ends_with('\u{fffd}') && stdout.chars().count() < 25_000, "{}", stdout.len());
    assert_eq!((&result["exitCode"], &result["truncated"]), (&json!(0), &json!(true)));
    daemon.stop().await;
}
