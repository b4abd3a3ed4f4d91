//! Responses of the route that the token dialog uses.

use std::net::IpAddr;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::app::{App, HERE, ON, TOKEN, elsewhere, enabled, gates};

async fn access_of(app: &App, by: IpAddr, token: Option<&str>) -> Value {
    let request = app.get(by, "/api/admin/access").header("host", "localhost");
    let request =
        token.iter().fold(request, |request, token| request.header("x-remcochat-admin-token", *token));
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["cache-control"], "no-store");
    response.json().await.unwrap()
}

fn report(local: bool, configured: bool, provided: bool, reason: &str) -> Value {
    let allowed = matches!(reason, "localhost" | "allowed");
    json!({
        "isLocalhost": local, "requiredConfigured": configured, "tokenProvided": provided,
        "allowed": allowed, "reason": reason,
    })
}

#[tokio::test]
async fn every_reason_is_reported() {
    let app = App::start(gates(&enabled(""), ON)).await;
    assert_eq!(access_of(&app, HERE, None).await, report(true, true, false, "localhost"));
    assert_eq!(access_of(&app, HERE, Some("wrong")).await, report(true, true, true, "localhost"));
    assert_eq!(access_of(&app, elsewhere(), None).await, report(false, true, false, "missing_client_token"));
    assert_eq!(access_of(&app, elsewhere(), Some(TOKEN)).await, report(false, true, true, "allowed"));
    assert_eq!(
        access_of(&app, elsewhere(), Some("wrong")).await,
        report(false, true, true, "token_mismatch")
    );

    let app = App::start(gates(&enabled("access = 'lan'"), ON)).await;
    assert_eq!(access_of(&app, HERE, None).await, report(true, true, false, "missing_client_token"));
    assert_eq!(access_of(&app, HERE, Some(TOKEN)).await, report(true, true, true, "allowed"));
    assert_eq!(access_of(&app, HERE, Some("wrong")).await, report(true, true, true, "token_mismatch"));

    let short = [ON[0], ("REMCOCHAT_ADMIN_TOKEN", &TOKEN[1..])];
    let app = App::start(gates(&enabled("access = 'lan'"), &short)).await;
    let answer = access_of(&app, HERE, Some(&TOKEN[1..])).await;
    assert_eq!(answer, report(true, false, true, "missing_server_token"));
}

#[tokio::test]
async fn the_route_works_without_tools() {
    let app = App::start(gates("", ON)).await;
    assert_eq!(access_of(&app, HERE, None).await, report(true, true, false, "localhost"));
    assert_eq!(access_of(&app, elsewhere(), Some(TOKEN)).await, report(false, true, true, "allowed"));
}

#[tokio::test]
async fn wrong_tokens_are_limited_and_the_right_one_is_not() {
    let app = App::start(gates(&enabled("access = 'lan'"), ON)).await;
    for _ in 0..10 {
        assert_eq!(access_of(&app, HERE, Some("wrong")).await["reason"], "token_mismatch");
    }
    let request = app.get(HERE, "/api/admin/access").header("x-remcochat-admin-token", "wrong");
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    let wait: u64 = response.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=7).contains(&wait), "{wait}");
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert_eq!(response.json::<Value>().await.unwrap()["code"], "rate_limited");
    assert_eq!(access_of(&app, HERE, Some(TOKEN)).await["reason"], "allowed");
    assert_eq!(access_of(&app, HERE, None).await["reason"], "missing_client_token");
    assert_eq!(
        access_of(&app, elsewhere(), Some("wrong")).await["reason"],
        "token_mismatch",
        "another address"
    );
}
