//! Requests that a front and the daemon could read in two ways, and what every answer says of itself.

use sandbox_api::{ErrorCode, TOKEN_HEADER};
use serde_json::json;

use crate::support::harness::{Daemon, SOON, TOKEN};
use crate::support::http::{Answer, Asker, Wire};

/// Of all the answers to what is sent at once, until the daemon hangs up.
async fn statuses(daemon: &Daemon, requests: &str) -> Vec<String> {
    let mut wire = Wire::to(daemon).await;
    wire.send(requests.as_bytes()).await.unwrap();
    let heard = wire.until_hung_up(SOON).await;
    String::from_utf8_lossy(&heard).split("HTTP/1.1 ").skip(1).map(|answer| answer[..3].to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_in_two_ways_is_refused_and_its_connection_ends() {
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
    // The same behind a valid request that waits for no answer, and before one that is never answered.
    let fine = "GET /v1/health HTTP/1.1\r\nhost: localhost\r\n\r\n";
    for request in &refused {
        assert_eq!(statuses(&daemon, &format!("{fine}{request}{fine}")).await, ["200", "400"], "{request}");
    }
    // hyper refuses these by itself, with a status alone.
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
async fn no_answer_is_kept_or_taken_for_something_else() {
    let daemon = Daemon::start().await;
    let asker = Asker::of(&daemon);
    let sandbox = daemon.sandbox("chat:1").await;
    let commands = format!("/v1/sandboxes/{sandbox}/commands");
    let answers = [
        asker.get("/v1/health").await,
        asker.get("/v1/sandboxes").await,
        asker.get("/nope").await,
        Answer::to(asker.without_token("GET", "/v1/sandboxes")).await,
        asker.post(&commands, &json!({ "script": "true" })).await,
        asker.post(&format!("{commands}?stream=true"), &json!({ "script": "echo a" })).await,
        asker.post("/v1/sandboxes", &json!({})).await,
    ];
    for answer in answers {
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{answer:?}");
        assert_eq!(answer.header("cache-control"), "no-store", "{answer:?}");
    }
    assert_eq!(asker.get("/metrics").await.header("x-content-type-options"), "nosniff");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_key_is_taken_as_it_is() {
    let daemon = Daemon::start().await;
    let asker = Asker::of(&daemon);
    for key in [" chat:1", "chat:1 ", "chat:1\n", "\u{a0}chat:1", "   "] {
        asker.post("/v1/sandboxes", &json!({ "sessionKey": key })).await.faults("sessionKey", key);
    }
    let wish = json!({ "sessionKey": "a: b", "ports": [80, 3000, 80, 3000, 1, 2] });
    let made = asker.post("/v1/sandboxes", &wish).await;
    assert_eq!(made.status, 200, "four distinct ports, low ones among them");
    let many = asker.post("/v1/sandboxes", &json!({ "sessionKey": "c", "ports": [1, 2, 3, 4, 5] })).await;
    many.faults("ports", "five");
    daemon.stop().await;
}
