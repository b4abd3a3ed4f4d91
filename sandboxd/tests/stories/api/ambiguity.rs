//! Requests that a proxy and the daemon could parse differently, and the headers that every response carries.

use sandbox_api::{ErrorCode, TOKEN_HEADER};
use serde_json::json;

use crate::support::harness::{Daemon, SOON, TOKEN};
use crate::support::http::{Answer, HttpClient, Wire};

/// Statuses of all responses to what is sent at once, until the daemon closes the connection.
async fn statuses(daemon: &Daemon, requests: &str) -> Vec<String> {
    let mut wire = Wire::to(daemon).await;
    wire.send(requests.as_bytes()).await.unwrap();
    let received = wire.until_closed(SOON).await;
    String::from_utf8_lossy(&received)
        .split("HTTP/1.1 ")
        .skip(1)
        .map(|answer| answer[..3].to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ambiguous_request_is_rejected_and_its_connection_closed() {
    let daemon = Daemon::start().await;
    let token = format!("{TOKEN_HEADER}: {TOKEN}");
    let refused = [
        format!("GET /v1/sandboxes HTTP/1.1\r\n{token}\r\n\r\n"),
        format!("GET /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\nhost: localhost\r\n{token}\r\n\r\n"),
        format!("GET /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n{token}\r\n\r\n"),
        format!("GET http://evil.example/v1/sandboxes HTTP/1.1\r\nhost: localhost\r\n{token}\r\n\r\n"),
        format!("GET http://127.0.0.1/v1/sandboxes HTTP/1.1\r\nhost: localhost\r\n{token}\r\n\r\n"),
        format!("GET /v1/sandboxes HTTP/1.1\nhost: localhost\n{token}\n\n"),
        format!("GET /v1/sandboxes HTTP/1.1\r\nhost: localhost\nx: y\r\n{token}\r\n\r\n"),
        format!(
            "POST /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: gzip, chunked\r\n{token}\r\n\r\n0\r\n\r\n"
        ),
        format!(
            "POST /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\
             transfer-encoding: chunked\r\n{token}\r\n\r\n0\r\n\r\n"
        ),
        format!(
            "POST /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\
             transfer-encoding: chunked\r\n{token}\r\n\r\n0\r\n\r\n"
        ),
        format!(
            "POST /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\
             content-length: 5\r\n{token}\r\n\r\n0\r\n\r\n"
        ),
    ];
    for request in &refused {
        let mut wire = Wire::to(&daemon).await;
        wire.send(request.as_bytes()).await.unwrap();
        let answer = wire.answer().await;
        answer.refused(ErrorCode::InvalidRequest, request);
        assert_eq!(answer.header("connection"), "close", "{request}");
    }
    // The same after a valid pipelined request, and before a request that is never answered.
    let fine = "GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for request in &refused {
        assert_eq!(statuses(&daemon, &format!("{fine}{request}{fine}")).await, ["200", "400"], "{request}");
    }
    // hyper rejects these itself, with only a status.
    for lengths in ["content-length: 3\r\ncontent-length: 4", "content-length: 3, 4", "content-length: +3"] {
        let head = format!("POST /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\n{token}\r\n{lengths}\r\n\r\n");
        assert_eq!(statuses(&daemon, &format!("{fine}{head}abc{fine}")).await, ["200", "400"], "{lengths}");
    }
    for coding in ["gzip", "chunked, gzip", "xchunked", "chunked;q=1"] {
        let mut wire = Wire::to(&daemon).await;
        let head =
            format!("POST /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: {coding}\r\n");
        wire.send(format!("{head}{token}\r\n\r\n").as_bytes()).await.unwrap();
        assert_eq!(wire.answer().await.status, 400, "{coding}");
    }
    let mut wire = Wire::to(&daemon).await;
    let own = format!("GET http://localhost/v1/sandboxes HTTP/1.1\r\nhost: localhost\r\n{token}\r\n\r\n");
    wire.send(own.as_bytes()).await.unwrap();
    assert_eq!(wire.answer().await.status, 200, "the absolute form of its own host");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_response_is_cached_or_sniffed() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let sandbox = daemon.sandbox("chat:1").await;
    let commands = format!("/v1/sandboxes/{sandbox}/commands");
    let answers = [
        api.get("/v1/health").await,
        api.get("/v1/sandboxes").await,
        api.get("/nope").await,
        Answer::to(api.without_token("GET", "/v1/sandboxes")).await,
        api.post(&commands, &json!({ "script": "true" })).await,
        api.post(&format!("{commands}?stream=true"), &json!({ "script": "echo a" })).await,
        api.post("/v1/sandboxes", &json!({})).await,
    ];
    for answer in answers {
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{answer:?}");
        assert_eq!(answer.header("cache-control"), "no-store", "{answer:?}");
    }
    assert_eq!(api.get("/metrics").await.header("x-content-type-options"), "nosniff");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_key_is_kept_unchanged() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    for key in [" chat:1", "chat:1 ", "chat:1\n", "\u{a0}chat:1", "   "] {
        api.post("/v1/sandboxes", &json!({ "sessionKey": key })).await.faults("sessionKey", key);
    }
    let request = json!({ "sessionKey": "a: b", "ports": [80, 3000, 80, 3000, 1, 2] });
    let made = api.post("/v1/sandboxes", &request).await;
    assert_eq!(made.status, 200, "four distinct ports, low ones among them");
    let many = api.post("/v1/sandboxes", &json!({ "sessionKey": "c", "ports": [1, 2, 3, 4, 5] })).await;
    many.faults("ports", "five");
    daemon.stop().await;
}
