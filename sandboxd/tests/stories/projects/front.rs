//! A trusted front: a program that has authenticated its users.

use axum::http::StatusCode;
use sandbox_api::project::WhoAmI;
use serde_json::json;

use crate::support::harness::{Daemon, Home};
use crate::support::http::{Answer, HttpClient};

const KEY: &str = "the-key-of-the-front-with-32-characters";

fn with_front(home: Home, addresses: &str) -> Home {
    let file = home.path().join("front-key");
    std::fs::write(&file, KEY).unwrap();
    let home = home.set("SANDBOXD_FRONT_KEY_FILE", file.to_str().unwrap());
    home.set("SANDBOXD_FRONT_ADDRESSES", addresses).set("SANDBOXD_FRONT_PROJECT", "lab")
}

async fn ask(api: &HttpClient, users: &[&str], extra: &[(&str, &str)]) -> Answer {
    let mut request = api.without_token("GET", "/v1/whoami").header("authorization", format!("Bearer {KEY}"));
    for user in users {
        request = request.header("x-forwarded-user", *user);
    }
    for (name, value) in extra {
        request = request.header(*name, *value);
    }
    Answer::to(request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_front_names_the_user_of_each_request() {
    let daemon = Daemon::start_in(with_front(Home::new(), "127.0.0.0/8,::1")).await;
    daemon.client.create_project("lab").await.unwrap();
    let api = HttpClient::of(&daemon);
    let found = ask(&api, &["ann@example.com"], &[]).await;
    let me: WhoAmI = serde_json::from_slice(&found.body).unwrap();
    assert_eq!(
        (me.project.as_str(), me.subject.as_deref(), me.operator),
        ("lab", Some("ann@example.com"), false)
    );
    assert_eq!(me.scopes, ["use"]);

    let longest = "u".repeat(256);
    assert_eq!(ask(&api, &[&longest], &[]).await.status, StatusCode::OK);
    let too_long = "u".repeat(257);
    for users in [&[][..], &["ann", "bob"], &[""], &["a b"], &[too_long.as_str()]] {
        assert_eq!(ask(&api, users, &[]).await.status, StatusCode::UNAUTHORIZED, "{users:?}");
    }
    // The header without the key names no user.
    let request = api.without_token("GET", "/v1/whoami").header("x-forwarded-user", "ann@example.com");
    assert_eq!(Answer::to(request).await.status, StatusCode::UNAUTHORIZED);
    let request = api.with_token("GET", "/v1/whoami").header("x-forwarded-user", "ann@example.com");
    let me: WhoAmI = serde_json::from_slice(&Answer::to(request).await.body).unwrap();
    assert!(me.operator && me.subject.is_none(), "a user cannot be added to another token");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_is_valid_only_from_the_addresses_of_the_front() {
    // The proxy is trusted for `X-Forwarded-For`. That must not make its clients trusted fronts.
    let home = with_front(Home::new(), "192.0.2.0/24").set("SANDBOXD_TRUSTED_PROXIES", "127.0.0.1");
    let daemon = Daemon::start_in(home).await;
    daemon.client.create_project("lab").await.unwrap();
    let api = HttpClient::of(&daemon);
    assert_eq!(ask(&api, &["ann"], &[]).await.status, StatusCode::UNAUTHORIZED);
    let forwarded = [("x-forwarded-for", "192.0.2.7")];
    assert_eq!(ask(&api, &["ann"], &forwarded).await.status, StatusCode::UNAUTHORIZED);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn surfaces_serve_the_users_of_a_front() {
    let daemon = Daemon::start_in(with_front(Home::new(), "127.0.0.1")).await;
    daemon.client.create_project("lab").await.unwrap();
    let api = HttpClient::of(&daemon);
    let bash = async |user: &str, script: &str| {
        let request =
            api.without_token("POST", "/tools/bash").header("authorization", format!("Bearer {KEY}"));
        let request = request.header("x-sandbox-session", "chat-1");
        Answer::to(request.header("x-forwarded-user", user).json(&json!({ "command": script }))).await
    };
    let written = bash("ann", "echo of-ann > mine.txt; cat mine.txt").await;
    assert_eq!(written.status, StatusCode::OK, "{}", String::from_utf8_lossy(&written.body));
    assert!(String::from_utf8_lossy(&written.body).contains("of-ann"));
    let other = bash("bob", "cat mine.txt").await;
    assert!(!String::from_utf8_lossy(&other.body).contains("of-ann"));
    daemon.stop().await;
}
