//! Child tokens: what they permit, and their end.

use futures::StreamExt;
use sandbox_api::project::{CreateChildToken, CreateToken};
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes};
use sandbox_api::snapshot::MakeSnapshot;
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::{Client, Error};
use serde_json::json;
use tokio::time::timeout;

use super::{client_of, token_of};
use crate::support::harness::{Daemon, SOON, outcome, script};
use crate::support::http::HttpClient;

fn code<T>(result: Result<T, Error>) -> Option<ErrorCode> {
    result.err().expect("the request is refused").code()
}

fn scopes(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|name| (*name).to_owned()).collect())
}

async fn child(daemon: &Daemon, parent: &Client, request: &CreateChildToken) -> Client {
    let token = parent.create_child_token(request).await.unwrap().token;
    Client::new(&daemon.base, &token).unwrap()
}

async fn create(client: &Client, key: &str) -> SandboxId {
    let request = CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
    client.create_or_reconnect(&request).await.unwrap().sandbox_id
}

fn for_subject(subject: &str) -> CreateChildToken {
    CreateChildToken { subject: Some(subject.into()), ..CreateChildToken::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_of_the_operator_reaches_its_subject_only() {
    let daemon = Daemon::start().await;
    let ann = child(&daemon, &daemon.client, &for_subject("ann")).await;
    let bob = child(&daemon, &daemon.client, &for_subject("bob")).await;
    let (of_ann, of_bob) = (create(&ann, "chat:1").await, create(&bob, "chat:1").await);
    assert_ne!(of_ann, of_bob, "the key is the subject's own");

    let me = ann.whoami().await.unwrap();
    assert_eq!((me.project.as_str(), me.subject.as_deref(), me.operator), ("default", Some("ann"), false));
    assert_eq!(me.scopes, ["use"]);
    assert!(me.expires_at.is_some());
    assert_eq!(code(ann.get(&of_bob).await), Some(ErrorCode::NotFound));
    assert_eq!(code(ann.orphans().await), Some(ErrorCode::Forbidden));
    assert_eq!(code(ann.tokens("default", None).await), Some(ErrorCode::Forbidden));
    assert_eq!(daemon.client.list(&ListSandboxes::default()).await.unwrap().sandboxes.len(), 2);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_is_never_wider_than_its_parent() {
    let daemon = Daemon::start().await;
    let ann = client_of(&daemon, "lab", Some("ann"), &["use"]).await;
    let reader = client_of(&daemon, "lab", None, &["read"]).await;
    let make = async |parent: &Client, request: CreateChildToken| parent.create_child_token(&request).await;

    assert_eq!(code(make(&ann, for_subject("bob")).await), Some(ErrorCode::Forbidden));
    let wider = CreateChildToken { scopes: scopes(&["use"]), ..CreateChildToken::default() };
    assert_eq!(code(make(&reader, wider).await), Some(ErrorCode::Forbidden));
    let manages = CreateChildToken { scopes: scopes(&["manage"]), ..CreateChildToken::default() };
    assert_eq!(code(make(&ann, manages).await), Some(ErrorCode::Forbidden));
    assert_eq!(make(&reader, CreateChildToken::default()).await.unwrap().scopes, ["read"]);

    let short = CreateToken { ttl_ms: Some(60_000), ..CreateToken::default() };
    let short = daemon.client.create_token("lab", &short).await.unwrap();
    let short_lived = Client::new(&daemon.base, &short.token).unwrap();
    let made = make(&short_lived, CreateChildToken::default()).await.unwrap();
    assert_eq!(Some(made.expires_at), short.properties.expires_at);
    let longer = CreateChildToken { ttl_ms: Some(120_000), ..CreateChildToken::default() };
    assert_eq!(code(make(&short_lived, longer).await), Some(ErrorCode::Forbidden));

    // A child of a child.
    let child_of_ann = child(&daemon, &ann, &CreateChildToken::default()).await;
    assert_eq!(code(make(&child_of_ann, for_subject("bob")).await), Some(ErrorCode::Forbidden));
    let grandchild = child(&daemon, &child_of_ann, &CreateChildToken::default()).await;
    assert_eq!(grandchild.whoami().await.unwrap().subject.as_deref(), Some("ann"));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_for_one_sandbox_reaches_no_other() {
    let daemon = Daemon::start().await;
    let ann = client_of(&daemon, "lab", Some("ann"), &["use", "manage"]).await;
    let (one, two) = (create(&ann, "chat:1").await, create(&ann, "chat:2").await);
    let of_one = ann.make_snapshot(&one, &MakeSnapshot::default()).await.unwrap().snapshot.snapshot_id;
    let of_two = ann.make_snapshot(&two, &MakeSnapshot::default()).await.unwrap().snapshot.snapshot_id;
    let only_one = CreateChildToken { sandbox_id: Some(one.clone()), ..CreateChildToken::default() };
    let manages = CreateChildToken { scopes: scopes(&["use", "manage"]), ..only_one.clone() };
    assert_eq!(code(ann.create_child_token(&manages).await), Some(ErrorCode::InvalidRequest));
    let client = child(&daemon, &ann, &only_one).await;

    let output = outcome(client.run(&one, &script("echo ok")).await.unwrap()).await;
    assert_eq!(output.text(), "ok\n");
    assert_eq!(client.whoami().await.unwrap().sandbox_id, Some(one.clone()));
    let listed = client.list(&ListSandboxes::default()).await.unwrap().sandboxes;
    assert!(listed.len() == 1 && listed[0].sandbox_id == one, "{listed:?}");
    assert_eq!(code(client.get(&two).await), Some(ErrorCode::NotFound));
    client.snapshot(&of_one).await.unwrap();
    assert_eq!(code(client.snapshot(&of_two).await), Some(ErrorCode::NotFound));
    assert_eq!(client.all_snapshots(None).await.unwrap().snapshots.len(), 1);
    assert!(client.snapshots(&two, None).await.unwrap().snapshots.is_empty());
    let request = CreateSandbox { session_key: "chat:3".into(), ..CreateSandbox::default() };
    assert_eq!(code(client.create_or_reconnect(&request).await), Some(ErrorCode::Forbidden));
    // Nor with the key of its own sandbox, or by a child of its own.
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    assert_eq!(code(client.create_or_reconnect(&request).await), Some(ErrorCode::Forbidden));
    let grandchild = child(&daemon, &client, &CreateChildToken::default()).await;
    assert_eq!(code(grandchild.get(&two).await), Some(ErrorCode::NotFound));
    let of_two = CreateChildToken { sandbox_id: Some(two.clone()), ..CreateChildToken::default() };
    assert_eq!(code(client.create_child_token(&of_two).await), Some(ErrorCode::NotFound));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_ends_with_its_parent_and_at_its_time() {
    let mut daemon = Daemon::start().await;
    let parent = token_of(&daemon, "lab", Some("ann"), &["use"]).await;
    let client = Client::new(&daemon.base, &parent.token).unwrap();
    let lasting = child(&daemon, &client, &CreateChildToken::default()).await;
    let brief = CreateChildToken { ttl_ms: Some(2_000), ..CreateChildToken::default() };
    let brief = child(&daemon, &client, &brief).await;
    let id = create(&lasting, "chat:1").await;
    let endless = "while echo tick; do sleep 0.1; done";
    let mut short_stream = brief.run(&id, &script(endless)).await.unwrap();
    let end = async { while let Some(Ok(_)) = short_stream.next().await {} };
    timeout(SOON, end).await.expect("the stream outlives its token");
    assert_eq!(code(brief.whoami().await), Some(ErrorCode::Unauthenticated));

    let mut stream = lasting.run(&id, &script(endless)).await.unwrap();
    stream.next().await.unwrap().unwrap();
    let of_operator = child(&daemon, &daemon.client, &for_subject("ann")).await;
    let api = HttpClient::of(&daemon);
    let token = daemon.client.create_child_token(&for_subject("bob")).await.unwrap().token;
    daemon.client.revoke_token("lab", &parent.properties.token_id).await.unwrap();
    let end = async { while let Some(Ok(_)) = stream.next().await {} };
    timeout(SOON, end).await.expect("the stream outlives the parent of its token");
    assert_eq!(code(lasting.whoami().await), Some(ErrorCode::Unauthenticated));
    of_operator.whoami().await.unwrap();

    for (body, field) in [
        (json!({ "subject": "a b" }), "subject"),
        (json!({ "scopes": ["admin"] }), "scopes"),
        (json!({ "ttlMs": 1 }), "ttlMs"),
        (json!({ "ttlMs": 86_400_001 }), "ttlMs"),
    ] {
        api.post("/v1/child-tokens", &body).await.refused(ErrorCode::InvalidRequest, field);
    }

    // It survives a restart, and ends with another token of the operator.
    let home = daemon.stop().await;
    daemon = Daemon::start_in(home).await;
    Client::new(&daemon.base, &token).unwrap().whoami().await.unwrap();
    let home = daemon.stop().await;
    daemon = Daemon::start_in(home.set("SANDBOXD_ADMIN_TOKEN", "another-token-of-the-operator")).await;
    let refused = Client::new(&daemon.base, &token).unwrap().whoami().await;
    assert_eq!(code(refused), Some(ErrorCode::Unauthenticated));
    daemon.stop().await;
}
