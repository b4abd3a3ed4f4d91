//! Access control.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use test_daemon::{SOON, TOKEN};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::test_app::{TestApp, answer};

const PRIVATE: [(&str, &str); 18] = [
    ("POST", "/api/chat"),
    ("POST", "/api/temporary"),
    ("GET", "/api/changes"),
    ("GET", "/api/chats"),
    ("GET", "/api/chats/1"),
    ("DELETE", "/api/chats/1"),
    ("GET", "/api/chats/1/sandbox"),
    ("DELETE", "/api/chats/1/sandbox"),
    ("POST", "/api/chats/1/sandbox/park"),
    ("GET", "/api/chats/1/network"),
    ("POST", "/api/chats/1/network/allow"),
    ("GET", "/api/chats/1/files"),
    ("PUT", "/api/chats/1/files/content?path=a"),
    ("DELETE", "/api/chats/1/files?path=a"),
    ("GET", "/api/chats/1/terminals"),
    ("POST", "/api/chats/1/terminals"),
    ("DELETE", "/api/chats/1/terminals/2"),
    ("POST", "/api/chats/1/terminals/2/ticket"),
];

#[tokio::test(flavor = "multi_thread")]
async fn private_routes_need_the_token_over_a_network() {
    let app = TestApp::with("lan", "", Vec::new()).await;
    // An address may send ten wrong tokens at once, on any routes.
    let mut wrong = 0;
    for (method, path) in PRIVATE {
        for token in [None, Some("a-wrong-token-of-more-than-32-characters")] {
            let request = app.request(method.parse().unwrap(), path);
            let request =
                token.iter().fold(request, |it, token| it.header("x-remcochat-admin-token", *token));
            wrong += usize::from(token.is_some());
            let is_throttled = token.is_some() && wrong > 10;
            let wanted = if is_throttled { (429, Some("rate_limited")) } else { (401, Some("unauthorized")) };
            let (status, error) = answer(request).await;
            assert_eq!((status.as_u16(), error["code"].as_str()), wanted, "{method} {path}");
        }
    }
    assert!(wrong > 10, "the test has enough routes");
    let guess = app.request(Method::GET, "/api/app").header("authorization", "Bearer guessed");
    let refused = guess.send().await.unwrap();
    assert_eq!(refused.status(), 429, "an open route cannot be used to guess the token");
    assert!(refused.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap() > 0);
    let (_, settings) = app.get("/api/app").await;
    assert_eq!(
        (&settings["access"], &settings["mayUse"], &settings["tools"]["enabled"]),
        (&json!("lan"), &json!(false), &json!(false))
    );
    let (_, access) = app.get("/api/admin/access").await;
    assert_eq!((&access["allowed"], &access["reason"]), (&json!(false), &json!("missing_client_token")));
    let with =
        |method: Method, path: &str| app.request(method, path).header("x-remcochat-admin-token", TOKEN);
    assert_eq!(answer(with(Method::GET, "/api/chats")).await.0, 200);
    assert_eq!(answer(with(Method::GET, "/api/app")).await.1["mayUse"], true);
    let response = app
        .say("1", "/bash echo in")
        .header("authorization", format!("Bearer {TOKEN}"))
        .send()
        .await
        .unwrap();
    assert_eq!(response.headers()["x-remcochat-bash-tools-enabled"], "1");
    assert!(response.text().await.unwrap().contains("in\\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_origins_cannot_change_anything() {
    let app = TestApp::start().await;
    for (method, path) in PRIVATE.iter().filter(|(method, _)| *method != "GET") {
        for (name, value) in [
            ("origin", "https://evil.example"),
            ("origin", "http://127.0.0.1:42000"),
            ("origin", "null"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("host", "rebound.example"),
        ] {
            let (status, error) =
                answer(app.request(method.parse().unwrap(), path).header(name, value)).await;
            let got = (status.as_u16(), error["code"].as_str());
            assert_eq!(got, (403, Some("foreign_origin")), "{method} {path} {name}: {value}");
        }
    }
    let rebound = app.request(Method::GET, "/api/chats").header("host", "rebound.example");
    assert_eq!(answer(rebound).await.0, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_response_has_security_headers() {
    let app = TestApp::start().await;
    for path in ["/", "/c/1", "/api/health", "/api/chats", "/none"] {
        let response = app.request(Method::GET, path).send().await.unwrap();
        let policy = response.headers()["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{path}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(response.headers()["x-content-type-options"], "nosniff");
        assert!(!response.headers().contains_key("access-control-allow-origin"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_do_not_block_others() {
    let app = TestApp::start().await;
    let address = app.base.strip_prefix("http://").unwrap().to_owned();
    let mut idle = Vec::new();
    for _ in 0..600 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(b"GET /api/health HTTP/1.1\r\nhost: localh").await.unwrap();
        idle.push(stream);
    }
    let (status, _) =
        timeout(Duration::from_secs(20), app.get("/api/health")).await.expect("the server responds");
    assert_eq!(status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_in_two_headers_must_be_the_same() {
    let app = TestApp::with("lan", "", Vec::new()).await;
    let wrong = "Bearer a-wrong-token-of-more-than-32-characters";
    let right = format!("Bearer {TOKEN}");
    let own = ("x-remcochat-admin-token", TOKEN);
    for (headers, status) in [
        (vec![own, ("authorization", right.as_str())], 200),
        (vec![own, ("authorization", wrong)], 401),
        (vec![own, own], 401),
    ] {
        let request = app.request(Method::GET, "/api/chats");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        assert_eq!(answer(request).await.0, status, "{headers:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn json_needs_its_content_type() {
    let app = TestApp::start().await;
    for (method, path, body) in [
        (Method::POST, "/api/chat", r#"{"id":"1","messages":[]}"#),
        (Method::PATCH, "/api/chats/1", r#"{"title":"a"}"#),
    ] {
        for kind in ["text/plain", "application/merge-patch+json", "application/jsonx", ""] {
            let request = app.request(method.clone(), path).header("content-type", kind).body(body);
            let (status, error) = answer(request).await;
            let got = (status.as_u16(), error["code"].as_str());
            assert_eq!(got, (415, Some("unsupported_media_type")), "{method} {kind}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ambiguous_request_after_a_valid_one_is_rejected() {
    let app = TestApp::start().await;
    let address = app.base.strip_prefix("http://").unwrap().to_owned();
    let fine = format!("GET /api/health HTTP/1.1\r\nhost: {address}\r\n\r\n");
    let post = |headers: &str| format!("POST /api/chat HTTP/1.1\r\nhost: {address}\r\n{headers}\r\n");
    for odd in [
        fine.replace("\r\n", "\n"),
        format!("\r\n{}", fine.replace("\r\nhost", "\nhost")),
        fine.replace("host", "x: y\nhost"),
        post("content-length: 5\r\ntransfer-encoding: chunked\r\n") + "0\r\n\r\n",
        post("transfer-encoding: chunked\r\ncontent-length: 5\r\n") + "0\r\n\r\n",
        post("content-length: 3\r\ncontent-length: 4\r\n") + "abc",
    ] {
        for (before, wanted) in [("", &["400"][..]), (&fine, &["200", "400"])] {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            stream.write_all(format!("{before}{odd}{fine}").as_bytes()).await.unwrap();
            let mut received = Vec::new();
            // A reset counts as closed.
            let _ = timeout(SOON, stream.read_to_end(&mut received)).await.expect("the connection is closed");
            let received = String::from_utf8_lossy(&received);
            let statuses: Vec<_> = received.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
            assert_eq!(statuses, wanted, "{before:?} {odd:?}: {received}");
        }
    }
}
