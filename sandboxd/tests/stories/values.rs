//! Values that are kept with a sandbox, by key.

use futures::future::join_all;
use sandbox_api::quota::Quotas;
use sandbox_api::sandbox::{CreateSandbox, SandboxState};
use sandbox_api::{ErrorCode, SandboxId};
use sandbox_client::{Client, Error};

use crate::projects::token_of;
use crate::support::fault_injection::connect;
use crate::support::harness::Daemon;
use crate::support::http::{Answer, HttpClient};

const MIB: usize = 1024 * 1024;

async fn keys(client: &Client, sandbox: &SandboxId, prefix: &str) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = client.values(sandbox, prefix, cursor.as_deref()).await.unwrap();
        found.extend(page.values.into_iter().map(|value| value.key));
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return found,
        }
    }
}

/// Code of an error, and the value of the limit or quota that it names.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> (ErrorCode, u64) {
    let error = result.expect_err("the request is refused");
    let body = error.body().unwrap_or_else(|| panic!("no refusal: {error:?}"));
    (body.code, body.details.get("value").and_then(serde_json::Value::as_u64).unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn values_stay_while_a_sandbox_is_parked_and_go_with_it() {
    let daemon = Daemon::start().await;
    let (one, two) = (daemon.sandbox("chat:1").await, daemon.sandbox("chat:2").await);
    let client = &daemon.client;
    let names = [".hidden", "a b", "a/b", "user:42", "ключ", "%2F", "a\\b?c#d"];
    for (number, key) in names.iter().enumerate() {
        client.put_value(&one, key, vec![0, 255, number as u8]).await.unwrap();
    }
    client.put_value(&one, "empty", "").await.unwrap();
    client.put_value(&two, "a/b", "of two").await.unwrap();
    client.park(&one, true).await.unwrap();
    client.put_value(&one, "user:42", "while parked").await.unwrap();

    let daemon = Daemon::start_in(daemon.stop().await).await;
    let client = &daemon.client;
    assert_eq!(client.get_value(&one, "user:42").await.unwrap(), "while parked");
    for (number, key) in names.iter().enumerate().filter(|(_, key)| **key != "user:42") {
        assert_eq!(client.get_value(&one, key).await.unwrap(), vec![0, 255, number as u8], "{key}");
    }
    assert_eq!(client.get_value(&one, "empty").await.unwrap(), "");
    assert_eq!(keys(client, &one, "a").await, ["a b", "a/b", "a\\b?c#d"]);
    assert_eq!(keys(client, &one, "").await.len(), 8);
    for _ in 0..2 {
        client.delete_value(&one, "a/b").await.unwrap();
    }
    assert_eq!(refused(client.get_value(&one, "a/b").await).0, ErrorCode::NotFound);
    assert_eq!(client.get_value(&two, "a/b").await.unwrap(), "of two");
    assert_eq!(client.get(&one).await.unwrap().state, SandboxState::Parked, "nothing of this wakes it");
    client.delete(&one).await.unwrap();
    assert_eq!(refused(client.get_value(&one, "empty").await).0, ErrorCode::NotFound);
    let mut database = connect(&daemon.home.config().state_dir).await;
    let rows = sqlx::query_scalar::<_, i64>("SELECT count(*) FROM kept_values").fetch_one(&mut database);
    assert_eq!(rows.await.unwrap(), 1);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_keys_are_in_the_order_of_their_bytes() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let mut names: Vec<_> = (0..230).map(|number| format!("key-{number}-é")).collect();
    for chunk in names.chunks(16) {
        for put in join_all(chunk.iter().map(|key| daemon.client.put_value(&sandbox, key, "v"))).await {
            put.unwrap();
        }
    }
    names.sort();
    assert_eq!(keys(&daemon.client, &sandbox, "key").await, names);
    assert_eq!(keys(&daemon.client, &sandbox, "kez").await, [""; 0]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_keys_and_large_values_are_refused() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let api = HttpClient::of(&daemon);
    let long = "k".repeat(257);
    let put =
        |key: &str| Answer::to(api.with_token("PUT", &format!("/v1/sandboxes/{sandbox}/kv/{key}")).body("v"));
    for key in ["a%00b", "%0a", "%C2%85", &long] {
        let answer = put(key).await;
        assert_eq!(answer.status, 400, "{key}: {answer:?}");
        assert_eq!(answer.json()["details"]["field"], "key", "{key}");
    }
    for key in ["a/b", "%ff", ""] {
        let answer = put(key).await;
        assert!([404, 405].contains(&answer.status), "{key}: {answer:?}");
    }
    let client = &daemon.client;
    client.put_value(&sandbox, "largest", vec![7; MIB]).await.unwrap();
    let larger = client.put_value(&sandbox, "largest", vec![8; MIB + 1]).await;
    assert_eq!(refused(larger).0, ErrorCode::TooLarge);
    assert_eq!(client.get_value(&sandbox, "largest").await.unwrap(), vec![7; MIB], "it stays");
    for (query, field) in
        [("limit=0", "limit"), ("limit=1001", "limit"), ("cursor=", "cursor"), ("prefix=%00", "prefix")]
    {
        let answer = api.get(&format!("/v1/sandboxes/{sandbox}/kv?{query}")).await;
        assert_eq!((answer.status, &answer.json()["details"]["field"]), (400, &field.into()), "{query}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_keeps_a_bounded_number_of_bytes() {
    let daemon = Daemon::start().await;
    let sandbox = daemon.sandbox("chat:1").await;
    let client = &daemon.client;
    // Each with a key of one byte, so the last one does not fit.
    for number in 0..63_u8 {
        let key = char::from(b'0' + number).to_string();
        client.put_value(&sandbox, &key, vec![number; MIB]).await.unwrap();
    }
    let last = client.put_value(&sandbox, "x", vec![0; MIB]).await;
    assert_eq!(refused(last), (ErrorCode::CapacityExhausted, 64 << 20));
    client.put_value(&sandbox, "x", vec![0; MIB - 64]).await.unwrap();
    assert_eq!(refused(client.put_value(&sandbox, "y", "").await).0, ErrorCode::CapacityExhausted);
    client.put_value(&sandbox, "0", "smaller").await.unwrap();
    client.put_value(&sandbox, "y", "").await.unwrap();
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_charged_to_their_project_also_after_failed_writes() {
    let daemon = Daemon::start().await;
    let token = token_of(&daemon, "lab", None, &["use", "manage"]).await.token;
    let lab = Client::new(&daemon.base, &token).unwrap();
    let request = |key: &str| CreateSandbox { session_key: key.into(), ..CreateSandbox::default() };
    let one = lab.create_or_reconnect(&request("chat:1")).await.unwrap().sandbox_id;
    let two = lab.create_or_reconnect(&request("chat:2")).await.unwrap().sandbox_id;
    let quotas = Quotas { value_bytes: Some(1000), ..Quotas::default() };
    daemon.client.set_quotas("lab", &quotas).await.unwrap();

    // Ten of them would take 2,020 bytes.
    let keys: Vec<_> = (0..10).map(|number| number.to_string()).collect();
    let put = |number: usize| {
        let sandbox = if number < 5 { &one } else { &two };
        lab.put_value(sandbox, &keys[number], vec![0; 201])
    };
    let done = join_all((0..10).map(put)).await;
    assert_eq!(done.iter().filter(|done| done.is_ok()).count(), 4, "{done:?}");
    let denied = done.into_iter().find(Result::is_err).unwrap();
    assert_eq!(refused(denied), (ErrorCode::CapacityExhausted, 1000));
    assert_eq!(used(&lab).await, 808);

    let mut other = connect(&daemon.home.config().state_dir).await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    assert_eq!(refused(lab.put_value(&one, "more", vec![0; 96]).await).0, ErrorCode::Unavailable);
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    lab.put_value(&one, "more", vec![0; 100]).await.unwrap();
    assert_eq!(used(&lab).await, 912);

    let daemon = Daemon::start_in(daemon.stop().await).await;
    let lab = Client::new(&daemon.base, &token).unwrap();
    assert_eq!(used(&lab).await, 912);
    lab.delete_value(&one, "more").await.unwrap();
    assert_eq!(used(&lab).await, 808);
    lab.delete(&one).await.unwrap();
    lab.delete(&two).await.unwrap();
    assert_eq!(used(&lab).await, 0);
    daemon.stop().await;
}

async fn used(client: &Client) -> u64 {
    let usage = client.project_usage("lab").await.unwrap();
    usage.now.into_iter().find(|found| found.quota == "valueBytes").unwrap().used
}
