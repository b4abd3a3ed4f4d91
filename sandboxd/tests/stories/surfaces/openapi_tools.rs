//! The tools over plain HTTP.

use serde_json::{Value, json};

use crate::support::harness::{Daemon, TOKEN};
use crate::support::http::{Answer, HttpClient};
use crate::support::visitor::visit;

struct Tools {
    http: HttpClient,
    headers: Vec<(&'static str, &'static str)>,
}

impl Tools {
    fn of(daemon: &Daemon, headers: &[(&'static str, &'static str)]) -> Self {
        Self { http: HttpClient::of(daemon), headers: headers.to_vec() }
    }

    async fn call(&self, tool: &str, body: impl Into<reqwest::Body>) -> Answer {
        let request = self.http.without_token("POST", &format!("/tools/{tool}")).body(body);
        let request = request.header("authorization", format!("Bearer {TOKEN}"));
        let request = request.header("content-type", "application/json");
        Answer::to(self.headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)))
            .await
    }

    async fn result(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.call(tool, arguments.to_string()).await;
        assert_eq!(answer.status, 200, "{tool}: {:?}", answer.json());
        answer.json()
    }

    async fn failure(&self, tool: &str, body: &str) -> (u16, String) {
        let answer = self.call(tool, body.to_owned()).await;
        (answer.status, answer.json()["error"].as_str().unwrap().to_owned())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_finds_the_tools_and_calls_them() {
    let daemon = Daemon::start().await;
    let http = HttpClient::of(&daemon);
    let described = Answer::to(http.with_token("GET", "/tools/openapi.json")).await;
    assert_eq!(described.header("content-type"), "application/json; charset=utf-8");
    let paths = described.json()["paths"].as_object().unwrap().clone();
    assert_eq!(paths["/bash"]["post"]["operationId"], "bash");

    let tools = Tools::of(&daemon, &[("x-openwebui-chat-id", "chat-7"), ("x-openwebui-user-id", "ann")]);
    tools.result("write", json!({ "path": "a", "content": "one\n" })).await;
    let ran = tools.result("bash", json!({ "command": "cat a; exit 3" })).await;
    assert_eq!((&ran["stdout"], &ran["exitCode"]), (&"one\n".into(), &3.into()));
    let read = tools.result("read", json!({ "path": "a" })).await;
    assert_eq!(read["content"], "one\n");
    let link = tools.result("download_link", json!({ "path": "a" })).await;
    assert_eq!(visit(link["url"].as_str().unwrap()).await.body, "one\n");
    // A host may send no body if no argument is required.
    let info = tools.call("sandbox_info", "").await;
    assert_eq!((info.status, &info.json()["workspace"]), (200, &"/vercel/sandbox/workspace".into()));
    // Another user of the same host has another sandbox, even in a chat of the same name.
    let other = Tools::of(&daemon, &[("x-openwebui-chat-id", "chat-7"), ("x-openwebui-user-id", "bob")]);
    assert_eq!(other.failure("read", r#"{"path":"a"}"#).await, (422, "`a` does not exist".into()));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_cannot_work_is_explained() {
    let daemon = Daemon::start().await;
    let tools = Tools::of(&daemon, &[("x-sandbox-session", "s")]);
    for (tool, body, status, problem) in [
        ("bash", "{", 400, "not JSON"),
        ("bash", "[]", 400, "JSON object"),
        ("bash", "{}", 422, "command"),
        ("bash", r#"{"command":"true","speed":9}"#, 422, "speed"),
        ("Bash", "{}", 404, "`Bash`"),
    ] {
        let failure = tools.failure(tool, body).await;
        assert!(failure.0 == status && failure.1.contains(problem), "{tool} {body}: {failure:?}");
    }
    let none = Tools::of(&daemon, &[]);
    assert!(none.failure("bash", r#"{"command":"true"}"#).await.1.contains("sandbox_open"));
    let unfilled = Tools::of(&daemon, &[("x-sandbox-session", "{{chat}}")]);
    assert_eq!(unfilled.failure("bash", "{}").await.0, 400);
    let http = HttpClient::of(&daemon);
    for path in ["/tools/openapi.json", "/tools/bash", "/tools/"] {
        let refused = Answer::to(http.without_token("GET", path)).await;
        assert_eq!(refused.status, 401, "{path}");
        assert_eq!(refused.header("www-authenticate").to_ascii_lowercase(), "bearer", "{path}");
    }
    let foreign = http.with_token("POST", "/tools/bash").header("origin", "https://evil.example");
    assert_eq!(Answer::to(foreign.body("{}")).await.status, 403);
    daemon.stop().await;
}
