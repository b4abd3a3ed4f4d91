//! Who may use MCP, and whose sandboxes they see.

use sandbox_api::ErrorCode;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::mcp_client::Mcp;
use crate::support::harness::{Daemon, Home, until};
use crate::support::http::{Answer, HttpClient};

/// A home with the tool tokens `ann-token` and `bob-token`.
pub(crate) fn home_with_tokens() -> Home {
    let home = Home::new();
    let digest =
        |token: &str| Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let lines = format!("# laptops\nann {}\nbob {}\n", digest("ann-token"), digest("bob-token"));
    let path = home.path().join("tool-tokens");
    std::fs::write(&path, lines).unwrap();
    home.set("SANDBOXD_TOOL_TOKENS_FILE", path.to_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_token_has_its_own_sandboxes() {
    let daemon = Daemon::start_in(home_with_tokens()).await;
    let [ann, bob] = ["ann-token", "bob-token"].map(|token| Mcp::at(&daemon.base, token));
    let handle = ann.result("sandbox_open", json!({ "name": "x" })).await["sandbox"].clone();
    for stranger in [bob.clone(), Mcp::of(&daemon), ann.with("x-librechat-user-id", "eve")] {
        let failure = stranger.failure("bash", json!({ "command": "id", "sandbox": handle })).await;
        assert!(failure.contains("there is no sandbox"), "{failure}");
        assert_ne!(stranger.result("sandbox_open", json!({ "name": "x" })).await["sandbox"], handle);
    }
    // The same conversation id of two hosts, or two users, means two sandboxes.
    ann.in_session("1").output("touch of-ann").await;
    for stranger in [bob.in_session("1"), ann.in_session("1").with("x-openwebui-user-id", "eve")] {
        assert_eq!(stranger.output("ls").await, "");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_token_is_rejected_on_every_surface_and_in_open_sessions() {
    let home = home_with_tokens();
    let path = home.path().join("tool-tokens");
    let expires = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(8);
    let lines = std::fs::read_to_string(&path).unwrap();
    let with_time = |line: &str| {
        if line.starts_with("bob") { format!("{line} {expires}\n") } else { format!("{line}\n") }
    };
    std::fs::write(&path, lines.lines().map(with_time).collect::<String>()).unwrap();
    let daemon = Daemon::start_in(home).await;
    let [ann, bob] = ["ann-token", "bob-token"].map(|token| Mcp::at(&daemon.base, token));
    let (ann, legacy) = (ann.in_session("1"), bob.legacy().await);
    let bob = bob.in_session("1");
    assert_eq!(bob.output("echo valid").await, "valid\n");
    let rejects = async || bob.request("tools/list", json!({})).send().await.unwrap().status() == 401;
    until("the token has expired", rejects).await;
    assert!(jiff::Timestamp::now() >= expires);
    assert_eq!(legacy.request("ping", json!({})).send().await.unwrap().status(), 401);
    for path in ["/tools/openapi.json", "/tools/bash", "/open-terminal/api/config"] {
        let request = reqwest::Client::new().post(format!("{}{path}", daemon.base)).bearer_auth("bob-token");
        assert_eq!(request.send().await.unwrap().status(), 401, "{path}");
    }
    assert_eq!(ann.output("echo valid").await, "valid\n");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_belongs_to_the_token_that_opened_it() {
    let daemon = Daemon::start_in(home_with_tokens()).await;
    let [ann, bob] = ["ann-token", "bob-token"].map(|token| Mcp::at(&daemon.base, token));
    let ann = ann.legacy().await;
    let bob = bob.with_session_of(&ann);
    assert_eq!(bob.request("ping", json!({})).send().await.unwrap().status(), 404);
    assert_eq!(bob.listen().await.status(), 404, "its messages are for Ann");
    assert_eq!(bob.end().await.status(), 404);
    assert_eq!(ann.request("ping", json!({})).send().await.unwrap().status(), 200);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_reaches_the_sandbox_of_a_chat() {
    let daemon = Daemon::start().await;
    let chat = daemon.sandbox("chat:1").await;
    let client = Mcp::of(&daemon);
    let failure = client.failure("bash", json!({ "command": "id", "sandbox": chat.as_str() })).await;
    assert!(failure.contains("there is no sandbox"), "{failure}");
    for session in ["chat:1", "tmp:1", "../chat:1"] {
        let info = client.in_session(session).result("sandbox_info", json!({})).await;
        assert_ne!(info["sandbox"], chat.as_str());
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_token_is_not_valid_for_the_api() {
    let daemon = Daemon::start_in(home_with_tokens()).await;
    let api = HttpClient::of(&daemon);
    for path in ["/v1/sandboxes", "/metrics", "/openapi.json"] {
        let request = api.without_token("GET", path).header("authorization", "Bearer ann-token");
        Answer::to(request).await.refused(ErrorCode::Unauthenticated, path);
    }
    let wrong = Mcp::at(&daemon.base, "eve-token").request("tools/list", json!({})).send().await.unwrap();
    assert_eq!(
        (wrong.status().as_u16(), &wrong.headers()["www-authenticate"]),
        (401, &"Bearer".parse().unwrap())
    );
    let both = Mcp::at(&daemon.base, "ann-token").with("x-remcochat-admin-token", "bob-token");
    assert_eq!(both.request("tools/list", json!({})).send().await.unwrap().status(), 401);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_no_oauth_server() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    for path in ["oauth-protected-resource", "oauth-protected-resource/mcp", "oauth-authorization-server"] {
        let path = format!("/.well-known/{path}");
        Answer::to(api.without_token("GET", &path)).await.refused(ErrorCode::NotFound, &path);
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_that_the_host_did_not_fill_in_is_rejected() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon);
    for header in ["x-sandbox-session", "x-openwebui-chat-id", "x-librechat-user-id"] {
        for value in ["", "{{LIBRECHAT_BODY_CONVERSATIONID}}", "${CHAT}"] {
            let failure = client.with(header, value).failure("bash", json!({ "command": "id" })).await;
            assert!(failure.contains(header), "{header}: {value}: {failure}");
        }
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_origin_gets_no_answer() {
    let daemon = Daemon::start().await;
    let client = Mcp::of(&daemon);
    for (header, value) in [("origin", "https://evil.example"), ("host", "evil.example")] {
        let response = client.with(header, value).request("tools/list", json!({})).send().await.unwrap();
        assert_eq!(response.status(), 403, "{header}");
    }
    daemon.stop().await;
}
