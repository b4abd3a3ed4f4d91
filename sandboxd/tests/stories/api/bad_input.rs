//! Bad input: each error names its field, and no part of the request takes effect.

use sandbox_api::{ErrorCode, SandboxId};
use sandboxd::model::limits;
use serde_json::{Value, json};

use crate::support::engine_view::objects_of;
use crate::support::harness::{Daemon, Home, outcome, script};
use crate::support::http::{Answer, HttpClient};

const SANDBOXES: &str = "/v1/sandboxes";

/// The base request with one field changed.
fn with(request: &Value, field: &str, value: Value) -> Value {
    let mut request = request.clone();
    request[field] = value;
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_create_request_names_its_field() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let good = json!({ "sessionKey": "chat:1" });
    let keys = [json!(""), json!(" \t"), json!("k".repeat(513)), json!("é".repeat(257)), json!("a\nb")];
    let more_keys = [json!("a\0b"), json!("a\u{7f}"), json!(7), json!(null), json!(["k"])];
    for key in keys.into_iter().chain(more_keys) {
        let answer = api.post(SANDBOXES, &json!({ "sessionKey": key })).await;
        answer.faults("sessionKey", &key.to_string());
    }
    let cases = [
        ("runtime", json!(1), "runtime"),
        ("idleTtlMs", json!(9_999), "idleTtlMs"),
        ("idleTtlMs", json!(21_600_001), "idleTtlMs"),
        ("idleTtlMs", json!(-1), "idleTtlMs"),
        ("idleTtlMs", json!(10_000.5), "idleTtlMs"),
        ("idleTtlMs", json!("900000"), "idleTtlMs"),
        ("idleTtlMs", json!(1e30), "idleTtlMs"),
        ("resources", json!([]), "resources"),
        ("resources", json!({ "vcpus": 0 }), "resources.vcpus"),
        ("resources", json!({ "vcpus": 9 }), "resources.vcpus"),
        ("resources", json!({ "vcpus": "two" }), "resources.vcpus"),
        ("resources", json!({ "memoryMb": 255 }), "resources.memoryMb"),
        ("resources", json!({ "memoryMb": 16_385 }), "resources.memoryMb"),
        ("resources", json!({ "memoryMb": u64::MAX }), "resources.memoryMb"),
        ("resources", json!({ "memoryMb": true }), "resources.memoryMb"),
        ("resources", json!({ "pids": 15 }), "resources.pids"),
        ("resources", json!({ "pids": 4_097 }), "resources.pids"),
        ("resources", json!({ "pids": -1 }), "resources.pids"),
        ("network", json!("none"), "network"),
        ("network", json!({ "mode": "all" }), "network.mode"),
        ("network", json!({ "mode": "" }), "network.mode"),
        ("network", json!({ "mode": 1 }), "network.mode"),
        ("network", json!({ "allow": "example.com" }), "network.allow"),
        ("network", json!({ "allow": [1] }), "network.allow[0]"),
        ("network", json!({ "allow": ["example.com", "127.1"] }), "network.allow[1]"),
        ("network", json!({ "allow": ["http://example.com"] }), "network.allow[0]"),
        ("network", json!({ "allow": vec!["example.com"; limits::MAX_NETWORK_RULES + 1] }), "network.allow"),
        ("network", json!({ "allow": ["x.".repeat(limits::MAX_NETWORK_RULE_BYTES)] }), "network.allow[0]"),
        ("ports", json!(3000), "ports"),
        ("ports", json!([1, 2, 3, 4, 5]), "ports"),
        ("ports", json!([0]), "ports"),
        ("ports", json!([65_536]), "ports"),
        ("ports", json!([3000, -1]), "ports[1]"),
        ("ports", json!(["3000"]), "ports[0]"),
        ("env", json!({ "A": 1 }), "env.A"),
        ("metadata", json!([]), "metadata"),
    ];
    for (field, value, named) in cases {
        let request = with(&good, field, value);
        api.post(SANDBOXES, &request).await.faults(named, &request.to_string());
    }
    for runtime in ["node22", "", "Node24"] {
        let answer = api.post(SANDBOXES, &with(&good, "runtime", json!(runtime))).await;
        let body = answer.refused(ErrorCode::Refused, runtime);
        assert_eq!(body.details["field"], "runtime");
        assert!(body.error.contains("node24") && body.error.contains("python3.13"), "{}", body.error);
    }
    assert_eq!(objects_of(&daemon.home).await, Vec::<String>::new());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_not_the_expected_json_is_rejected() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let ask = |content_type: Option<&'static str>, body: Vec<u8>| {
        let ask = api.with_token("POST", SANDBOXES).body(body);
        Answer::to(content_type.into_iter().fold(ask, |ask, kind| ask.header("content-type", kind)))
    };
    let json = Some("application/json");
    let deep = "[".repeat(100_000);
    let bodies: [&[u8]; 9] = [
        b"{",
        b"not json",
        b"{'sessionKey':'k'}",
        b"{\"sessionKey\":\"k\"} {}",
        b"{\"sessionKey\":\"k\",}",
        b"{\"sessionKey\":\"\xff\"}",
        b"[]",
        b"null",
        deep.as_bytes(),
    ];
    for body in bodies {
        let what = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        ask(json, body.to_vec()).await.refused(ErrorCode::InvalidRequest, &what);
    }
    let twice = br#"{"sessionKey":"a","sessionKey":"b"}"#.to_vec();
    ask(json, twice).await.refused(ErrorCode::InvalidRequest, "one field twice");
    ask(json, Vec::new()).await.faults("sessionKey", "an empty body");
    ask(None, Vec::new()).await.faults("sessionKey", "an empty body of no type");

    let good = br#"{"sessionKey":" "}"#.to_vec();
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json", ""] {
        ask(Some(kind), good.clone()).await.refused(ErrorCode::UnsupportedMediaType, kind);
    }
    ask(None, good.clone()).await.refused(ErrorCode::UnsupportedMediaType, "no type");
    for kind in ["application/json; charset=utf-8", "Application/JSON"] {
        ask(Some(kind), good.clone()).await.faults("sessionKey", kind);
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn null_is_absent_and_unknown_fields_are_ignored() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let request = json!({
        "sessionKey": "chat:1", "runtime": null, "idleTtlMs": null, "resources": null, "network": null,
        "ports": null, "image": null, "env": null, "metadata": null, "tomorrow": { "is": ["another", "day"] },
    });
    let made = api.post(SANDBOXES, &request).await;
    assert_eq!((made.status, &made.json()["created"]), (200, &json!(true)), "{made:?}");
    let nulls = json!({
        "sessionKey": "chat:1",
        "resources": { "vcpus": null, "memoryMb": null, "pids": null, "diskMb": null, "gpus": 8 },
        "network": { "mode": null, "allow": null },
    });
    let again = api.post(SANDBOXES, &nulls).await;
    assert_eq!((again.status, &again.json()["created"]), (200, &json!(false)), "{again:?}");
    assert_eq!(again.json()["sandboxId"], made.json()["sandboxId"]);

    let id: SandboxId = made.json()["sandboxId"].as_str().unwrap().parse().unwrap();
    let request = json!({
        "script": "echo hi", "cmd": null, "args": null, "cwd": null, "env": null, "stdin": null,
        "stdinBase64": null, "timeoutMs": null, "detached": null, "openStdin": null, "readOnly": null,
        "commandId": null, "unknown": 1,
    });
    let started = api.post(&format!("{SANDBOXES}/{id}/commands"), &request).await;
    assert_eq!((started.status, &started.json()["timeoutMs"]), (200, &json!(30_000)), "{started:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_command_request_names_its_field() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let sandbox = daemon.sandbox("chat:1").await;
    let path = format!("{SANDBOXES}/{sandbox}/commands");
    let good = json!({ "script": "touch ran" });
    let many: Value = (0..=limits::MAX_ENV_ENTRIES).map(|at| (format!("V{at}"), json!(""))).collect();
    let cases = [
        ("cmd", json!("bash"), "script"),
        ("args", json!([]), "script"),
        ("script", json!(null), "script"),
        ("script", json!("touch ran \0"), "script"),
        ("script", json!(["touch", "ran"]), "script"),
        ("cwd", json!("a\0b"), "cwd"),
        ("cwd", json!("d/".repeat(2048)), "cwd"),
        ("cwd", json!(1), "cwd"),
        ("env", many, "env"),
        ("env", json!({ "A": "x".repeat(limits::MAX_ENV_BYTES) }), "env"),
        ("env", json!({ "": "x" }), "env."),
        ("env", json!({ "A=B": "x" }), "env.A=B"),
        ("env", json!({ "A": "x\0" }), "env.A"),
        ("env", json!({ "A": 1 }), "env.A"),
        ("env", json!(["A=1"]), "env"),
        ("stdinBase64", json!("not base64!"), "stdinBase64"),
        ("stdinBase64", json!("YQ"), "stdinBase64"),
        ("timeoutMs", json!("30000"), "timeoutMs"),
        ("timeoutMs", json!(-1), "timeoutMs"),
        ("timeoutMs", json!(1000.5), "timeoutMs"),
        ("detached", json!("yes"), "detached"),
        ("openStdin", json!(1), "openStdin"),
        ("readOnly", json!("yes"), "readOnly"),
        ("commandId", json!("mine"), "commandId"),
        ("commandId", json!("cmd_short"), "commandId"),
        ("commandId", json!("cmd_0000000000000000/"), "commandId"),
        ("commandId", json!(format!("cmd_{}", "0".repeat(65))), "commandId"),
    ];
    for (field, value, named) in cases {
        let request = with(&good, field, value);
        let what: String = request.to_string().chars().take(200).collect();
        api.post(&path, &request).await.faults(named, &what);
    }
    let whole = [
        (json!({}), "script"),
        (json!({ "cmd": "" }), "cmd"),
        (json!({ "cmd": "touch\0", "args": ["ran"] }), "cmd"),
        (json!({ "cmd": "touch", "args": ["ran\0"] }), "args"),
        (json!({ "cmd": "touch", "args": vec!["ran"; limits::MAX_ARGS + 1] }), "args"),
        (json!({ "cmd": "touch", "args": ["ran", 1] }), "args[1]"),
        (json!({ "script": "touch ran", "stdin": "a", "stdinBase64": "YQ==" }), "stdin"),
    ];
    for (request, named) in whole {
        let what: String = request.to_string().chars().take(200).collect();
        api.post(&path, &request).await.faults(named, &what);
    }
    let long = with(&good, "stdin", json!("x".repeat(limits::MAX_STDIN_BYTES + 1)));
    let body = api.post(&path, &long).await.refused(ErrorCode::TooLarge, "stdin of 8 MiB and a byte");
    assert_eq!(body.details["limit"], limits::MAX_STDIN_BYTES);
    assert_eq!(daemon.output(&sandbox, "ls").await, "", "one of them ran");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_allowed_values_are_accepted() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let request = json!({
        "sessionKey": "k".repeat(512), "runtime": "python3.13", "idleTtlMs": 21_600_000,
        "resources": { "memoryMb": 16_384, "pids": 4096 }, "ports": [1, 65_535, 3000, 80, 80],
    });
    let made = api.post(SANDBOXES, &request).await;
    assert_eq!(made.status, 200, "{:?}", made.json());
    let id: SandboxId = made.json()["sandboxId"].as_str().unwrap().parse().unwrap();

    let names = limits::MAX_ENV_ENTRIES;
    let fill = limits::MAX_ENV_BYTES / names - "V00".len();
    let env: Value = (0..names).map(|at| (format!("V{at:02}"), json!("x".repeat(fill)))).collect();
    let stdin = "x".repeat(limits::MAX_STDIN_BYTES);
    let request = json!({ "script": "env | grep -c '^V..=xx'; wc -c", "env": env, "stdin": stdin });
    let request = serde_json::from_value(request).unwrap();
    let received = outcome(daemon.client.run(&id, &request).await.unwrap()).await;
    assert_eq!(received.text(), format!("{names}\n{}\n", limits::MAX_STDIN_BYTES));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_vcpus_than_the_machine_has_are_accepted() {
    let daemon = Daemon::start().await;
    let request = json!({ "sessionKey": "chat:1", "resources": { "vcpus": 8 } });
    let made = HttpClient::of(&daemon).post(SANDBOXES, &request).await;
    assert_eq!(made.status, 200, "{:?}", made.json());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_out_of_range_timeout_is_clamped_and_reported() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_MAX_COMMAND_TIMEOUT_MS", "60000")).await;
    let api = HttpClient::of(&daemon);
    let path = format!("{SANDBOXES}/{}/commands", daemon.sandbox("chat:1").await);
    let cases = [(json!(0), 100), (json!(99), 100), (json!(101), 101), (json!(null), 30_000)];
    let large = [(json!(60_000), 60_000), (json!(60_001), 60_000), (json!(u64::MAX), 60_000)];
    for (requested, held) in cases.into_iter().chain(large) {
        let request = json!({ "script": "true", "timeoutMs": requested });
        let started = api.post(&path, &request).await;
        assert_eq!((started.status, &started.json()["timeoutMs"]), (200, &json!(held)), "{requested}");
        let id = started.json()["commandId"].as_str().unwrap().to_owned();
        assert_eq!(api.get(&format!("{path}/{id}")).await.json()["timeoutMs"], held, "{requested}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_command_query_names_its_field() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let sandbox = daemon.sandbox("chat:1").await;
    let request = script("echo hi; exec sleep 60");
    let command = daemon.client.start(&sandbox, &request).await.unwrap().command_id;
    let path = format!("{SANDBOXES}/{sandbox}/commands/{command}");
    for signal in [json!("SIGNOPE"), json!(""), json!("9"), json!("sigterm"), json!("TERM "), json!(15)] {
        let answer = api.post(&format!("{path}:kill"), &json!({ "signal": signal })).await;
        answer.faults("signal", &signal.to_string());
    }
    let numbers = ["", "x", "-1", "1.5", "18446744073709551616", "%31%00"];
    for number in numbers {
        api.get(&format!("{path}/wait?timeoutMs={number}")).await.faults("timeoutMs", number);
        api.get(&format!("{path}/logs?after={number}")).await.faults("after", number);
    }
    for follow in ["", "yes", "TRUE", "1"] {
        api.get(&format!("{path}/logs?follow={follow}")).await.faults("follow", follow);
    }
    assert_eq!(api.get(&path).await.json()["state"], "running", "a bad signal ended it");
    daemon.client.kill(&sandbox, &command, &Default::default()).await.unwrap();
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_numbers_are_accepted() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let sandbox = daemon.sandbox("chat:1").await;
    let command = daemon.client.start(&sandbox, &script("echo hi")).await.unwrap().command_id;
    let path = format!("{SANDBOXES}/{sandbox}/commands/{command}");
    let max = u64::MAX;
    let ended = api.get(&format!("{path}/wait?timeoutMs={max}")).await;
    assert_eq!((ended.status, &ended.json()["exitCode"]), (200, &json!(0)));
    for follow in [true, false] {
        let logs = api.get(&format!("{path}/logs?after={max}&follow={follow}")).await;
        let text = String::from_utf8(logs.body).unwrap();
        assert!(
            logs.status == 200 && !text.contains("\"data\""),
            "there is no record after the last one: {text}"
        );
    }
    daemon.stop().await;
}

/// Sends a body that our clients never send.
async fn send_body(api: &HttpClient, path: &str, body: &str) -> Answer {
    let ask = api.with_token("POST", path).header("content-type", "application/json");
    Answer::to(ask.body(body.to_owned())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_is_not_an_object() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let sandbox = daemon.sandbox("chat:1").await;
    let command = daemon.client.start(&sandbox, &script("exec sleep 60")).await.unwrap().command_id;
    let path = format!("{SANDBOXES}/{sandbox}");
    let wholes = [
        (SANDBOXES.to_owned(), json!(["chat:2", null, null, null, null, null, null, null, null])),
        (format!("{path}:park"), json!([true])),
        (format!("{path}:touch"), json!([10_000])),
        (
            format!("{path}/commands"),
            json!([null, null, "touch ran", null, null, null, null, null, null, null]),
        ),
        (format!("{path}/commands/{command}:kill"), json!(["SIGKILL"])),
        (format!("{path}/files:write"), json!([[{ "path": "written", "contentBase64": "" }]])),
    ];
    for (path, body) in wholes {
        send_body(&api, &path, &body.to_string()).await.faults("body", &path);
    }
    let parts = [
        (SANDBOXES.to_owned(), json!({ "sessionKey": "chat:2", "resources": [1, 512] }), "resources"),
        (SANDBOXES.to_owned(), json!({ "sessionKey": "chat:2", "network": ["none"] }), "network"),
        (format!("{path}/files:write"), json!({ "files": [["written", "", null]] }), "files[0]"),
        (format!("{path}/files:write"), json!({ "files": { "path": "written" } }), "files"),
        (format!("{path}/files:write"), json!({ "files": [null] }), "files[0]"),
    ];
    for (path, body, named) in parts {
        send_body(&api, &path, &body.to_string()).await.faults(named, &body.to_string());
    }
    let objects = objects_of(&daemon.home).await;
    assert!(
        objects.iter().all(|name| name.ends_with(sandbox.as_str())),
        "another sandbox was created: {objects:?}"
    );
    assert_eq!(api.get(&format!("{path}/commands/{command}")).await.json()["state"], "running");
    assert_eq!(daemon.output(&sandbox, "ls").await, "");
    daemon.client.kill(&sandbox, &command, &Default::default()).await.unwrap();
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_about_a_body_use_the_words_of_the_api() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let sandbox = format!("{SANDBOXES}/sbx_0000000000000000");
    // A route, and a string field of its body with a value of another type.
    let routes = [
        (SANDBOXES.to_owned(), r#""idleTtlMs":"a secret""#, "idleTtlMs"),
        (SANDBOXES.to_owned(), r#""resources":{"vcpus":"a secret"}"#, "resources.vcpus"),
        (SANDBOXES.to_owned(), r#""resources":{"vcpus":1,"vcpus":2}"#, "resources.vcpus"),
        (SANDBOXES.to_owned(), r#""ports":[1,-1]"#, "ports[1]"),
        (SANDBOXES.to_owned(), r#""env":"a secret""#, "env"),
        (SANDBOXES.to_owned(), r#""env":{"A":["a secret"]}"#, "env.A"),
        (format!("{sandbox}:park"), r#""force":"a secret""#, "force"),
        (format!("{sandbox}:touch"), r#""idleTtlMs":1.5"#, "idleTtlMs"),
        (format!("{sandbox}/commands"), r#""timeoutMs":-1"#, "timeoutMs"),
        (format!("{sandbox}/commands"), r#""args":"a secret""#, "args"),
        (format!("{sandbox}/commands/cmd_0000000000000000:kill"), r#""signal":9"#, "signal"),
        (format!("{sandbox}/files:write"), r#""files":"a secret""#, "files"),
        (format!("{sandbox}/files:write"), r#""files":[{"path":"a secret"}]"#, "files[0].contentBase64"),
        (
            format!("{sandbox}/files:write"),
            r#""files":[{"path":"a","contentBase64":"","mode":4294967296}]"#,
            "files[0].mode",
        ),
    ];
    for (path, field, named) in routes {
        let (key, _) = field.split_once(':').unwrap();
        let cases = [
            ("[]".to_owned(), "body"),
            ("null".to_owned(), "body"),
            ("\"a secret\"".to_owned(), "body"),
            ("true".to_owned(), "body"),
            ("{".to_owned(), "body"),
            ("{\"unknown\":1".to_owned(), "body"),
            (format!("{{{key}"), "body"),
            ("{'a':1}".to_owned(), "body"),
            (format!("{{{key}:nope}}"), "body"),
            (format!("{{\"unknown\":{}", "[".repeat(1000)), "body"),
            (format!("{{{key}:null,{key}:null}}"), key.trim_matches('"')),
            (format!("{{{field}}}"), named),
        ];
        for (body, named) in cases {
            let what = format!("{path} {}", &body[..body.len().min(80)]);
            let answer = send_body(&api, &path, &body).await;
            let reported = answer.refused(ErrorCode::InvalidRequest, &what);
            let is_named = reported.details["field"] == named && reported.error.contains(named);
            assert!(is_named, "{what}: {} {:?}", reported.error, reported.details);
            let inside = ["struct", "enum", "variant `", "?", "::", "u32", "u64", "usize", "StringMap"];
            for word in inside.into_iter().chain(["a secret", "sequence", "EOF", "not what it must be"]) {
                assert!(!reported.error.contains(word), "{what} tells {word:?}: {}", reported.error);
            }
        }
    }
    daemon.stop().await;
}
