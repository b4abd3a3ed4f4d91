//! What a chat's sandbox may reach, and what its person allows it.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::place::{Place, answer};

const LISTED: &str = "network_mode = 'allowlist'\nnetwork_allow = ['registry.example']";

async fn allow(place: &Place, host: &str) -> (StatusCode, Value) {
    let request = place.ask(Method::POST, "/api/chats/1/network/allow");
    answer(request.json(&json!({ "host": host }))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_host_is_shown_and_allowed() {
    let place = Place::with_docker(LISTED).await;
    place.said("1", "/bash true").await;
    let (_, seen) = place.get("/api/chats/1/sandbox").await;
    assert_eq!(seen["network"], json!({ "mode": "allowlist", "allow": ["registry.example"] }));
    assert_eq!(seen["posture"]["network"], "none", "the container has no interface all the same");

    // A host that nobody has: what counts is whether the daemon refuses it by its list.
    let ask = "/bash curl -sm 5 -o /dev/null -w '%{http_code}' http://host.invalid:8443/";
    assert_eq!(place.output("1", ask).await["stdout"], "403");
    let (_, network) = place.get("/api/chats/1/network").await;
    let denial = &network["denials"][0];
    assert_eq!(
        (&denial["host"], &denial["reason"], &denial["entry"]),
        (&json!("host.invalid"), &json!("hostNotAllowed"), &json!("host.invalid:8443")),
        "{network}"
    );

    let (status, changed) = allow(&place, "host.invalid:8443").await;
    assert_eq!(status, 200, "{changed}");
    assert_eq!(changed["allow"], json!(["registry.example", "host.invalid:8443"]));
    assert_eq!(changed["denials"], json!([]), "what is allowed now is refused no more");
    assert_ne!(place.output("1", ask).await["stdout"], "403");
    assert_eq!(allow(&place, "host.invalid:8443").await.1["allow"], changed["allow"], "safe to repeat");

    // The app's own list does not take away what the person has added.
    let place = place.again_with_docker(LISTED).await;
    place.said("1", "/bash true").await;
    let (_, again) = place.get("/api/chats/1/network").await;
    assert_eq!(again["allow"], changed["allow"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_are_allowed_at_once_are_all_kept() {
    let place = Place::with_docker(LISTED).await;
    place.said("1", "/bash true").await;
    let hosts: Vec<String> = (0..8).map(|n| format!("h{n}.example")).collect();
    for (status, told) in futures::future::join_all(hosts.iter().map(|host| allow(&place, host))).await {
        assert_eq!(status, 200, "{told}");
    }
    let (_, network) = place.get("/api/chats/1/network").await;
    for host in &hosts {
        assert!(network["allow"].as_array().unwrap().contains(&json!(host)), "{host}: {network}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_but_a_host_is_allowed_and_only_where_there_is_a_list() {
    let place = Place::with_docker(LISTED).await;
    place.said("1", "/bash true").await;
    for odd in ["", "a b", "a\nb", &"x".repeat(262)] {
        let (status, error) = allow(&place, odd).await;
        assert_eq!((status.as_u16(), &error["code"]), (400, &json!("invalid_request")), "{odd:?}: {error}");
    }
    let (status, error) = allow(&place, "https://a.example/").await;
    assert_eq!((status.as_u16(), &error["code"]), (422, &json!("refused")), "{error}");
    let (_, network) = place.get("/api/chats/1/network").await;
    assert_eq!(network["allow"], json!(["registry.example"]), "what was refused changes nothing");
    let request = place.ask(Method::POST, "/api/chats/1/network/allow").json(&json!({ "host": 7 }));
    assert_eq!(answer(request).await.0, 400);

    let shut = Place::start().await;
    shut.said("1", "/bash true").await;
    let (status, error) = allow(&shut, "a.example").await;
    assert_eq!(status, 422, "{error}");
    assert!(error["error"].as_str().unwrap().contains("mode is `none`"), "{error}");
    let request = shut.ask(Method::DELETE, "/api/chats/1/sandbox").send().await.unwrap();
    assert_eq!(request.status(), 204);
    assert_eq!(allow(&shut, "a.example").await.0, 404, "and no sandbox is made for it");
    assert_eq!(shut.get("/api/chats/1/sandbox").await.1["state"], "none");
}
