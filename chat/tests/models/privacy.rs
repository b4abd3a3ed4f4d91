//! Only the model's server receives the key.

use std::error::Error as _;
use std::process::Command;

use chat::model::{Anthropic, Error, OpenAi};
use serde_json::json;

use crate::received::{KEY, both_at, fault, openai_at, question, send};
use crate::scripted_model::{Reply, ScriptedModel};

/// All text that could be logged for an error.
fn all_of(error: &Error) -> String {
    let mut reported = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(cause) = source {
        reported.push_str(&format!(" {cause} {cause:?}"));
        source = cause.source();
    }
    reported
}

#[tokio::test]
async fn no_error_has_the_key_in_it() {
    let fault_of = |what: &str| json!({"error": {"message": format!("{what} {KEY}")}});
    for reply in [
        Reply::json(401, &fault_of("not a key:")),
        Reply::text(403, "text/plain", format!("Bearer {KEY}")),
        Reply::json(200, &fault_of("not a key:")),
        Reply::stream(format!("data: {}\n\n", json!({"type": "error", "error": {"message": KEY}}))),
        Reply::stream(format!("data: {{\"type\": \"{KEY}\", \"choices\": \"{KEY}\"}}\n\n")),
        Reply::stream(format!(
            "data: {}\n\n",
            json!({"type": "content_block_stop", "index": KEY, "choices": KEY})
        )),
    ] {
        let server = ScriptedModel::start([reply.clone(), reply]).await;
        for (name, client) in both_at(&server.base) {
            let error = fault(&*client).await;
            assert!(!all_of(&error).contains(KEY), "{name}: {}", all_of(&error));
        }
    }
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let other = ScriptedModel::start([]).await;
    for status in [301, 302, 303, 307, 308] {
        let reply = Reply::text(status, "text/plain", "").with_header("location", other.base.to_string());
        let server = ScriptedModel::start([reply.clone(), reply]).await;
        for (name, client) in both_at(&server.base) {
            let error = fault(&*client).await;
            let is_reported = matches!(error, Error::Refused { status: reported, .. } if reported == status);
            assert!(is_reported, "{name}: {error:?}");
        }
    }
    assert_eq!(other.requests().len(), 0);
}

#[tokio::test]
async fn without_a_key_no_header_is_sent() {
    let server = ScriptedModel::start([Reply::stream("data: [DONE]\n\n"), Reply::stream("")]).await;
    send(&OpenAi::new(server.base.clone(), None).unwrap(), question("hi")).await;
    send(&Anthropic::new(server.base.clone(), None).unwrap(), question("hi")).await;
    for received in server.requests() {
        assert!(!received.headers.contains_key("authorization"), "{:?}", received.headers);
        assert!(!received.headers.contains_key("x-api-key"), "{:?}", received.headers);
    }
}

#[test]
fn a_client_does_not_show_its_key() {
    for (name, shown) in [
        ("openai", format!("{:?}", openai_at(&"http://one.example".parse().unwrap()))),
        ("anthropic", format!("{:?}", crate::received::anthropic_at(&"http://one.example".parse().unwrap()))),
    ] {
        assert!(!shown.contains(KEY), "{name}: {shown}");
    }
}

/// A separate program, because it needs its own environment.
#[test]
fn the_proxy_is_used_for_other_hosts_and_not_for_this_machine() {
    let received = |test: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--ignored", test]);
        // Nothing listens on the discard port, so requests through the proxy fail.
        command.env("http_proxy", "http://127.0.0.1:9").env_remove("no_proxy").env_remove("NO_PROXY");
        let done = command.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
        assert!(String::from_utf8_lossy(&done.stdout).contains("1 passed"));
    };
    received("privacy::this_machine_is_reached_directly");
    received("privacy::other_hosts_are_reached_through_the_proxy");
}

#[tokio::test]
#[ignore = "runs in the environment that another test makes for it"]
async fn this_machine_is_reached_directly() {
    let server = ScriptedModel::start([Reply::stream("data: [DONE]\n\n")]).await;
    assert!(send(&openai_at(&server.base), question("hi")).await.error.is_none());
}

#[tokio::test]
#[ignore = "runs in the environment that another test makes for it"]
async fn other_hosts_are_reached_through_the_proxy() {
    // The name does not exist. Only a proxy would resolve it.
    let error = fault(&openai_at(&"http://model.invalid".parse().unwrap())).await;
    assert!(all_of(&error).contains("Connection refused"), "{}", all_of(&error));
}
