//! Tokens of projects: what they permit, and their end.

use futures::StreamExt;
use sandbox_api::ErrorCode;
use sandbox_api::command::StartCommand;
use sandbox_api::port::CreateLink;
use sandbox_api::project::CreateToken;
use sandbox_api::sandbox::{CreateSandbox, ListSandboxes};
use sandbox_api::terminal::OpenTerminal;
use sandbox_client::{Client, Error};
use tokio::time::timeout;

use super::{client_of, token_of};
use crate::support::harness::{Daemon, Home, SOON, script, until};
use crate::support::http::{Answer, HttpClient};
use crate::support::visitor::visit;

fn request(key: &str) -> CreateSandbox {
    CreateSandbox { session_key: key.into(), ports: Some(vec![3000]), ..CreateSandbox::default() }
}

fn code<T>(result: Result<T, Error>) -> Option<ErrorCode> {
    result.err().expect("the request is refused").code()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_permits_what_its_scopes_say() {
    let daemon = Daemon::start().await;
    let user = client_of(&daemon, "lab", None, &["use"]).await;
    let reader = client_of(&daemon, "lab", None, &["read"]).await;
    let manager = client_of(&daemon, "lab", None, &["manage"]).await;
    let id = user.create_or_reconnect(&request("chat:1")).await.unwrap().sandbox_id;
    user.put_file(&id, "a.txt", "hello", Default::default()).await.unwrap();

    assert_eq!(reader.read_file(&id, "a.txt").await.unwrap().unwrap(), b"hello");
    assert_eq!(reader.list(&ListSandboxes::default()).await.unwrap().sandboxes.len(), 1);
    assert_eq!(code(reader.run(&id, &script("true")).await), Some(ErrorCode::Forbidden));
    assert_eq!(code(reader.delete(&id).await), Some(ErrorCode::Forbidden));
    assert_eq!(code(manager.get(&id).await), Some(ErrorCode::Forbidden));
    assert_eq!(code(user.tokens("lab", None).await), Some(ErrorCode::Forbidden));
    assert_eq!(code(user.orphans().await), Some(ErrorCode::Forbidden));
    assert_eq!(code(manager.orphans().await), Some(ErrorCode::Forbidden));
    assert_eq!(code(manager.create_project("other").await), Some(ErrorCode::Forbidden));

    let me = reader.whoami().await.unwrap();
    assert_eq!((me.project.as_str(), me.subject, me.operator), ("lab", None, false));
    assert_eq!(me.scopes, ["read"]);
    assert!(daemon.client.whoami().await.unwrap().operator);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_token_is_never_wider_than_the_one_that_creates_it() {
    let daemon = Daemon::start().await;
    let of_ann = client_of(&daemon, "lab", Some("ann"), &["use", "manage"]).await;
    let of_project = client_of(&daemon, "lab", None, &["read", "manage"]).await;
    let scopes = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());

    let mine = of_ann.create_token("lab", &CreateToken::default()).await.unwrap();
    assert_eq!(mine.properties.subject.as_deref(), Some("ann"), "{mine:?}");
    let of_bob = CreateToken { subject: Some("bob".into()), ..CreateToken::default() };
    assert_eq!(code(of_ann.create_token("lab", &of_bob).await), Some(ErrorCode::Forbidden));
    let wider = CreateToken { scopes: scopes(&["use"]), ..CreateToken::default() };
    assert_eq!(code(of_project.create_token("lab", &wider).await), Some(ErrorCode::Forbidden));
    assert_eq!(code(of_ann.create_token("default", &wider).await), Some(ErrorCode::NotFound));

    let short =
        CreateToken { scopes: scopes(&["manage", "use"]), ttl_ms: Some(3_600_000), ..CreateToken::default() };
    let short = daemon.client.create_token("lab", &short).await.unwrap();
    let short = Client::new(&daemon.base, &short.token).unwrap();
    let longer = CreateToken { ttl_ms: Some(7_200_000), ..CreateToken::default() };
    assert_eq!(code(short.create_token("lab", &longer).await), Some(ErrorCode::Forbidden));
    assert_eq!(code(short.create_token("lab", &CreateToken::default()).await), Some(ErrorCode::Forbidden));
    let shorter = CreateToken { ttl_ms: Some(60_000), ..CreateToken::default() };
    short.create_token("lab", &shorter).await.unwrap();

    // A token with a subject sees and revokes only those of its subject.
    let seen = of_ann.tokens("lab", None).await.unwrap().tokens;
    assert!(seen.len() == 2 && seen.iter().all(|token| token.subject.as_deref() == Some("ann")), "{seen:?}");
    let all = daemon.client.tokens("lab", None).await.unwrap().tokens;
    let other = all.iter().find(|token| token.subject.is_none()).unwrap();
    of_ann.revoke_token("lab", &other.token_id).await.unwrap();
    assert_eq!(daemon.client.tokens("lab", None).await.unwrap().tokens.len(), all.len());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_ends_its_streams_terminals_and_links_at_once() {
    let daemon = Daemon::start().await;
    let token = token_of(&daemon, "lab", Some("ann"), &["use"]).await;
    let client = Client::new(&daemon.base, &token.token).unwrap();
    let other = client_of(&daemon, "lab", None, &["use"]).await;
    let id = client.create_or_reconnect(&request("chat:1")).await.unwrap().sandbox_id;

    let endless = StartCommand { detached: Some(true), ..script("while echo tick; do sleep 0.1; done") };
    let mut stream = client.run(&id, &endless).await.unwrap();
    stream.next().await.unwrap().unwrap();
    let mut kept = other.run(&id, &script("while echo tick; do sleep 0.1; done")).await.unwrap();
    let terminal = client.open_terminal(&id, &OpenTerminal::default()).await.unwrap().terminal_id;
    let (mut attached, _keyboard) = client.attach_terminal(&id, &terminal).await.unwrap();
    let serve =
        "mkdir -p site; echo page > site/index.html; exec python3 -m http.server -d site -b 127.0.0.1 3000";
    other.run(&id, &StartCommand { detached: Some(true), ..script(serve) }).await.unwrap();
    let link = client.create_link(&id, 3000, &CreateLink::default()).await.unwrap();
    let lasting = other.create_link(&id, 3000, &CreateLink::default()).await.unwrap();
    until("the page is served", async || visit(&link.url).await.status == 200).await;

    daemon.client.revoke_token("lab", &token.properties.token_id).await.unwrap();
    let end = async { while let Some(Ok(_)) = stream.next().await {} };
    timeout(SOON, end).await.expect("the stream continues");
    let end = async { while let Some(Ok(_)) = attached.next().await {} };
    timeout(SOON, end).await.expect("the terminal continues");
    assert_eq!(code(client.get(&id).await), Some(ErrorCode::Unauthenticated));
    assert_ne!(visit(&link.url).await.status, 200);
    assert_eq!(visit(&lasting.url).await.status, 200);
    assert!(matches!(kept.next().await, Some(Ok(_))), "a stream of another token continues");
    // What it started is of the sandbox.
    assert!(other.terminals(&id).await.unwrap().terminals.len() == 1);
    daemon.client.revoke_token("lab", &token.properties.token_id).await.unwrap();
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_expire_and_survive_a_restart() {
    let mut daemon = Daemon::start().await;
    let lasting = token_of(&daemon, "lab", None, &["use"]).await;
    let short = CreateToken { ttl_ms: Some(1_000), ..CreateToken::default() };
    let short = daemon.client.create_token("lab", &short).await.unwrap();
    let revoked = token_of(&daemon, "lab", None, &["use"]).await;
    daemon.client.revoke_token("lab", &revoked.properties.token_id).await.unwrap();
    let client = Client::new(&daemon.base, &short.token).unwrap();
    let has_expired =
        async || client.whoami().await.is_err_and(|error| error.code() == Some(ErrorCode::Unauthenticated));
    until("the token has expired", has_expired).await;

    let home = daemon.stop().await;
    daemon = Daemon::start_in(home).await;
    let is_accepted = async |token: &str| Client::new(&daemon.base, token).unwrap().whoami().await.is_ok();
    assert!(is_accepted(&lasting.token).await);
    assert!(!is_accepted(&short.token).await && !is_accepted(&revoked.token).await);
    let listed = daemon.client.tokens("lab", None).await.unwrap().tokens;
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert!(listed.iter().any(|token| token.last_used_at.is_some()), "{listed:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_stored_nowhere_and_bad_requests_name_the_field() {
    let daemon = Daemon::start_in(Home::new()).await;
    let token = token_of(&daemon, "lab", Some("ann"), &["use"]).await;
    assert!(!format!("{token:?}").contains(&token.token));
    let secret = token.token.rsplit('_').next().unwrap();
    let client = Client::new(&daemon.base, &token.token).unwrap();
    client.whoami().await.unwrap();

    let api = HttpClient::of(&daemon);
    let tokens = "/v1/projects/lab/tokens";
    for (path, body, field) in [
        ("/v1/projects", serde_json::json!({ "name": "No" }), "name"),
        (tokens, serde_json::json!({ "subject": "a b" }), "subject"),
        (tokens, serde_json::json!({ "scopes": ["admin"] }), "scopes"),
        (tokens, serde_json::json!({ "scopes": [] }), "scopes"),
        (tokens, serde_json::json!({ "ttlMs": 1 }), "ttlMs"),
        (tokens, serde_json::json!({ "name": "" }), "name"),
    ] {
        let refused = api.post(path, &body).await.refused(ErrorCode::InvalidRequest, field);
        assert_eq!(refused.details["field"], field, "{body}");
    }
    let missing = Answer::to(api.with_token("GET", "/v1/projects/nothing/tokens")).await;
    missing.refused(ErrorCode::NotFound, "a project that does not exist");

    let home = daemon.stop().await;
    for entry in std::fs::read_dir(home.path().join("state")).unwrap() {
        let path = entry.unwrap().path();
        let bytes = if path.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
        assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{}", path.display());
    }
}
