//! Request limits: connections that send too much, too slowly, or anything other than HTTP are closed without affecting
//! other clients.

use std::time::{Duration, Instant};

use sandbox_api::ErrorCode;
use sandboxd::model::limits;
use serde_json::json;

use crate::support::harness::{Daemon, Home};
use crate::support::http::{Answer, HttpClient, Wire};

const LIMIT: usize = 4096;

async fn daemon_with_small_bodies() -> Daemon {
    Daemon::start_in(Home::new().set("SANDBOXD_MAX_BODY_BYTES", &LIMIT.to_string())).await
}

#[track_caller]
fn is_too_large(answer: &Answer, what: &str) {
    let body = answer.refused(ErrorCode::TooLarge, what);
    assert_eq!(body.details["limit"], LIMIT, "{what}");
}

/// A create request whose body has this total length.
fn create_of(bytes: usize) -> String {
    let empty = json!({ "sessionKey": "", "padding": "" }).to_string();
    json!({ "sessionKey": "", "padding": "x".repeat(bytes - empty.len()) }).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_over_the_limit_is_rejected_with_the_limit() {
    let daemon = daemon_with_small_bodies().await;
    let api = HttpClient::of(&daemon);
    let ask = |bytes: usize| {
        let ask = api.with_token("POST", "/v1/sandboxes").header("content-type", "application/json");
        Answer::to(ask.body(create_of(bytes)))
    };
    ask(LIMIT).await.faults("sessionKey", "a body of the limit");
    is_too_large(&ask(LIMIT + 1).await, "one byte more");
    // So far over the limit that the client still writes when the response arrives. It must be able to read it.
    for round in 0..5 {
        is_too_large(&ask(8 * 1024 * 1024).await, &format!("8 MiB, round {round}"));
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_declared_too_large_is_rejected_at_once() {
    let daemon = daemon_with_small_bodies().await;
    for length in [LIMIT as u64 + 1, 1 << 40, u64::MAX / 2] {
        let mut wire = Wire::to(&daemon).await;
        wire.begin("POST", "/v1/sandboxes").await;
        let rest = format!("content-type: application/json\r\ncontent-length: {length}\r\n\r\n");
        wire.send(rest.as_bytes()).await.unwrap();
        is_too_large(&wire.answer().await, &format!("a length of {length}"));
    }
    // The same holds for the body of a client without a token.
    let mut wire = Wire::to(&daemon).await;
    wire.send(b"POST /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4000\r\n\r\n")
        .await
        .unwrap();
    wire.answer().await.refused(ErrorCode::Unauthenticated, "no token and no body yet");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_sent_before_the_body_is_read_closes_the_connection() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    for (path, closes) in [("?path=../out", "close"), ("?path=in", "")] {
        let mut wire = Wire::to(&daemon).await;
        wire.begin("PUT", &format!("/v1/sandboxes/{sandbox}/files{path}")).await;
        let body = if closes.is_empty() {
            &b"content-length: 3\r\n\r\nabc"[..]
        } else {
            b"content-length: 9\r\n\r\nabc"
        };
        wire.send(body).await.unwrap();
        assert_eq!(wire.answer().await.header("connection"), closes, "{path}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunked_body_is_cut_at_the_limit() {
    let daemon = daemon_with_small_bodies().await;
    let mut wire = Wire::to(&daemon).await;
    wire.begin("POST", "/v1/sandboxes").await;
    wire.send(b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
    let chunk = format!("400\r\n{}\r\n", "x".repeat(1024));
    for _ in 0..=LIMIT / 1024 {
        wire.send(chunk.as_bytes()).await.unwrap();
    }
    // The last chunk is never sent.
    is_too_large(&wire.answer().await, "chunks without an end");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_head_is_rejected() {
    let daemon = Daemon::start().await;
    let long_header = format!("x-long: {}\r\n", "x".repeat(limits::MAX_HEAD_BYTES));
    let long_path = format!("/v1/{}", "x".repeat(limits::MAX_HEAD_BYTES));
    let many: String = (0..limits::MAX_HEADERS).map(|at| format!("x-{at}: 1\r\n")).collect();
    let heads = [
        format!("GET /v1/health HTTP/1.1\r\nhost: localhost\r\n{long_header}\r\n"),
        format!("GET {long_path} HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        format!("GET /v1/health HTTP/1.1\r\nhost: localhost\r\n{many}\r\n"),
    ];
    for head in heads {
        let what = &head[..40];
        let mut wire = Wire::to(&daemon).await;
        // The daemon may close the connection before it has read all of it.
        let _ = wire.send(head.as_bytes()).await;
        let received = wire.until_closed(Duration::from_secs(5)).await;
        let status = String::from_utf8_lossy(&received).split(' ').nth(1).unwrap_or("none").to_owned();
        assert!(["none", "414", "431"].contains(&status.as_str()), "{what}: {status}");
    }
    // The maximum itself is accepted.
    let mut wire = Wire::to(&daemon).await;
    let many: String = (0..limits::MAX_HEADERS - 1).map(|at| format!("x-{at}: 1\r\n")).collect();
    let head = format!("GET /v1/health HTTP/1.1\r\nhost: localhost\r\n{many}\r\n");
    wire.send(head.as_bytes()).await.unwrap();
    assert_eq!(wire.answer().await.status, 200);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_sends_no_head_is_closed() {
    let daemon = Daemon::start().await;
    let mut silent = Wire::to(&daemon).await;
    let mut wire = Wire::to(&daemon).await;
    let began = Instant::now();
    wire.send(b"GET /v1/health HTTP/1.1\r\n").await.unwrap();
    let bound = limits::REQUEST_HEAD * 2;
    // Such a client sends a byte now and then. No byte may extend its time.
    let trickle = async {
        let mut tick = tokio::time::interval(Duration::from_millis(200));
        while wire.send(b"x").await.is_ok() {
            tick.tick().await;
        }
    };
    tokio::time::timeout(bound, trickle).await.unwrap_or_else(|_| panic!("still open after {bound:?}"));
    assert!(began.elapsed() >= limits::REQUEST_HEAD / 2, "cut after {:?}", began.elapsed());
    silent.until_closed(bound).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_send_garbage_disturb_no_other_client() {
    let daemon = Daemon::start().await;
    let nonsense: [&[u8]; 10] = [
        b"",
        b"\0\0\0\0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /v1/health HTTP/9.9\r\n\r\n",
        b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/sandboxes HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET /v1/health HTTP/1.1\r\nhost\x00: localhost\r\n\r\n",
        b"GET /v1/health HTTP/1.1\r\nhost: localhost\r\n folded: header\r\n\r\n",
    ];
    let mut open = Vec::new();
    for bytes in nonsense.iter().chain(&nonsense) {
        let mut wire = Wire::to(&daemon).await;
        let _ = wire.send(bytes).await;
        open.push(wire);
    }
    // Half a body from a client with the token, then silence.
    let mut wire = Wire::to(&daemon).await;
    wire.begin("POST", "/v1/sandboxes").await;
    wire.send(b"content-type: application/json\r\ncontent-length: 20\r\n\r\n{\"session").await.unwrap();
    open.push(wire);

    let sandbox = daemon.sandbox("chat:1").await;
    assert_eq!(daemon.output(&sandbox, "echo hi").await, "hi\n");
    drop(open);
    assert_eq!(daemon.output(&sandbox, "echo still here").await, "still here\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_body_has_no_effect() {
    let daemon = Daemon::start().await;
    let mut wire = Wire::to(&daemon).await;
    wire.begin("POST", "/v1/sandboxes").await;
    let whole = json!({ "sessionKey": "chat:1" }).to_string();
    let head = format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n", whole.len() + 1);
    wire.send(format!("{head}{whole}").as_bytes()).await.unwrap();
    drop(wire);
    // The session is as if there had been no request.
    let answer = HttpClient::of(&daemon).post("/v1/sandboxes", &json!({ "sessionKey": "chat:1" })).await;
    assert_eq!((answer.status, &answer.json()["created"]), (200, &json!(true)));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_large_bodies_do_not_delay_small_ones() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let sandbox = daemon.sandbox("chat:1").await;
    let length = daemon.home.config().limits.max_body_bytes;
    let head = format!("content-type: application/json\r\ncontent-length: {length}\r\n\r\n");
    let path = format!("/v1/sandboxes/{sandbox}/files:write");
    let begun = "x".repeat(2 * limits::SMALL_BODY_BYTES);
    let mut open = Vec::new();
    for at in 0..2 * limits::MAX_BODIES_BYTES.div_ceil(length) {
        let mut wire = Wire::to(&daemon).await;
        wire.begin("POST", &path).await;
        wire.send(head.as_bytes()).await.unwrap();
        // Half of them send nothing, and half send just enough to count as large.
        if at % 2 == 0 {
            // The daemon may stop reading before the end of the body.
            let _ = tokio::time::timeout(Duration::from_secs(1), wire.send(begun.as_bytes())).await;
        }
        open.push(wire);
    }
    let began = Instant::now();
    let made = api.post("/v1/sandboxes", &json!({ "sessionKey": "chat:2" })).await;
    assert_eq!((made.status, &made.json()["created"]), (200, &json!(true)));
    assert_eq!(daemon.output(&sandbox, "echo hi").await, "hi\n");
    // A body of unknown length counts as small once it has ended.
    let mut wire = Wire::to(&daemon).await;
    wire.begin("POST", &format!("/v1/sandboxes/{sandbox}/commands")).await;
    wire.send(b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
    wire.send(b"11\r\n{\"script\":\"true\"}\r\n0\r\n\r\n").await.unwrap();
    assert_eq!(wire.answer().await.status, 200);
    assert!(began.elapsed() < limits::REQUEST_BODY / 4, "held up for {:?}", began.elapsed());
    drop(open);
    // Large bodies are accepted again.
    let large = json!({ "files": [{ "path": "large", "contentBase64": "AAAA".repeat(length / 32) }] });
    assert_eq!(api.post(&path, &large).await.status, 200);
    daemon.stop().await;
}
