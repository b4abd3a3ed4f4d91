//! Options of a sandbox besides its size: image, environment, metadata.

use bollard::query_parameters::{RemoveImageOptions, TagImageOptions};
use sandbox_api::ErrorCode;
use sandbox_api::command::StartCommand;
use sandbox_api::sandbox::{CreateSandbox, StringMap};
use serde_json::json;

use crate::support::harness::{Daemon, Home, docker, outcome, script};
use crate::support::http::HttpClient;

const USUAL: &str = "remcochat-sandbox:node24";

/// A registry address that rejects every connection.
const OUT_OF_REACH: &str = "127.0.0.1:1/none:latest";

fn map(entries: &[(&str, &str)]) -> StringMap {
    entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn another_image_is_used_if_the_operator_allows_it() {
    let home = Home::new();
    let repository =
        format!("sandboxd-test-{}", home.path().file_name().unwrap().to_str().unwrap().to_lowercase());
    let other = format!("{repository}:allowed");
    let engine = docker().await;
    let tag = TagImageOptions { repo: Some(repository), tag: Some("allowed".into()) };
    engine.tag_image(USUAL, Some(tag)).await.unwrap();
    let tried = std::panic::AssertUnwindSafe(images(home, &other));
    let done = futures::FutureExt::catch_unwind(tried).await;
    engine.remove_image(&other, None::<RemoveImageOptions>, None).await.unwrap();
    if let Err(panic) = done {
        std::panic::resume_unwind(panic);
    }
}

async fn images(home: Home, other: &str) {
    let home = home.set("SANDBOXD_ALLOWED_IMAGES", &format!("{other},{OUT_OF_REACH}"));
    let daemon = Daemon::start_in(home).await;
    let api = HttpClient::of(&daemon);
    let request = |key: &str, image: &str| CreateSandbox {
        session_key: key.into(),
        image: Some(image.into()),
        ..CreateSandbox::default()
    };
    let made = daemon.client.create_or_reconnect(&request("chat:1", other)).await.unwrap();
    assert_eq!(daemon.client.get(&made.sandbox_id).await.unwrap().image, other);
    let name = format!("remcochat-sandbox-{}", made.sandbox_id);
    let image_of = async || {
        let container = docker().await.inspect_container(&name, None).await.unwrap();
        container.config.unwrap().image.unwrap()
    };
    assert_eq!(image_of().await, other);
    assert_eq!(daemon.output(&made.sandbox_id, "echo made").await, "made\n");
    daemon.client.park(&made.sandbox_id, false).await.unwrap();
    assert_eq!(daemon.output(&made.sandbox_id, "echo woken").await, "woken\n");
    assert_eq!(image_of().await, other);
    let again = daemon.client.create_or_reconnect(&request("chat:1", USUAL)).await.unwrap();
    assert!(!again.created && again.ignored.contains(&"image".to_owned()), "{again:?}");
    let usual = daemon.client.create_or_reconnect(&request("chat:2", USUAL)).await.unwrap();
    assert_eq!(daemon.client.get(&usual.sandbox_id).await.unwrap().image, USUAL);

    for image in ["debian:trixie", "", &other.replace("allowed", "other"), &format!("{other}@sha256:0")] {
        let body = json!({ "sessionKey": "chat:3", "image": image });
        let refused = api.post("/v1/sandboxes", &body).await.refused(ErrorCode::Refused, image);
        assert_eq!((&refused.details["field"], &refused.details["value"]), (&json!("image"), &json!(image)));
        assert!(refused.error.contains("SANDBOXD_ALLOWED_IMAGES"), "{}", refused.error);
    }
    let body = json!({ "sessionKey": "chat:3", "image": OUT_OF_REACH });
    let refused = api.post("/v1/sandboxes", &body).await.refused(ErrorCode::Refused, OUT_OF_REACH);
    assert_eq!(
        (&refused.details["field"], &refused.details["value"]),
        (&json!("image"), &json!(OUT_OF_REACH))
    );
    assert!(refused.error.contains("cannot be pulled"), "{}", refused.error);
    // The session is as if there had been no request.
    let body = json!({ "sessionKey": "chat:3" });
    assert_eq!(api.post("/v1/sandboxes", &body).await.json()["created"], true);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_inherits_the_sandboxs_environment() {
    let daemon = Daemon::start().await;
    let request = CreateSandbox {
        session_key: "chat:1".into(),
        env: Some(map(&[("API_KEY", "s3cret value"), ("MODE", "usual"), ("EMPTY", ""), ("ÜMLAUT", "ä\nb")])),
        ..CreateSandbox::default()
    };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    let show =
        "printf '%s|%s|%s|' \"$API_KEY\" \"$MODE\" \"${EMPTY-unset}\"; printenv ÜMLAUT; bash -c 'echo $MODE'";
    let usual = "s3cret value|usual||ä\nb\nusual\n";
    assert_eq!(daemon.output(&sandbox, show).await, usual);
    let own = StartCommand { env: Some(map(&[("MODE", "own")])), ..script(show) };
    let own = outcome(daemon.client.run(&sandbox, &own).await.unwrap()).await;
    assert_eq!(own.text(), "s3cret value|own||ä\nb\nown\n");
    let argv = StartCommand {
        cmd: Some("printenv".into()),
        args: Some(vec!["API_KEY".into()]),
        ..StartCommand::default()
    };
    let argv = outcome(daemon.client.run(&sandbox, &argv).await.unwrap()).await;
    assert_eq!(argv.text(), "s3cret value\n");

    // Neither the API nor the engine reveals a value.
    let api = HttpClient::of(&daemon);
    for path in [
        format!("/v1/sandboxes/{sandbox}"),
        "/v1/sandboxes".into(),
        format!("/v1/sandboxes/{sandbox}/commands"),
    ] {
        let answer = api.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(!String::from_utf8_lossy(&answer.body).contains("s3cret"), "{path}");
    }
    let keys = daemon.client.get(&sandbox).await.unwrap().env_keys;
    assert_eq!(keys, ["API_KEY", "EMPTY", "MODE", "ÜMLAUT"]);
    let container = docker().await.inspect_container(&format!("remcochat-sandbox-{sandbox}"), None).await;
    assert!(!format!("{:?}", container.unwrap()).contains("s3cret"));

    daemon.client.park(&sandbox, false).await.unwrap();
    assert_eq!(daemon.output(&sandbox, show).await, usual);
    let daemon = Daemon::start_in(daemon.stop().await).await;
    assert_eq!(daemon.output(&sandbox, show).await, usual);
    daemon.client.park(&sandbox, false).await.unwrap();
    let daemon = Daemon::start_in(daemon.stop().await).await;
    assert_eq!(daemon.output(&sandbox, show).await, usual);
    let other = CreateSandbox { env: Some(map(&[("API_KEY", "another")])), ..request };
    let again = daemon.client.create_or_reconnect(&other).await.unwrap();
    assert!(again.ignored.contains(&"env".to_owned()), "{again:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_returned_unchanged() {
    let daemon = Daemon::start().await;
    let metadata = map(&[("chat", "42"), ("title", "ünï \"quoted\"\n\u{1F600}"), ("empty", "")]);
    let request = CreateSandbox {
        session_key: "chat:1".into(),
        metadata: Some(metadata.clone()),
        ..CreateSandbox::default()
    };
    let sandbox = daemon.client.create_or_reconnect(&request).await.unwrap().sandbox_id;
    assert_eq!(daemon.client.get(&sandbox).await.unwrap().metadata, metadata);
    // Ids in the environment are random, so that they can contain the digits.
    assert_eq!(daemon.output(&sandbox, "env | grep -cE '^chat=|=42$' || true").await, "0\n");
    daemon.client.park(&sandbox, false).await.unwrap();
    let daemon = Daemon::start_in(daemon.stop().await).await;
    assert_eq!(daemon.client.get(&sandbox).await.unwrap().metadata, metadata);
    daemon.output(&sandbox, "true").await;
    assert_eq!(daemon.client.get(&sandbox).await.unwrap().metadata, metadata);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_option_names_its_field() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let many: StringMap = (0..65).map(|at| (format!("V{at}"), "x".into())).collect();
    let most: StringMap = (0..64).map(|at| (format!("V{at}"), "x".into())).collect();
    let cases = [
        ("env", json!({ "A": "x".repeat(32 * 1024) }), "env"),
        ("env", json!(many), "env"),
        ("env", json!({ "A=B": "x" }), "env.A=B"),
        ("env", json!({ "": "x" }), "env."),
        ("env", json!({ "A": "x\0y" }), "env.A"),
        ("env", json!({ "A": null }), "env.A"),
        ("env", json!("A=B"), "env"),
        ("metadata", json!({ "a": "x".repeat(32 * 1024) }), "metadata"),
        ("metadata", json!(many), "metadata"),
        ("metadata", json!({ "a": 7 }), "metadata.a"),
        ("metadata", json!({ "a": { "b": "c" } }), "metadata.a"),
        ("image", json!(7), "image"),
        ("resources", json!({ "diskMb": 63 }), "resources.diskMb"),
        ("resources", json!({ "diskMb": 65_537 }), "resources.diskMb"),
        ("resources", json!({ "diskMb": "64" }), "resources.diskMb"),
    ];
    for (field, value, named) in cases {
        let mut request = json!({ "sessionKey": "chat:1" });
        request[field] = value;
        let what: String = request.to_string().chars().take(80).collect();
        api.post("/v1/sandboxes", &request).await.faults(named, &what);
    }
    assert_eq!(crate::support::engine_view::objects_of(&daemon.home).await, Vec::<String>::new());
    let request = json!({ "sessionKey": "chat:1", "env": most, "metadata": most });
    assert_eq!(api.post("/v1/sandboxes", &request).await.status, 200);
    daemon.stop().await;
}
