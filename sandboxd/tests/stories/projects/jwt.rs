//! JSON Web Tokens: whom they stand for, which are refused, and how those of a subject end.

use std::path::Path;

use futures::StreamExt;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use sandbox_api::ErrorCode;
use sandbox_api::port::CreateLink;
use sandbox_api::project::CreateChildToken;
use sandbox_api::sandbox::CreateSandbox;
use sandbox_client::{Client, Error};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::harness::{Daemon, Home, SOON, script};
use crate::support::visitor::visit;

const SECRET: &str = "a secret of thirty-two bytes, or more";

fn code<T>(result: Result<T, Error>) -> Option<ErrorCode> {
    result.err().expect("the request is refused").code()
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn claims(subject: &str) -> Value {
    json!({ "sub": subject, "aud": "sandboxd", "exp": now() + 600, "iat": now(), "team": "lab" })
}

fn sign(claims: &Value) -> String {
    encode(&Header::default(), claims, &EncodingKey::from_secret(SECRET.as_bytes())).unwrap()
}

/// Settings of a daemon that accepts tokens signed with [`SECRET`].
pub(super) fn with_secret(home: Home) -> Home {
    let file = home.path().join("jwt-secret");
    std::fs::write(&file, SECRET).unwrap();
    with_keys(home, &file)
}

/// Tokens for the project `lab` and the subject `ann` that are not valid: each is wrong in one way.
pub(super) fn wrong_tokens() -> Vec<String> {
    let changed = |name: &str, value: Value| {
        let mut claims = claims("ann");
        claims[name] = value;
        sign(&claims)
    };
    let parts: Vec<String> = sign(&claims("ann")).split('.').map(str::to_owned).collect();
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let other_key = EncodingKey::from_secret(b"another secret, of another installation");
    vec![
        changed("aud", "another-app".into()),
        changed("exp", (now() - 60).into()),
        changed("nbf", (now() + 600).into()),
        changed("team", "no-such-project".into()),
        changed("sub", Value::Null),
        // `alg: none`, and without the signature.
        format!("eyJhbGciOiJub25lIn0.{}.", parts[1]),
        format!("{}.{}.", parts[0], parts[1]),
        encode(&Header::default(), &claims("ann"), &other_key).unwrap(),
        encode(&Header::new(Algorithm::HS512), &claims("ann"), &key).unwrap(),
    ]
}

fn with_keys(home: Home, file: &Path) -> Home {
    let home = home.set("SANDBOXD_JWT_SECRET_FILE", file.to_str().unwrap());
    home.set("SANDBOXD_JWT_AUDIENCE", "sandboxd").set("SANDBOXD_JWT_PROJECT_CLAIM", "team")
}

fn client(daemon: &Daemon, token: &str) -> Client {
    Client::new(&daemon.base, token).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_stands_for_its_subject_in_a_project_that_exists() {
    let daemon = Daemon::start_in(with_secret(Home::new())).await;
    let ann = client(&daemon, &sign(&claims("ann")));
    assert_eq!(code(ann.whoami().await), Some(ErrorCode::Unauthenticated), "its project does not exist");
    daemon.client.create_project("lab").await.unwrap();
    let me = ann.whoami().await.unwrap();
    assert_eq!((me.project.as_str(), me.subject.as_deref(), me.operator), ("lab", Some("ann"), false));
    assert_eq!((me.scopes, me.token.as_str()), (vec!["use".to_owned()], "jwt"));
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let id = ann.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let bob = client(&daemon, &sign(&claims("bob")));
    assert_eq!(code(bob.get(&id).await), Some(ErrorCode::NotFound));

    for refused in wrong_tokens() {
        assert_eq!(
            code(client(&daemon, &refused).get(&id).await),
            Some(ErrorCode::Unauthenticated),
            "{refused}"
        );
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tokens_of_a_revoked_subject_end_with_their_streams_and_links() {
    let mut daemon = Daemon::start_in(with_secret(Home::new())).await;
    daemon.client.create_project("lab").await.unwrap();
    let (of_ann, of_bob) = (sign(&claims("ann")), sign(&claims("bob")));
    let (ann, bob) = (client(&daemon, &of_ann), client(&daemon, &of_bob));
    let request =
        CreateSandbox { session_key: "chat:1".into(), ports: Some(vec![3000]), ..CreateSandbox::default() };
    let id = ann.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let of_child = ann.create_child_token(&CreateChildToken::default()).await.unwrap().token;
    let child = client(&daemon, &of_child);
    let mut stream = ann.run(&id, &script("while echo tick; do sleep 0.1; done")).await.unwrap();
    stream.next().await.unwrap().unwrap();
    let mut of_stream = child.run(&id, &script("while echo tick; do sleep 0.1; done")).await.unwrap();
    of_stream.next().await.unwrap().unwrap();
    let link = ann.create_link(&id, 3000, &CreateLink::default()).await.unwrap();

    daemon.client.revoke_subject("lab", "ann").await.unwrap();
    let end = async { while let Some(Ok(_)) = stream.next().await {} };
    timeout(SOON, end).await.expect("the stream continues");
    let end = async { while let Some(Ok(_)) = of_stream.next().await {} };
    timeout(SOON, end).await.expect("the stream of the child token continues");
    assert_eq!(code(ann.whoami().await), Some(ErrorCode::Unauthenticated));
    assert_eq!(code(child.whoami().await), Some(ErrorCode::Unauthenticated));
    let gone = visit(&link.url).await.status;
    assert!(gone == 404 || gone == 410, "{gone}");
    bob.whoami().await.unwrap();
    assert_eq!(code(bob.revoke_subject("lab", "ann").await), Some(ErrorCode::Forbidden));

    // One that is issued later is valid, also after a restart, and the earlier ones still are not.
    let mut later = claims("ann");
    later["iat"] = (now() + 1).into();
    let later = sign(&later);
    client(&daemon, &later).whoami().await.unwrap();
    let home = daemon.stop().await;
    daemon = Daemon::start_in(home).await;
    client(&daemon, &later).whoami().await.unwrap();
    client(&daemon, &of_bob).whoami().await.unwrap();
    for ended in [&of_ann, &of_child] {
        assert_eq!(code(client(&daemon, ended).whoami().await), Some(ErrorCode::Unauthenticated));
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_does_not_outlive_its_token() {
    let daemon = Daemon::start_in(with_secret(Home::new())).await;
    daemon.client.create_project("lab").await.unwrap();
    // The daemon allows the clocks to differ by 30 seconds.
    let mut brief = claims("ann");
    brief["exp"] = (now() - 25).into();
    let ann = client(&daemon, &sign(&brief));
    let request = CreateSandbox { session_key: "chat:1".into(), ..CreateSandbox::default() };
    let id = ann.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let mut stream = ann.run(&id, &script("while echo tick; do sleep 0.1; done")).await.unwrap();
    let end = async { while let Some(Ok(_)) = stream.next().await {} };
    timeout(SOON, end).await.expect("the stream continues");
    assert_eq!(code(ann.whoami().await), Some(ErrorCode::Unauthenticated));
    daemon.stop().await;
}
