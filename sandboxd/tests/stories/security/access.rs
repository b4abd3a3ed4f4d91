//! Access to the API: tokens, host names, and the errors for unknown resources.

use sandbox_api::{ErrorCode, REQUEST_ID_HEADER, SandboxId, TOKEN_HEADER};
use serde_json::json;

use crate::support::engine_view::objects_of;
use crate::support::harness::{Daemon, Home, TOKEN, script};
use crate::support::http::{Answer, HttpClient, Wire};
use crate::support::operations::{METHODS, NO_COMMAND, NO_SANDBOX, operations};

#[tokio::test(flavor = "multi_thread")]
async fn every_path_but_two_checks_the_token_first() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let open = ["/v1/health", "/v1/ready"];
    let mut routes: Vec<String> =
        operations(&api).await.into_iter().map(|operation| operation.path).collect();
    routes.dedup();
    assert!(routes.len() >= 10 && open.iter().all(|path| routes.iter().any(|route| route == path)));
    let strangers = ["/", "/nope", "/v1", "/v1/health/", "/v1/healthz", "/v1/%68ealth", "/V1/HEALTH"];
    let closed = routes.iter().map(String::as_str).filter(|path| !open.contains(path)).chain(strangers);
    for path in closed {
        for method in METHODS {
            let answer = Answer::to(api.without_token(method, path)).await;
            answer.refused(ErrorCode::Unauthenticated, &format!("{method} {path}"));
        }
    }
    for path in strangers {
        let body = api.get(path).await.refused(ErrorCode::NotFound, path);
        assert_eq!(body.details["resource"], "route", "{path}");
    }
    // An HTTP client would normalize this path.
    let mut wire = Wire::to(&daemon).await;
    wire.send(b"GET /v1/health/../sandboxes HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    wire.answer().await.refused(ErrorCode::Unauthenticated, "a path with dots");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_right_token_is_accepted() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let (bearer, wrong) = (format!("Bearer {TOKEN}"), format!("{TOKEN}x"));
    let bearer_lower = format!("bearer  {TOKEN}");
    let right: [&[(&str, &str)]; 6] = [
        &[(TOKEN_HEADER, TOKEN)],
        &[("authorization", &bearer)],
        &[("authorization", &bearer_lower)],
        &[(TOKEN_HEADER, ""), ("authorization", &bearer)],
        &[(TOKEN_HEADER, TOKEN), ("authorization", &bearer)],
        &[(TOKEN_HEADER, TOKEN), ("authorization", "Basic b2Y6YS1mcm9udA==")],
    ];
    let cut = &TOKEN[1..];
    let refused: [&[(&str, &str)]; 11] = [
        &[(TOKEN_HEADER, "wrong")],
        &[(TOKEN_HEADER, &wrong)],
        &[(TOKEN_HEADER, cut)],
        &[("authorization", TOKEN)],
        &[("authorization", "Bearer ")],
        &[("authorization", "Basic dGhlOnRva2Vu")],
        &[(TOKEN_HEADER, "wrong"), ("authorization", &bearer)],
        // Every token in the request must be right, and there may be only one of each.
        &[(TOKEN_HEADER, TOKEN), ("authorization", "Bearer wrong")],
        &[(TOKEN_HEADER, TOKEN), (TOKEN_HEADER, "wrong")],
        &[(TOKEN_HEADER, TOKEN), (TOKEN_HEADER, TOKEN)],
        &[("authorization", &bearer), ("authorization", &bearer)],
    ];
    let ask = |headers: &[(&str, &str)]| {
        let path = format!("/v1/sandboxes/{NO_SANDBOX}:stop");
        headers.iter().fold(api.without_token("POST", &path), |ask, (name, value)| ask.header(*name, *value))
    };
    for headers in right {
        assert_eq!(Answer::to(ask(headers)).await.status, 200, "{headers:?}");
    }
    for headers in refused {
        Answer::to(ask(headers)).await.refused(ErrorCode::Unauthenticated, &format!("{headers:?}"));
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_readiness_are_open_and_every_response_has_an_id() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let health = Answer::to(api.without_token("GET", "/v1/health")).await;
    assert_eq!(health.status, 200);
    assert_eq!((&health.json()["ok"], &health.json()["engine"]), (&json!(true), &json!("docker")));
    assert!(health.json()["version"].as_str().is_some_and(|version| !version.is_empty()));
    let ready = Answer::to(api.without_token("GET", "/v1/ready?wrong=token")).await;
    assert_eq!(ready.status, 200);
    let ids = [health.header(REQUEST_ID_HEADER), ready.header(REQUEST_ID_HEADER)];
    assert!(ids[0] != ids[1] && ids.iter().all(|id| id.starts_with("req_")), "{ids:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_method_gets_the_allowed_ones() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let sandbox = format!("/v1/sandboxes/{NO_SANDBOX}");
    let command = format!("{sandbox}/commands/{NO_COMMAND}");
    let cases = [
        ("PATCH", "/v1/sandboxes".to_owned(), "POST"),
        ("DELETE", "/v1/health".to_owned(), "GET"),
        ("PUT", sandbox.clone(), "DELETE"),
        ("POST", sandbox.clone(), "DELETE"),
        ("GET", format!("{sandbox}:stop"), "POST"),
        ("DELETE", format!("{sandbox}/commands"), "POST"),
        ("POST", command.clone(), "GET"),
        ("PUT", format!("{command}:kill"), "POST"),
        ("POST", format!("{command}/logs"), "GET"),
        ("GET", format!("{sandbox}/files:write"), "POST"),
        ("POST", format!("{sandbox}/files:read"), "GET"),
    ];
    for (method, path, allowed) in cases {
        let what = format!("{method} {path}");
        let answer = Answer::to(api.with_token(method, &path)).await;
        answer.refused(ErrorCode::MethodNotAllowed, &what);
        let allow: Vec<&str> = answer.header("allow").split(',').map(str::trim).collect();
        assert!(allow.contains(&allowed), "{what}: {allow:?}");
        assert!(!allow.contains(&method), "{what}: {allow:?}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_resources_are_reported_by_kind() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let sandbox = daemon.sandbox("chat:1").await;
    let script = json!({ "script": "true" });
    let files = json!({ "files": [{ "path": "a", "contentBase64": "" }] });
    let malformed = ["x", "sbx_", "sbx_0", "cmd_0000000000000000", "sbx_000000000000000%2F", "%00"];
    for id in malformed.into_iter().chain([NO_SANDBOX]) {
        let path = format!("/v1/sandboxes/{id}");
        let command = format!("{path}/commands/{NO_COMMAND}");
        let answers = [
            api.post(&format!("{path}/commands"), &script).await,
            api.get(&command).await,
            api.get(&format!("{command}/wait")).await,
            api.get(&format!("{command}/logs")).await,
            api.post(&format!("{command}:kill"), &json!({})).await,
            api.post(&format!("{path}/files:write"), &files).await,
            api.get(&format!("{path}/files:read?path=a")).await,
        ];
        for (at, answer) in answers.iter().enumerate() {
            let what = format!("request {at} for sandbox {id}");
            assert_eq!(answer.refused(ErrorCode::NotFound, &what).details["resource"], "sandbox", "{what}");
        }
    }
    for id in ["x", "cmd_", "sbx_0000000000000000", NO_COMMAND] {
        let command = format!("/v1/sandboxes/{sandbox}/commands/{id}");
        let answers = [
            api.get(&command).await,
            api.get(&format!("{command}/wait")).await,
            api.get(&format!("{command}/logs")).await,
            api.post(&format!("{command}:kill"), &json!({})).await,
        ];
        for (at, answer) in answers.iter().enumerate() {
            let what = format!("request {at} for command {id}");
            assert_eq!(answer.refused(ErrorCode::NotFound, &what).details["resource"], "command", "{what}");
        }
    }
    let verbs = [format!("/v1/sandboxes/{sandbox}:fly"), format!("/v1/sandboxes/{sandbox}/commands/x:fly")];
    // Not UTF-8, so not a valid id.
    let bytes =
        ["/v1/sandboxes/%ff/commands".to_owned(), format!("/v1/sandboxes/{sandbox}/commands/%ff:kill")];
    for path in verbs.into_iter().chain(bytes) {
        let answer = api.post(&path, &json!({})).await;
        assert_eq!(answer.refused(ErrorCode::NotFound, &path).details["resource"], "route", "{path}");
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_hosts_and_origins_are_rejected() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_ALLOWED_HOSTS", "box.lan, other.lan")).await;
    let api = HttpClient::of(&daemon);
    let own = daemon.base.strip_prefix("http://").unwrap().to_owned();
    let ask = |path: &str, host: &str, origin: Option<&str>| {
        let ask = api.with_token("GET", path).header("host", host);
        Answer::to(origin.into_iter().fold(ask, |ask, origin| ask.header("origin", origin)))
    };
    let page = format!("http://{own}");
    for host in
        [&own, "localhost:1", "LocalHost", "127.0.0.2", "[::1]:8080", "192.168.7.9:80", "box.lan:8080"]
    {
        assert_eq!(ask("/v1/health", host, None).await.status, 200, "{host}");
    }
    assert_eq!(ask("/v1/health", &own, Some(&page)).await.status, 200);
    for path in ["/v1/health", "/v1/sandboxes", "/nope"] {
        for host in ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example"]
        {
            ask(path, host, None).await.refused(ErrorCode::Forbidden, &format!("{path} at {host}"));
        }
        for origin in ["http://evil.example", "null", "http://localhost:3000", "https://box.lan", "file://"] {
            let answer = ask(path, &own, Some(origin)).await;
            answer.refused(ErrorCode::Forbidden, &format!("{path} from {origin}"));
        }
    }
    // Without a token only the missing token is reported, whatever the host.
    let answer = Answer::to(api.without_token("GET", "/v1/sandboxes").header("host", "evil.example")).await;
    answer.refused(ErrorCode::Unauthenticated, "no token and a foreign host");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn exhausted_capacity_has_a_retry_after() {
    let daemon = Daemon::start_in(Home::new().set("SANDBOXD_MAX_CONCURRENT", "1")).await;
    let api = HttpClient::of(&daemon);
    let first = daemon.sandbox("chat:1").await;
    // An idle sandbox would be parked for the new one.
    let command = daemon.client.start(&first, &script("sleep 300")).await.unwrap().command_id;
    let answer = api.post("/v1/sandboxes", &json!({ "sessionKey": "chat:2" })).await;
    let body = answer.refused(ErrorCode::CapacityExhausted, "a second session");
    assert_eq!(body.details["maxConcurrent"], 1);
    assert!(answer.header("retry-after").parse::<u64>().is_ok_and(|seconds| seconds > 0));
    assert_eq!(daemon.sandbox("chat:1").await, first, "the running sandbox keeps running");
    daemon.client.kill(&first, &command, &Default::default()).await.unwrap();
    daemon.client.delete(&first).await.unwrap();
    assert_ne!(daemon.sandbox("chat:2").await, first);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_and_delete_remove_container_and_volume() {
    let daemon = Daemon::start().await;
    let api = HttpClient::of(&daemon);
    let mut sandboxes: Vec<SandboxId> = Vec::new();
    for (method, verb) in [("POST", ":stop"), ("DELETE", "")] {
        let sandbox = daemon.sandbox("chat:1").await;
        let names = [format!("/remcochat-sandbox-{sandbox}"), format!("remcochat-sandbox-ws-{sandbox}")];
        assert_eq!(objects_of(&daemon.home).await, names);
        for _ in 0..2 {
            let path = format!("/v1/sandboxes/{sandbox}{verb}");
            let answer = Answer::to(api.with_token(method, &path)).await;
            assert_eq!((answer.status, answer.json()), (200, json!({ "ok": true })), "{method} {path}");
            assert_eq!(objects_of(&daemon.home).await, Vec::<String>::new(), "{method} {path}");
        }
        assert!(!daemon.home.path().join("run").join(sandbox.as_str()).exists(), "its socket stays");
        sandboxes.push(sandbox);
    }
    assert_ne!(sandboxes[0], sandboxes[1]);
    for id in [NO_SANDBOX, "x", "sbx_", "%20"] {
        let stop = api.post(&format!("/v1/sandboxes/{id}:stop"), &json!({})).await;
        assert_eq!((stop.status, stop.json()), (200, json!({ "ok": true })), "{id}");
        let delete = Answer::to(api.with_token("DELETE", &format!("/v1/sandboxes/{id}"))).await;
        assert_eq!((delete.status, delete.json()), (200, json!({ "ok": true })), "{id}");
    }
    daemon.stop().await;
}
