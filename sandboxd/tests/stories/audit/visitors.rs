//! Which lines visitors and sandboxes leave: opened links, sent files, denied connections.

use sandbox_api::audit::AuditLine;
use sandbox_api::files::LinkFile;
use sandbox_api::sandbox::{CreateSandbox, Network};
use serde_json::json;

use super::lines_of;
use crate::projects::client_of;
use crate::support::harness::{Daemon, Home, script, until};
use crate::support::visitor::{link, node, sandbox_with_port, serve, visit_with};

/// Address of a visitor that a proxy in front of the gateway names.
const VISITOR: &str = "192.0.2.7";

/// The newest line of an act, which a request without an answer may write a moment later.
async fn last(daemon: &Daemon, act: &str) -> AuditLine {
    lines_of(&daemon.client, act).await.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn visitors_are_recorded_with_the_address_that_a_trusted_proxy_names() {
    let daemon = Daemon::start().await;
    let sandbox = sandbox_with_port(&daemon, "chat:1").await;
    serve(&daemon, &sandbox, &node("res.end(req.headers['x-forwarded-for'])")).await;
    let forwarded = [("x-forwarded-for", VISITOR)];
    // Anyone can send the header.
    assert_eq!(visit_with(&link(&daemon, &sandbox).await, &forwarded).await.body, "127.0.0.1");
    assert_eq!(last(&daemon, "link.open").await.details["peer"], "127.0.0.1");

    let home = daemon.stop().await.set("SANDBOXD_TRUSTED_PROXIES", "127.0.0.0/8");
    let daemon = Daemon::start_in(home).await;
    serve(&daemon, &sandbox, &node("res.end(req.headers['x-forwarded-for'])")).await;
    let url = link(&daemon, &sandbox).await;
    for _ in 0..3 {
        assert_eq!(visit_with(&url, &forwarded).await.body, VISITOR);
    }
    let lines = lines_of(&daemon.client, "link.open").await;
    let of_visitor: Vec<_> = lines.iter().filter(|line| line.details["peer"] == VISITOR).collect();
    assert_eq!(of_visitor.len(), 1, "one line for all requests of a page: {lines:?}");
    let line = of_visitor[0];
    assert_eq!((&line.details["sandboxId"], &line.details["port"]), (&json!(sandbox), &json!(3000)));
    assert_eq!((line.project.as_deref(), line.token.as_deref()), (Some("default"), None));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_visitor_that_downloads_again_and_again_leaves_one_line() {
    let home = Home::new().set("SANDBOXD_TRUSTED_PROXIES", "127.0.0.0/8");
    let daemon = Daemon::start_in(home).await;
    let ann = client_of(&daemon, "lab", Some("ann"), &["use"]).await;
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let sandbox = ann.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let link_to = async |path: &str| {
        ann.put_file(&sandbox, path, "kept", Default::default()).await.unwrap();
        ann.link_file(&sandbox, &LinkFile { path: path.into(), ttl_ms: None }).await.unwrap().url
    };
    let (one, two) = (link_to("one").await, link_to("two").await);
    for _ in 0..20 {
        assert_eq!(visit_with(&one, &[("x-forwarded-for", VISITOR)]).await.body, "kept");
    }
    let lines = lines_of(&daemon.client, "download.open").await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    assert_eq!((line.project.as_deref(), line.subject.as_deref()), (Some("lab"), Some("ann")));
    assert_eq!((&line.details["sandboxId"], &line.details["peer"]), (&json!(sandbox), &json!(VISITOR)));
    assert_eq!(line.details["path"], "one");
    // Another file is another act.
    visit_with(&two, &[("x-forwarded-for", VISITOR)]).await;
    assert_eq!(last(&daemon, "download.open").await.details["path"], "two");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_connections_are_counted_for_the_owner_of_the_sandbox() {
    let daemon = Daemon::start().await;
    let ann = client_of(&daemon, "lab", Some("ann"), &["use"]).await;
    let request = CreateSandbox {
        session_key: "chat:1".into(),
        network: Some(Network { mode: Some("allowlist".into()), ..Network::default() }),
        ..CreateSandbox::default()
    };
    let sandbox = ann.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let denied = script("for i in 1 2 3; do curl -s https://denied.example; done; true");
    let command = ann.start(&sandbox, &denied).await.unwrap().command_id;
    ann.wait(&sandbox, &command, None).await.unwrap();
    // The stop writes what was counted.
    let daemon = Daemon::start_in(daemon.stop().await).await;
    until("the denials are recorded", || async {
        !lines_of(&daemon.client, "network.deny").await.is_empty()
    })
    .await;
    let line = last(&daemon, "network.deny").await;
    assert_eq!((line.project.as_deref(), line.subject.as_deref()), (Some("lab"), Some("ann")));
    assert_eq!((&line.details["host"], &line.details["count"]), (&json!("denied.example"), &json!(3)));
    assert_eq!(line.details["sandboxId"], json!(sandbox));
    daemon.stop().await;
}
