//! The OpenAPI document and its page: every documented operation exists, and no other.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::read::GzDecoder;
use sandbox_api::{ErrorCode, TOKEN_HEADER};
use serde_json::json;

use crate::support::harness::{Daemon, TOKEN};
use crate::support::http::{Answer, HttpClient};
use crate::support::operations::{METHODS, Operation, operations};

#[tokio::test(flavor = "multi_thread")]
async fn every_documented_operation_exists_and_requires_the_token() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let operations = operations(&api).await;
    assert!(operations.len() >= 20, "{}", operations.len());
    assert_eq!(operations.iter().filter(|operation| operation.is_open()).count(), 2);
    for (at, operation) in operations.iter().enumerate() {
        let Operation { method, path, said } = operation;
        let what = format!("{method} {path}");
        let answer = Answer::to(api.with_token(method, path).json(&json!({}))).await;
        assert_ne!(answer.status, 405, "{what}");
        assert!(said["responses"].get(answer.status.to_string()).is_some(), "{what}: {}", answer.status);
        if answer.status == 404 {
            let resource = answer.refused(ErrorCode::NotFound, &what).details["resource"].clone();
            assert_ne!(resource, "route", "{what}");
        }
        // Each uses its own source address, because repeated wrong tokens are rate limited.
        let other = HttpClient::from(&daemon, IpAddr::V4(Ipv4Addr::new(127, 1, 0, at as u8 + 1)));
        let bare = Answer::to(other.without_token(method, path)).await;
        let wrong = Answer::to(other.without_token(method, path).header(TOKEN_HEADER, "wrong")).await;
        if operation.is_open() {
            assert_eq!((bare.status, wrong.status), (200, 200), "{what}");
        } else {
            bare.refused(ErrorCode::Unauthenticated, &format!("{what} without a token"));
            wrong.refused(ErrorCode::Unauthenticated, &format!("{what} with a wrong token"));
        }
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn undocumented_methods_are_rejected() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let operations = operations(&api).await;
    let paths: BTreeSet<&str> = operations.iter().map(|operation| operation.path.as_str()).collect();
    for path in paths {
        let reported =
            |method: &&str| operations.iter().any(|one| one.path == path && one.method == **method);
        for method in METHODS.iter().filter(|method| !reported(method)) {
            let answer = Answer::to(api.with_token(method, path).json(&json!({}))).await;
            answer.refused(ErrorCode::MethodNotAllowed, &format!("{method} {path}"));
        }
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_page_loads_nothing_from_other_hosts() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let page = api.get("/docs").await;
    let html = String::from_utf8(page.body.clone()).unwrap();
    let assets: Vec<&str> = ["src=\"", "href=\""]
        .iter()
        .flat_map(|attribute| html.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()))
        .collect();
    assert_eq!(assets.len(), 4, "{assets:?}");
    let mut served = vec![("docs", page)];
    for asset in assets {
        served.push((asset, api.get(&format!("/{asset}")).await));
    }
    for (name, answer) in &served {
        assert_eq!(answer.status, 200, "{name}");
        let policy = answer.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none';") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("http"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{name}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer", "{name}");
        let text = text_of(answer);
        // What a style sheet, a page or its script would fetch. Other URLs in it are text.
        for fetch in
            ["url(http", "url(//", "url(\"http", "src=\"http", "src=\"//", "@import", "importScripts"]
        {
            assert!(!text.contains(fetch), "{name} has {fetch}");
        }
    }
    let script = text_of(&api.get("/docs/page.js").await);
    assert!(script.contains("validatorUrl: null"), "its default is another host");
    api.get("/docs/nope.js").await.refused(ErrorCode::NotFound, "not a part of the page");
    api.get("/docs/..%2f..%2fetc%2fpasswd").await.refused(ErrorCode::NotFound, "not a part of the page");
    daemon.stop().await;
}

fn text_of(answer: &Answer) -> String {
    let mut text = Vec::new();
    match answer.header("content-encoding") {
        "gzip" => GzDecoder::new(answer.body.as_slice()).read_to_end(&mut text).unwrap(),
        _ => answer.body.as_slice().read_to_end(&mut text).unwrap(),
    };
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_can_open_pages_with_basic_auth_and_call_nothing_else() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let basic = |credentials: String| format!("Basic {}", BASE64_STANDARD.encode(credentials));
    let ask = |method: &str, path: &str, credentials: String| {
        Answer::to(api.without_token(method, path).header("authorization", basic(credentials)))
    };
    for path in ["/docs", "/openapi.json", "/docs/swagger-ui.css"] {
        assert_eq!(ask("GET", path, format!("me:{TOKEN}")).await.status, 200, "{path}");
        let stranger = Answer::to(api.without_token("GET", path)).await;
        stranger.refused(ErrorCode::Unauthenticated, path);
        assert!(stranger.header("www-authenticate").starts_with("Basic realm=\"sandboxd\""), "{path}");
    }
    let others =
        [("GET", "/v1/sandboxes"), ("GET", "/metrics"), ("DELETE", "/v1/sandboxes/x"), ("GET", "/docsx")];
    for (method, path) in others {
        let answer = ask(method, path, format!("me:{TOKEN}")).await;
        answer.refused(ErrorCode::Unauthenticated, path);
        assert_eq!(answer.header("www-authenticate"), "", "{path}: a browser would ask for a password");
    }
    // Wrong passwords count like wrong tokens.
    for n in 0.. {
        let answer = ask("GET", "/docs", format!("me:wrong-{n}")).await;
        if answer.status != 401 {
            answer.refused(ErrorCode::RateLimited, "one too many");
            break;
        }
        assert!(n < 100, "no request is rate limited");
    }
    assert_eq!(ask("GET", "/docs", format!("me:{TOKEN}")).await.status, 200);
    daemon.stop().await;
}
