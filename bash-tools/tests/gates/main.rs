//! The gates in front of a real server: each one separately, and attempts to get past them.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod access;
mod app;
mod health;

use std::net::SocketAddr;

use app::{
    App, HERE, Health, ON, Sandboxd, TOKEN, elsewhere, enabled, gates, with_sandboxd, with_tools,
    without_tools,
};
use axum::body::Body;
use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::{Request, Response};
use bash_tools::gates::{BashToolsLayer, Decision, ENABLED_HEADER, Reason, TOOLS_HEADER};
use tower::{Layer, ServiceExt, service_fn};

#[tokio::test]
async fn tools_are_enabled_when_every_gate_is_open() {
    let sandboxd = Sandboxd::start(Health::Healthy).await;
    let app = App::start(gates(&with_sandboxd(sandboxd.address, ""), ON)).await;
    assert_eq!(app.chat(HERE, &[]).await, with_tools());
    assert_eq!(app.chat(HERE, &[]).await, with_tools());
}

#[tokio::test]
async fn each_gate_can_close_separately() {
    let (healthy, failing) = (Sandboxd::start(Health::Healthy).await, Sandboxd::start(Health::Failing).await);
    let all_open = with_sandboxd(healthy.address, "");

    let app = App::start(gates(&all_open.replace("enabled = true", "enabled = false"), ON)).await;
    assert_eq!(app.chat(HERE, &[]).await, without_tools("NotConfigured"));

    for switch in ["0", "", "off"] {
        let app = App::start(gates(&all_open, &[("REMCOCHAT_ENABLE_BASH_TOOL", switch), ON[1]])).await;
        assert_eq!(app.chat(HERE, &[]).await, without_tools("SwitchedOff"), "{switch}");
    }

    // sandboxd rejects requests without its token, so the tools would only fail later.
    let app = App::start(gates(&all_open, &ON[..1])).await;
    assert_eq!(app.chat(HERE, &[]).await, without_tools("MissingOrchestratorToken"));
    let reported = Reason::MissingOrchestratorToken.to_string();
    assert!(reported.starts_with("no token for sandboxd: set REMCOCHAT_ADMIN_TOKEN, or "), "{reported}");

    let app = App::start(gates(&all_open, ON)).await;
    let peer = app.chat(elsewhere(), &[("host", "localhost")]).await;
    assert_eq!(peer, without_tools("NotLocal(Peer)"));

    let app = App::start(gates(&with_sandboxd(healthy.address, "access = 'lan'"), ON)).await;
    assert_eq!(app.chat(HERE, &[]).await, without_tools("MissingClientToken"));

    let app = App::start(gates(&with_sandboxd(failing.address, ""), ON)).await;
    assert_eq!(app.chat(HERE, &[]).await, without_tools("Unhealthy"));
    assert_eq!(
        (healthy.health_checks(), failing.health_checks()),
        (0, 1),
        "no later gate is checked after a closed one"
    );
}

#[tokio::test]
async fn no_header_makes_another_machine_local() {
    let app = App::start(gates(&enabled(""), ON)).await;
    let spoofs = [
        ("host", "localhost"),
        ("host", "127.0.0.1:3000"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-for", "::1, 127.0.0.1"),
        ("x-real-ip", "127.0.0.1"),
        ("forwarded", "for=127.0.0.1"),
        ("x-forwarded-host", "localhost"),
        ("x-remcochat-admin-token", TOKEN),
    ];
    for spoof in spoofs {
        assert_eq!(app.chat(elsewhere(), &[spoof]).await, without_tools("NotLocal(Peer)"), "{spoof:?}");
    }
    assert_eq!(app.chat(elsewhere(), &spoofs[1..]).await, without_tools("NotLocal(Peer)"));
}

#[tokio::test]
async fn a_header_can_mark_a_local_request_as_forwarded() {
    let app = App::start(gates(&enabled(""), ON)).await;
    for (name, value, reason) in [
        ("x-forwarded-for", "10.0.0.9", "Forwarded"),
        ("x-real-ip", "10.0.0.9", "Forwarded"),
        ("forwarded", "for=\"[2001:db8::1]\"", "Forwarded"),
        ("x-forwarded-for", "rubbish", "Forwarded"),
        ("host", "rebound.example", "Host"),
        ("origin", "https://evil.example", "Page"),
        ("sec-fetch-site", "cross-site", "Page"),
    ] {
        let wanted = without_tools(&format!("NotLocal({reason})"));
        assert_eq!(app.chat(HERE, &[(name, value)]).await, wanted, "{name}: {value}");
    }
    let own = [
        ("x-forwarded-for", "127.0.0.1"),
        ("origin", "http://localhost:3000"),
        ("sec-fetch-site", "same-origin"),
    ];
    assert_eq!(app.chat(HERE, &own).await, with_tools());
}

#[tokio::test]
async fn only_a_trusted_proxys_headers_are_used() {
    let app = App::start(gates(&enabled(&format!("trusted_proxies = ['{}']", elsewhere())), ON)).await;
    assert_eq!(
        app.chat(elsewhere(), &[("host", "localhost"), ("x-forwarded-for", "127.0.0.1")]).await,
        with_tools()
    );
    let unnamed = app.chat(elsewhere(), &[("host", "localhost")]).await;
    assert_eq!(unnamed, without_tools("NotLocal(Unnamed)"));
    for chain in ["10.0.0.9", "127.0.0.1, 10.0.0.9", "10.0.0.9, 127.0.0.1", "127.0.0.1,,"] {
        let answer = app.chat(elsewhere(), &[("host", "localhost"), ("x-forwarded-for", chain)]).await;
        assert_eq!(answer, without_tools("NotLocal(Forwarded)"), "{chain}");
    }
    let other = App::start(gates(&enabled("trusted_proxies = ['203.0.113.7']"), ON)).await;
    let answer = other.chat(elsewhere(), &[("host", "localhost"), ("x-forwarded-for", "127.0.0.1")]).await;
    assert_eq!(answer, without_tools("NotLocal(Peer)"));
}

#[tokio::test]
async fn every_request_on_the_lan_needs_the_token() {
    let app = App::start(gates(&enabled("access = 'lan'"), ON)).await;
    let bearer = format!("Bearer {TOKEN}");
    for by in [HERE, elsewhere()] {
        assert_eq!(app.chat(by, &[("x-remcochat-admin-token", TOKEN)]).await, with_tools());
        assert_eq!(app.chat(by, &[("authorization", &bearer)]).await, with_tools());
        assert_eq!(app.chat(by, &[]).await, without_tools("MissingClientToken"));
        for wrong in ["x", &TOKEN[1..], &format!("{TOKEN}0"), &TOKEN.to_uppercase()] {
            let answer =
                app.chat(by, &[("x-remcochat-admin-token", wrong), ("authorization", &bearer)]).await;
            assert_eq!(answer, without_tools("TokenMismatch"), "{wrong}");
        }
    }
}

#[tokio::test]
async fn a_short_token_of_the_app_does_not_count_on_the_lan() {
    let short = &TOKEN[1..];
    for token in [short, ""] {
        let variables = [ON[0], ("REMCOCHAT_ADMIN_TOKEN", token)];
        let app = App::start(gates(&enabled("access = 'lan'"), &variables)).await;
        let answer = app.chat(HERE, &[("x-remcochat-admin-token", token)]).await;
        assert_eq!(answer, without_tools("MissingServerToken"), "{token:?}");
    }
}

#[tokio::test]
async fn a_request_without_a_peer_address_is_not_local() {
    let request = Request::get("/chat").header("host", "localhost").body(Body::empty()).unwrap();
    let response = app::router(gates(&enabled(""), ON)).oneshot(request).await.unwrap();
    assert_eq!(response.headers()[ENABLED_HEADER], "0");
    let body = axum::body::to_bytes(response.into_body(), 1000).await.unwrap();
    assert_eq!(&body[..], b"Disabled(NotLocal(NoPeer))");
}

#[tokio::test]
async fn a_decision_is_available_without_the_layer() {
    let mut request = Request::new(());
    request.extensions_mut().insert(ConnectInfo(SocketAddr::new(HERE, 1)));
    let (mut parts, ()) = request.into_parts();
    assert_eq!(gates(&enabled(""), ON).decide(&parts).await, Decision::Enabled);
    let extracted = Decision::from_request_parts(&mut parts, &()).await;
    assert_eq!(extracted, Ok(Decision::Disabled(Reason::NotDecided)), "no layer has added the extension");
}

#[tokio::test]
async fn a_handler_can_disable_the_tools_and_cannot_enable_them() {
    let answer_of = |file: String, enabled: &'static str| async move {
        let handler = service_fn(move |_: Request<Body>| async move {
            Response::builder().header(ENABLED_HEADER, enabled).header(TOOLS_HEADER, "bash").body(())
        });
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(ConnectInfo(SocketAddr::new(HERE, 1)));
        let response = BashToolsLayer::new(gates(&file, ON)).layer(handler).oneshot(request).await.unwrap();
        response.headers()[ENABLED_HEADER].to_str().unwrap().to_owned()
    };
    assert_eq!(answer_of(enabled(""), "0").await, "0");
    assert_eq!(answer_of(String::new(), "1").await, "0");
}
