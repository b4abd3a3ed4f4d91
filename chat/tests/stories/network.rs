//! Outbound network of a chat's sandbox, and hosts that the user allows.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::test_app::{TestApp, answer};

const LISTED: &str = "network_mode = 'allowlist'\nnetwork_allow = ['registry.example']";

async fn allow(app: &TestApp, host: &str) -> (StatusCode, Value) {
    let request = app.request(Method::POST, "/api/chats/1/network/allow");
    answer(request.json(&json!({ "host": host }))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_host_is_shown_and_can_be_allowed() {
    let app = TestApp::with_docker(LISTED).await;
    app.send("1", "/bash true").await;
    let (_, seen) = app.get("/api/chats/1/sandbox").await;
    assert_eq!(seen["network"], json!({ "mode": "allowlist", "allow": ["registry.example"] }));
    assert_eq!(seen["posture"]["network"], "none", "the container still has no interface");

    // A host that does not exist. Only the daemon's decision matters.
    let curl = "/bash curl -sm 5 -o /dev/null -w '%{http_code}' http://host.invalid:8443/";
    assert_eq!(app.output("1", curl).await["stdout"], "403");
    let (_, network) = app.get("/api/chats/1/network").await;
    let denial = &network["denials"][0];
    assert_eq!(
        (&denial["host"], &denial["reason"], &denial["entry"]),
        (&json!("host.invalid"), &json!("hostNotAllowed"), &json!("host.invalid:8443")),
        "{network}"
    );

    let (status, changed) = allow(&app, "host.invalid:8443").await;
    assert_eq!(status, 200, "{changed}");
    assert_eq!(changed["allow"], json!(["registry.example", "host.invalid:8443"]));
    assert_eq!(changed["denials"], json!([]), "an allowed host is no longer denied");
    assert_ne!(app.output("1", curl).await["stdout"], "403");
    assert_eq!(
        allow(&app, "host.invalid:8443").await.1["allow"],
        changed["allow"],
        "the request is idempotent"
    );

    // The app's own list does not remove hosts that the user added.
    let app = app.again_with_docker(LISTED).await;
    app.send("1", "/bash true").await;
    let (_, again) = app.get("/api/chats/1/network").await;
    assert_eq!(again["allow"], changed["allow"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrently_allowed_hosts_are_all_kept() {
    let app = TestApp::with_docker(LISTED).await;
    app.send("1", "/bash true").await;
    let hosts: Vec<String> = (0..8).map(|n| format!("h{n}.example")).collect();
    for (status, reported) in futures::future::join_all(hosts.iter().map(|host| allow(&app, host))).await {
        assert_eq!(status, 200, "{reported}");
    }
    let (_, network) = app.get("/api/chats/1/network").await;
    for host in &hosts {
        assert!(network["allow"].as_array().unwrap().contains(&json!(host)), "{host}: {network}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_hosts_can_be_allowed_and_only_with_an_allowlist() {
    let app = TestApp::with_docker(LISTED).await;
    app.send("1", "/bash true").await;
    for odd in ["", "a b", "a\nb", &"x".repeat(262)] {
        let (status, error) = allow(&app, odd).await;
        assert_eq!((status.as_u16(), &error["code"]), (400, &json!("invalid_request")), "{odd:?}: {error}");
    }
    let (status, error) = allow(&app, "https://a.example/").await;
    assert_eq!((status.as_u16(), &error["code"]), (422, &json!("refused")), "{error}");
    let (_, network) = app.get("/api/chats/1/network").await;
    assert_eq!(network["allow"], json!(["registry.example"]), "a rejected request changes nothing");
    let request = app.request(Method::POST, "/api/chats/1/network/allow").json(&json!({ "host": 7 }));
    assert_eq!(answer(request).await.0, 400);

    let shut = TestApp::start().await;
    shut.send("1", "/bash true").await;
    let (status, error) = allow(&shut, "a.example").await;
    assert_eq!(status, 422, "{error}");
    assert!(error["error"].as_str().unwrap().contains("mode is `none`"), "{error}");
    let request = shut.request(Method::DELETE, "/api/chats/1/sandbox").send().await.unwrap();
    assert_eq!(request.status(), 204);
    assert_eq!(allow(&shut, "a.example").await.0, 404, "no sandbox is created for it");
    assert_eq!(shut.get("/api/chats/1/sandbox").await.1["state"], "none");
}
