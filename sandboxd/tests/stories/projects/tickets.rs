//! Tickets: a WebSocket without a token in its URL.

use futures::StreamExt;
use sandbox_api::ErrorCode;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_api::terminal::OpenTerminal;
use serde_json::json;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Error;

use super::client_of;
use crate::support::harness::{Daemon, TOKEN};
use crate::support::http::HttpClient;

/// The status with which an upgrade is refused.
async fn refused(url: &str) -> u16 {
    match connect_async(url).await {
        Err(Error::Http(response)) => response.status().as_u16(),
        other => panic!("{url}: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_opens_one_web_socket() {
    let daemon = Daemon::start().await;
    let (ann, bob) = (
        client_of(&daemon, "lab", Some("ann"), &["use"]).await,
        client_of(&daemon, "lab", Some("bob"), &["use"]).await,
    );
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let id = ann.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let terminal = ann.open_terminal(&id, &OpenTerminal::default()).await.unwrap().terminal_id;
    let path = format!("/v1/sandboxes/{id}/terminals/{terminal}/attach");
    let base = daemon.base.replacen("http://", "ws://", 1);
    let url = |ticket: &str| format!("{base}{path}?ticket={ticket}");

    let ticket = ann.create_ticket(&path).await.unwrap().ticket;
    let (mut socket, _) = connect_async(url(&ticket)).await.unwrap();
    socket.next().await.unwrap().unwrap();
    assert_eq!(refused(&url(&ticket)).await, 401, "it is used up");
    let elsewhere = ann.create_ticket("/v1/sandboxes/sbx_0/terminals/term_0/attach").await.unwrap().ticket;
    assert_eq!(refused(&url(&elsewhere)).await, 401);
    let of_bob = bob.create_ticket(&path).await.unwrap().ticket;
    assert_eq!(refused(&url(&of_bob)).await, 404, "a ticket does not widen what its maker can reach");
    for wrong in ["", "0", &"0".repeat(48), "%00", "../x"] {
        assert_eq!(refused(&url(wrong)).await, 401, "{wrong}");
    }
    // A token in the URL is not a ticket.
    assert_eq!(refused(&format!("{base}{path}?token={TOKEN}")).await, 401);

    // It opens nothing but connections.
    let api = HttpClient::of(&daemon);
    let plain = ann.create_ticket(&format!("/v1/sandboxes/{id}")).await.unwrap().ticket;
    let answer =
        api.without_token("GET", &format!("/v1/sandboxes/{id}?ticket={plain}")).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 401);
    for path in ["/v2/x", "/v1/a b", "/v1/a?b=c", "", "https://evil.example/v1/"] {
        let refused = api.post("/v1/tickets", &json!({ "path": path })).await;
        refused.refused(ErrorCode::InvalidRequest, "path");
    }
    daemon.stop().await;
}
